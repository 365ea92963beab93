package docker

import (
	"fmt"
	"net/http"
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
// plugin of the docker command. The long run has one, and fails where it has none.
func compose(t *testing.T) func(args ...string) string {
	t.Helper()
	command := []string{"docker", "compose"}
	if path := os.Getenv("FLISK_TEST_COMPOSE"); path != "" {
		command = []string{path}
	} else if out, err := exec.Command("docker", "compose", "version").CombinedOutput(); err != nil {
		if os.Getenv("FLISK_TEST_DOCKER") == "1" && os.Getenv("FLISK_TEST_LONG") == "1" {
			t.Fatalf("FLISK_TEST_DOCKER=1 and FLISK_TEST_LONG=1, and there is no Compose (FLISK_TEST_COMPOSE may name one): %v\n%s", err, out)
		}
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
	name := p.Setup.Stack.ContainerProject()
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

// TestComposeDownOfOneOfTwo: of two projects of one name on one engine, "docker
// compose down" stops the one in whose directory it runs.
func TestComposeDownOfOneOfTwo(t *testing.T) {
	t.Parallel()
	mine, other := runtimetest.NewProject(t, realPlace(t)), runtimetest.NewProject(t, realPlace(t))
	other.Setup.Stack.Name = mine.Setup.Stack.Name
	run := forCompose(t, mine)
	mine.Up()
	other.Up()
	before := other.Replica()
	run("down")
	if o := mine.Observe(); o.Running {
		t.Errorf("it runs on: %+v", o)
	}
	if o := other.Observe(); o.URL == "" || len(o.Replicas) != 1 || o.Replicas[0].PID != before.PID || o.Replicas[0].State != runtime.Ready {
		t.Errorf("the other one was touched: %+v", o)
	}
	other.MustTurn("s1", "a")
}

// forCompose writes a project's generated files, and returns plain Compose in its
// directory. The image that Compose would build is there.
func forCompose(t *testing.T, p *runtimetest.Project) func(args ...string) string {
	t.Helper()
	run := compose(t)
	dir := p.Setup.Stack.Dir
	files, err := genfile.Of(p.Setup.Stack)
	if err != nil {
		t.Fatal(err)
	}
	change, err := genfile.Plan(dir, files)
	if err == nil {
		err = change.Apply()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // what is mounted is for a user who is nobody here
		t.Fatal(err)
	}
	p.Up()
	p.Down()
	return func(args ...string) string {
		t.Helper()
		return run(append([]string{"--project-directory", dir, "-f", filepath.Join(dir, "compose.yaml")}, args...)...)
	}
}

// TestComposeAlone: a project that plain Compose starts from the generated files,
// restarts, takes down and starts again keeps its conversation, and a value of an
// env file is what it is under flisk.
func TestComposeAlone(t *testing.T) {
	t.Parallel()
	p := runtimetest.NewProject(t, realPlace(t))
	const value = "a $HOME ${X:-y} $$ \"b\" # c \\n\nline: [2]"
	write(t, filepath.Join(p.Setup.Stack.Dir, "agent.env"), "SAYS='"+value+"'\n")
	p.Setup.Stack.Agents[0].EnvFiles = []string{filepath.Join(p.Setup.Stack.Dir, "agent.env")}
	run := forCompose(t, p)
	inputs := ""
	goesOn := func(turn int) {
		t.Helper()
		var a runtimetest.Answer
		runtimetest.Eventually(t, "an answer", func() bool {
			a = p.Turn("bot", "s1", fmt.Sprintf("k%d", turn), fmt.Sprintf("i%d", turn))
			return a.Err == nil && a.Status == http.StatusOK
		})
		inputs = strings.TrimSpace(fmt.Sprintf("%s i%d", inputs, turn))
		if want := fmt.Sprintf("%d: %s; SAYS=%s", turn, inputs, value); a.Turn != turn || a.Reply != want {
			t.Errorf("turn %d said %q, want %q", a.Turn, a.Reply, want)
		}
	}
	if removed, err := driverOf(p).RemoveVolume(t.Context(), p.P); err != nil || len(removed) != 1 {
		t.Fatalf("removed %v, %v", removed, err)
	}
	run("up", "-d", "--no-build") // makes the volume
	goesOn(1)
	run("restart")
	goesOn(2)
	run("down")
	run("up", "-d", "--no-build")
	goesOn(3)
	if up := p.Up(); up.Created {
		t.Errorf("flisk made a volume of its own: %+v", up)
	}
	goesOn(4)
}

// TestTakesOverFromCompose: an up over what plain Compose started from the
// project's own files replaces it, and the conversation goes on.
func TestTakesOverFromCompose(t *testing.T) {
	t.Parallel()
	p := runtimetest.NewProject(t, realPlace(t))
	run := forCompose(t, p)
	run("up", "-d", "--no-build")
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
	run("up", "-d", "--no-build")
	runtimetest.Eventually(t, "an answer", func() bool { return p.Turn("bot", "s1", "", "c").Turn == 3 })
	p.Down()
	if _, ok, err := mustEngine(t, p).inspectImage(t.Context(), stack.GatewayImage); err != nil || !ok {
		t.Errorf("the gateway's image is gone: %v", err)
	}
}
