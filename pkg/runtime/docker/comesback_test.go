package docker

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
)

// TestC26_AgentThatDiesByItself comes back without anybody's help: every turn that
// was acknowledged is there once, the client whose turn was cut is told so at once,
// and what it sends again with its key is one turn.
func TestC26_AgentThatDiesByItself(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, input string
		die         func(t *testing.T, p *runtimetest.Project) // nil when the input does
	}{
		{"exit code 1", "exit", nil},
		// As the kernel does when there is no memory left: not by the engine.
		{"SIGKILL", "5s", func(t *testing.T, p *runtimetest.Project) {
			runtimetest.Eventually(t, "the turn to begin", func() bool { return p.Logged(1, "a turn of 5s begins") })
			if err := syscall.Kill(p.Replica().PID, syscall.SIGKILL); err != nil {
				dockertest.Missing(t, fmt.Errorf("the engine's processes are not to be killed from here: %w", err))
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := runtimetest.NewProject(t, realPlace(t))
			p.Up()
			before := p.Replica()
			p.MustTurn("s1", "a")
			p.MustTurn("s1", "b")
			cut := make(chan runtimetest.Answer, 1)
			go func() { cut <- p.Turn("bot", "s1", "k1", c.input) }()
			if c.die != nil {
				c.die(t, p)
			}
			if a := <-cut; a.Status != http.StatusBadGateway {
				t.Errorf("the client of the turn that was cut: %+v", a)
			}
			again := p.Turn("bot", "s1", "k1", c.input)
			if again.Status != http.StatusOK || again.Turn != 3 || !strings.HasPrefix(again.Reply, "3: a b "+c.input+";") {
				t.Errorf("sent again with its key: %+v", again)
			}
			if once := p.Turn("bot", "s1", "k1", c.input); once.Status != http.StatusOK || once.Reply != again.Reply || once.Turn != again.Turn {
				t.Errorf("sent once more with its key: %+v, it was %+v", once, again)
			}
			if a := p.MustTurn("s1", "c"); a.Turn != 4 || !strings.HasPrefix(a.Reply, "4: a b "+c.input+" c;") {
				t.Errorf("the conversation is %+v", a)
			}
			after := p.Replica()
			if after.State != runtime.Ready || after.Restarts != 1 || after.PID == before.PID || after.Generation != before.Generation {
				t.Errorf("it came back as %+v, it was %+v", after, before)
			}
			if up := p.Up(); up.Changed {
				t.Errorf("an up had to mend something: %+v", up)
			}
		})
	}
}
