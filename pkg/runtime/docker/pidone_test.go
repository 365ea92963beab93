package docker

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
)

func TestC11_DeafFirstProcess(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		argv []string
		want string // "" passes signals on
	}{
		{nil, ""},
		{[]string{"/agent"}, ""},
		{[]string{"/bin/sh", "-c", "/agent"}, "sh"},
		{[]string{"/bin/sh", "-c", "exec /agent"}, ""},
		{[]string{"/bin/sh", "-c", "exec /agent; echo over"}, "sh"},
		{[]string{"/bin/sh", "-c", "echo exec; /agent"}, "sh"},
		{[]string{"bash", "entrypoint"}, "bash"},
		{[]string{"npm", "start"}, "npm"},
		{[]string{"/usr/bin/npm"}, "npm"},
		{[]string{"node", "server.js"}, ""},
		{[]string{"/sbin/tini", "--", "sh"}, ""},
	} {
		name, is := deafFirst(c.argv)
		if !is {
			name = ""
		}
		if name != c.want {
			t.Errorf("%q: %q, want %q", c.argv, name, c.want)
		}
	}
}

// A kill that somebody wanted is no news; of any other the warning says who it
// was.
func TestC11_KilledDuringItsStop(t *testing.T) {
	t.Parallel()
	killed := runtime.Exit{Code: -1, Signal: syscall.SIGKILL}
	for name, c := range map[string]struct {
		how           ending
		detail, warns string
	}{
		"by itself":  {ending{runtime.Exit{}, time.Second, nobody}, "exit code 0 after 1.0 s", ""},
		"by force":   {ending{killed, time.Second, byForce}, "killed after 1.0 s", ""},
		"its grace":  {ending{killed, 30 * time.Second, byEngine}, "killed after 30.0 s", "bot-1 did not end within its grace"},
		"by another": {ending{killed, time.Second, byOthers}, "killed by something other than flisk after 1.0 s", "bot-1 was killed during its drain, 1.0 s after"},
	} {
		said := ""
		d := &Driver{warned: &warnings{told: map[string]bool{}}, o: Options{Warn: func(text string) { said += text }}}
		d.warnKilled(runtime.Ref{Agent: "bot", Replica: "bot-1", Generation: 1}, c.how)
		if !strings.HasPrefix(said, c.warns) || c.warns == "" && said != "" || !strings.HasPrefix(c.how.String(), c.detail) {
			t.Errorf("%s: it warned %q, and the step says %q", name, said, c.how)
		}
	}
}

// TestKilledDuringItsDrain: an old agent that somebody kills while it finishes its
// last turn is not said to be deaf to SIGTERM, and its client's turn is not lost.
func TestKilledDuringItsDrain(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p *runtimetest.Project) {
		p.Up()
		old := p.Replica()
		if err := syscall.Kill(old.PID, 0); err != nil {
			dockertest.Missing(t, fmt.Errorf("the engine's processes are not to be killed from here: %w", err))
		}
		cut := p.InFlight("s1", "k1", 5*time.Second)
		var said strings.Builder
		d := driverOf(p)
		d.o.Warn = func(text string) { said.WriteString(text) }
		report := make(chan runtime.Report, 1)
		go func() {
			r, err := d.Restart(t.Context(), "", p.P)
			if err != nil {
				t.Error(err)
			}
			report <- r
		}()
		// Only what was told to stop stays down when it is killed.
		runtimetest.Eventually(t, "the drain to begin", func() bool { return p.Logged(100, "draining") })
		if err := syscall.Kill(old.PID, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		r := <-report
		if len(r.Replaced) != 1 || r.Replaced[0].Exit.Signal != syscall.SIGKILL {
			t.Errorf("the report: %+v", r)
		}
		if text := said.String(); !strings.Contains(text, "was killed during its drain") || strings.Contains(text, "within its grace") {
			t.Errorf("it warned %q", text)
		}
		if a := <-cut; a.Status != http.StatusBadGateway {
			t.Errorf("the client of the turn that was cut: %+v", a)
		}
		if a := p.Turn("bot", "s1", "k1", "5s"); a.Status != http.StatusOK || a.Turn != 1 {
			t.Errorf("sent again with its key: %+v", a)
		}
	})
}

// TestHowAnAgentEnds is told as long as it is known: the engine has one code for a
// container, and it is 0 while that runs.
func TestHowAnAgentEnds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		state    container.State
		restarts int
		want     string
	}{
		{container.State{Restarting: true, Running: true, ExitCode: 7}, 1, "it ended (exit code 7), once; the engine starts it again"},
		{container.State{Restarting: true, Running: true, ExitCode: 137}, 3, "it ended (signal 9 (killed)), 3 times in a row; the engine starts it again"},
		{container.State{Running: true}, 1, "it ended, once; the engine has started it again"},
		{container.State{Running: true}, 3, "it ended, 3 times in a row; the engine has started it again"},
	} {
		if got := loopText(&c.state, c.restarts); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestC11_DeafEntrypoint: an up says that its override's shell keeps SIGTERM from
// the agent.
func TestC11_DeafEntrypoint(t *testing.T) {
	t.Parallel()
	for entrypoint, warns := range map[string]bool{"[/bin/sh, -c, /agent]": true, "[/agent]": false} {
		p, _ := onFake(t, dockertest.Options{})
		write(t, filepath.Join(p.Setup.Stack.Dir, "compose.override.yaml"), "services: {bot: {entrypoint: "+entrypoint+"}}\n")
		d := driverOf(p)
		var said strings.Builder
		d.o.Warn = func(text string) { said.WriteString(text) }
		_, err := d.Up(t.Context(), p.P)
		deaf := strings.Contains(said.String(), `the first process of agent "bot" is sh, which does not pass SIGTERM on`)
		if deaf != warns || (err != nil) != warns { // the image has no shell to start
			t.Errorf("%s: it warned %q; %v", entrypoint, &said, err)
		}
	}
}
