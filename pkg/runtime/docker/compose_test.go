package docker

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/stack/genfile"
)

// compose is a real Compose: the file that FLISK_TEST_COMPOSE names, or the
// plugin of the docker command.
func compose(t *testing.T) func(args ...string) string {
	t.Helper()
	command := []string{"docker", "compose"}
	if path := os.Getenv("FLISK_TEST_COMPOSE"); path != "" {
		command = []string{path}
	} else if out, err := exec.Command("docker", "compose", "version").CombinedOutput(); err != nil {
		t.Skipf("no Compose (FLISK_TEST_COMPOSE may name one): %v\n%s", err, out)
	}
	return func(args ...string) string {
		t.Helper()
		out, err := exec.Command(command[0], append(command[1:], args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("compose %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
}

// inOrder fails the test unless a text has all parts, one behind the other.
func inOrder(t *testing.T, text string, parts ...string) {
	t.Helper()
	rest := text
	for _, part := range parts {
		_, after, ok := strings.Cut(rest, part)
		if !ok {
			t.Errorf("there is no %q in its place in:\n%s", part, text)
			return
		}
		rest = after
	}
}

// TestComposeWorksOnTheStack: ls, ps, logs, top and down of plain Compose see
// what flisk started, and stop agents before the gateway.
func TestComposeWorksOnTheStack(t *testing.T) {
	t.Parallel()
	p := runtimetest.NewProject(t, realPlace(t))
	run := compose(t)
	p.Up()
	p.MustTurn("s1", "1ms")
	name := p.Setup.Stack.Name
	bot, gateway := driverOf(p).baseName("bot-1"), driverOf(p).baseName("gateway-1")
	inOrder(t, run("ls"), name, "running(2)")
	inOrder(t, run("-p", name, "ps"), bot, gateway)
	inOrder(t, run("-p", name, "logs", "bot"), "a turn of 1ms begins")
	inOrder(t, run("-p", name, "top"), "bot", "/agent")
	inOrder(t, run("-p", name, "down"), bot+"  Removed", gateway+"  Stopping", "Network "+p.Setup.Stack.Network()+"  Removed")
	if o := p.Observe(); o.Running {
		t.Errorf("it runs on: %+v", o)
	}
	p.Up()
	if a := p.MustTurn("s1", "b"); a.Turn != 2 {
		t.Errorf("after it: %+v", a)
	}
}

// TestTakesOverFromCompose: an up over what plain Compose started from the
// project's own files replaces it, and the conversation goes on.
func TestTakesOverFromCompose(t *testing.T) {
	t.Parallel()
	p := runtimetest.NewProject(t, realPlace(t))
	run := compose(t)
	files, err := genfile.Of(p.Setup.Stack)
	if err != nil {
		t.Fatal(err)
	}
	change, err := genfile.Plan(p.Setup.Stack.Dir, files)
	if err == nil {
		err = change.Apply()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(p.Setup.Stack.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	// The image that Compose would build: it is there after an up.
	p.Up()
	p.Down()
	run("--project-directory", p.Setup.Stack.Dir, "-f", filepath.Join(p.Setup.Stack.Dir, "compose.yaml"), "up", "-d", "--no-build")
	runtimetest.Eventually(t, "an answer", func() bool { return p.Turn("bot", "s1", "", "a").Turn == 1 })
	o := p.Observe()
	if len(o.Replicas) != 1 || o.Replicas[0].Generation != 0 || !o.Replicas[0].Serving || o.Replicas[0].State != runtime.Ready || o.URL != p.Setup.Stack.Gateway.URL() {
		t.Errorf("what Compose started: %+v", o)
	}
	p.Up()
	if a := p.MustTurn("s1", "b"); a.Turn != 2 {
		t.Errorf("after the up: %+v", a)
	}
	l, err := driverOf(p).look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range l.everything() {
		if c.Config.Labels[composeVersion] != madeBy {
			t.Errorf("%s is left", c.name())
		}
	}
	if up := p.Up(); up.Changed {
		t.Errorf("the second up: %+v", up)
	}
	p.Down()
	// What it leaves is nothing that Compose stumbles over.
	run("--project-directory", p.Setup.Stack.Dir, "-f", filepath.Join(p.Setup.Stack.Dir, "compose.yaml"), "up", "-d", "--no-build")
	runtimetest.Eventually(t, "an answer", func() bool { return p.Turn("bot", "s1", "", "c").Turn == 3 })
	p.Down()
	if _, ok, err := mustEngine(t, p).inspectImage(t.Context(), stack.GatewayImage); err != nil || !ok {
		t.Errorf("the gateway's image is gone: %v", err)
	}
}
