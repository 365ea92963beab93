package docker

import (
	"strconv"
	"time"

	"github.com/docker/docker/api/types/events"

	"github.com/flisk-go/flisk/pkg/runtime"
)

// When a follow says that a process has ended.
const (
	// lastWords is how long what a process wrote last may take to come. What the
	// next one writes ends that.
	lastWords = 2 * followEvery

	// backTime is how long one that was killed by hand may stay away before nothing
	// is expected to start it: "flisk kill" starts it at once.
	backTime = changeTime - followEvery
)

// deaths are the ends of processes that a follow tells of, among the lines that they
// wrote: of those that came by themselves or by a kill, and not of those that
// somebody wanted and waits for. A container is known by its id.
type deaths struct {
	emit func(runtime.Line) error
	of   map[string]*lives
}

// lives are the processes of one container.
type lives struct {
	untold  []death
	began   time.Time // of the last process; zero when nobody heard of it
	wanted  bool      // its end was asked for: it got a signal that stops
	starved bool      // it had no memory left
	served  bool      // it gets, or got, requests
	crashes runtime.Burst
}

// death is one that was not told of yet.
type death struct {
	at    time.Time // by the engine's clock
	heard time.Time // by this machine's
	exit  string
	lived time.Duration
}

// hear takes what the engine tells of a container.
func (d *deaths) hear(m events.Message) {
	c, at := d.lives(m.Actor.ID), time.Unix(0, m.TimeNano)
	switch m.Action {
	case events.ActionStart:
		c.began, c.wanted, c.starved = at, false, false
	case events.ActionKill:
		switch m.Actor.Attributes["signal"] {
		case "15", "2", "3":
			c.wanted = true
		}
	case events.ActionOOM:
		c.starved = true
	case events.ActionDestroy:
		delete(d.of, m.Actor.ID)
	case events.ActionDie:
		code, err := strconv.Atoi(m.Actor.Attributes["exitCode"])
		if err != nil || c.wanted {
			return
		}
		exit := exitOf(code).String()
		if c.starved {
			exit += ", because memory ran out"
		}
		c.untold = append(c.untold, death{at, time.Now(), exit, at.Sub(c.began)})
	}
}

func (d *deaths) lives(id string) *lives {
	if d.of[id] == nil {
		d.of[id] = &lives{}
	}
	return d.of[id]
}

// before tells of the ends that came before a line of the same container, which
// says that it was started again.
func (d *deaths) before(c seen, line time.Time) error {
	of := d.of[c.ID]
	for of != nil && len(of.untold) > 0 && of.untold[0].at.Before(line) {
		if err := d.tell(c, of, true); err != nil {
			return err
		}
	}
	return nil
}

// look tells of the ends that nothing was written after, by what there is now. What
// is not there any more was removed, and is no loss to anybody.
func (d *deaths) look(containers []seen, serving func(seen) bool) error {
	for _, c := range containers {
		of := d.lives(c.ID)
		if of.served = of.served || serving(c); of.began.IsZero() && c.State.Running {
			of.began, _ = time.Parse(time.RFC3339Nano, c.State.StartedAt) // what the zero time is, too: not known
		}
		for len(of.untold) > 0 {
			since := time.Since(of.untold[0].heard)
			if since < lastWords || !c.runs() && since < backTime {
				break
			}
			if err := d.tell(c, of, c.runs()); err != nil {
				return err
			}
		}
	}
	return nil
}

// tell tells of the first end that was not told of.
func (d *deaths) tell(c seen, of *lives, again bool) error {
	last := of.untold[0]
	of.untold = of.untold[1:]
	text := "ended before it was ready (" + last.exit + ")"
	if of.served {
		text = of.crashes.Ended(last.exit, last.lived)
	}
	switch {
	case text == "":
		return nil
	case !again:
		text += "; flisk up starts another"
	case of.served:
		text += "; starting it again"
	}
	return d.emit(runtime.Line{Time: last.at, Replica: c.Replica, Text: "[flisk] " + text})
}
