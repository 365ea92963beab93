package docker

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"

	"github.com/flisk-go/flisk/pkg/runtime"
)

// TestDeaths: what a follow says of the end of a process, by what the engine tells
// of it and by what there is afterwards.
func TestDeaths(t *testing.T) {
	t.Parallel()
	running := container.State{Running: true}
	tell := func(action events.Action, attribute ...string) events.Message {
		m := events.Message{Action: action, Actor: events.Actor{ID: "c", Attributes: map[string]string{}}}
		if len(attribute) > 0 {
			m.Actor.Attributes[attribute[0]] = attribute[1]
		}
		return m
	}
	die := func(code string) events.Message { return tell(events.ActionDie, "exitCode", code) }
	signal := func(number string) events.Message { return tell(events.ActionKill, "signal", number) }
	start := tell(events.ActionStart)
	for name, c := range map[string]struct {
		told   []events.Message
		after  container.State
		served bool
		want   []string
	}{
		"by itself":         {[]events.Message{die("3"), start}, running, true, []string{"ended (exit code 3); starting it again"}},
		"and is not back":   {[]events.Message{die("3")}, container.State{Running: true, Restarting: true}, true, []string{"ended (exit code 3); starting it again"}},
		"killed":            {[]events.Message{signal("9"), die("137"), start}, running, true, []string{"ended (signal 9 (killed)); starting it again"}},
		"killed by hand":    {[]events.Message{signal("9"), die("137")}, container.State{}, true, []string{"ended (signal 9 (killed)); flisk up starts another"}},
		"stopped":           {[]events.Message{signal("15"), die("0")}, container.State{}, true, nil},
		"stopped by force":  {[]events.Message{signal("15"), signal("9"), die("137")}, container.State{}, true, nil},
		"and started again": {[]events.Message{signal("15"), die("0"), start, die("3"), start}, running, true, []string{"ended (exit code 3); starting it again"}},
		"hung up":           {[]events.Message{signal("1"), die("1"), start}, running, true, []string{"ended (exit code 1); starting it again"}},
		"never ready":       {[]events.Message{die("2"), start}, running, false, []string{"ended before it was ready (exit code 2)"}},
		"out of memory":     {[]events.Message{tell(events.ActionOOM), die("137"), start}, running, true, []string{"ended (signal 9 (killed), because memory ran out); starting it again"}},
		"again and again": {[]events.Message{start, die("1"), start, die("1"), start, die("1"), start, die("1"), start, die("1"), start}, running, true, []string{
			"ended (exit code 1); starting it again", "ended (exit code 1); starting it again",
			"ended (exit code 1), 3 times in a row soon after it was ready, and not every further time is told; starting it again",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var got []string
				d := deaths{of: map[string]*lives{}, emit: func(l runtime.Line) error {
					if l.Replica != "bot-1" || l.Time.IsZero() {
						t.Errorf("the line %+v", l)
					}
					got = append(got, l.Text)
					return nil
				}}
				c1 := seen{container.InspectResponse{ContainerJSONBase: &container.ContainerJSONBase{ID: "c", State: &c.after}}, runtime.Ref{Agent: "bot", Replica: "bot-1"}}
				look := func() {
					if err := d.look([]seen{c1}, func(seen) bool { return c.served }); err != nil {
						t.Error(err)
					}
				}
				for _, m := range c.told {
					m.TimeNano = time.Now().UnixNano()
					d.hear(m)
				}
				look()
				if len(got) > 0 {
					t.Errorf("told before its last words are read: %q", got)
				}
				<-time.After(lastWords)
				look()
				<-time.After(backTime)
				look()
				for i, text := range c.want {
					c.want[i] = "[flisk] " + text
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("told were\n%q, want\n%q", got, c.want)
				}
			})
		})
	}
}

// TestDeathBetweenLines: what a process wrote is before its end, and what the next
// one writes is behind it. One whose container was removed is told of by whoever
// did that.
func TestDeathBetweenLines(t *testing.T) {
	t.Parallel()
	var got []string
	d := deaths{of: map[string]*lives{}, emit: func(l runtime.Line) error { got = append(got, l.Text); return nil }}
	at := time.Now()
	die := events.Message{Action: events.ActionDie, TimeNano: at.UnixNano(), Actor: events.Actor{ID: "c", Attributes: map[string]string{"exitCode": "3"}}}
	c := seen{container.InspectResponse{ContainerJSONBase: &container.ContainerJSONBase{ID: "c", State: &container.State{}}}, runtime.Ref{}}
	d.lives("c").served = true
	d.hear(die)
	for _, line := range []time.Time{at.Add(-1), at.Add(1), at.Add(2)} {
		if err := d.before(c, line); err != nil {
			t.Error(err)
		}
		got = append(got, "line")
	}
	d.hear(die)
	d.hear(events.Message{Action: events.ActionDestroy, Actor: events.Actor{ID: "c"}})
	if err := d.before(c, at.Add(3)); err != nil {
		t.Error(err)
	}
	if want := []string{"line", "[flisk] ended (exit code 3); starting it again", "line", "line"}; !slices.Equal(got, want) {
		t.Errorf("told were %q, want %q", got, want)
	}
}
