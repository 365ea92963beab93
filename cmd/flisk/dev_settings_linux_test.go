package main_test

import (
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/runtime/claim/porttest"
	"github.com/flisk-go/flisk/pkg/stack"
)

// TestDevAppliesSettings: flisk.yaml and .env are applied as up does, and a wrong
// flisk.yaml changes nothing.
func TestDevAppliesSettings(t *testing.T) {
	onEach(t, func(t *testing.T, p *project) {
		p.slowTurns()
		p.write("turn.go", strings.NewReplacer(`"time"`, "\"os\"\n\t\"time\"", `fmt.Sprintf("turn`, `fmt.Sprint(os.Getenv("COLOUR"), "|") + fmt.Sprintf("turn`).Replace(slowCode))
		d := p.dev()
		d.await("reloaded", 1)
		gateway := p.gatewayPID()
		p.write(".env", "COLOUR='a $b \"c\" # d'\n")
		if steps := strings.Join(d.await("reloading", 2).Steps, "\n"); !strings.Contains(steps, "COLOUR is new") || strings.Contains(steps, "$b") {
			t.Errorf("a changed .env, whose values are nobody's business: %q", steps)
		}
		if e := d.await("reloaded", 2); len(e.Agents) != 1 {
			t.Errorf("a changed .env: %+v", e)
		}
		if reply := p.say("s1", "hi"); !strings.HasPrefix(reply, `a $b "c" # d|turn 1`) {
			t.Errorf("with another .env it says %q", reply)
		}
		p.edit("flisk.yaml", regexp.MustCompile(`turn_timeout: \w+`), "turn_timeout: 77s")
		e := d.await("reloading", 3)
		if !strings.Contains(strings.Join(e.Steps, "\n"), "turn_timeout") {
			t.Errorf("a changed setting: %q", e.Steps)
		}
		d.await("reloaded", 3)
		if after := p.gatewayPID(); after != gateway {
			t.Errorf("the gateway was replaced: %d, now %d", gateway, after)
		}
		good := p.readFile("flisk.yaml")
		p.save("flisk.yaml", good+"nonsense: [\n")
		if e := d.await("failed", 1); !strings.Contains(e.Error.Message+e.Error.Detail, "flisk.yaml") {
			t.Errorf("a wrong flisk.yaml: %+v", e.Error)
		}
		p.say("s1", "hi")
		p.save("flisk.yaml", good)
		d.await("unchanged", 1)
	})
}

// TestDevIgnoresWhatItIsTold: from the moment that flisk.yaml says so, and not
// before, a file is none of the agent's.
func TestDevIgnoresWhatItIsTold(t *testing.T) {
	t.Parallel()
	p := newWorld(t).project(filepath.Join(t.TempDir(), "bot"))
	p.slowTurns()
	d := p.dev()
	d.await("reloaded", 1)
	p.save("prompt.md", "one")
	if e := d.await("reloaded", 2); !slices.Equal(e.Paths, []string{"prompt.md"}) {
		t.Errorf("a prompt: %+v", e)
	}
	p.edit("flisk.yaml", regexp.MustCompile(`(?m)^      ignore: \[\]`), `      ignore: ["*.md"]`)
	d.await("reloaded", 3) // its code has a file less
	p.save("prompt.md", "two")
	p.save("other.md", "three")
	p.save("turn.go", version(1))
	if e := d.await("reloading", 4); !slices.Equal(e.Paths, []string{"turn.go"}) {
		t.Errorf("what is ignored, and code: %+v", e)
	}
	d.await("reloaded", 4)
	if d.count("unchanged") != 0 {
		t.Errorf("it looked at what is ignored:\n%s", d.told())
	}
}

// TestDevMovesTheGateway: another port in flisk.yaml is shown and applied, and is
// the one change that replaces the gateway.
func TestDevMovesTheGateway(t *testing.T) {
	onEach(t, func(t *testing.T, p *project) {
		p.slowTurns()
		d := p.dev()
		d.await("reloaded", 1)
		p.say("s1", "hi")
		before, old := p.gatewayPID(), p.port
		p.port = porttest.Free(t)
		p.save("flisk.yaml", strings.Replace(p.readFile("flisk.yaml"), fmt.Sprint("port: ", old), fmt.Sprint("port: ", p.port), 1))
		told := d.await("reloading", 2)
		if moves := fmt.Sprintf("moves from 127.0.0.1:%d to 127.0.0.1:%d", old, p.port); !strings.Contains(strings.Join(told.Steps, "\n"), moves) {
			t.Errorf("another port: %q", told.Steps)
		}
		if e := d.await("reloaded", 2); e.URL != strings.TrimSuffix(p.url("/"), "/") {
			t.Errorf("it listens on %s", e.URL)
		}
		if reply := p.say("s1", "and there?"); !strings.HasPrefix(reply, `turn 2 after "hi"`) {
			t.Errorf("on the new port it says %q", reply)
		}
		if c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(old))); err == nil {
			_ = c.Close()
			t.Error("the old port is open")
		}
		moved := p.gatewayPID()
		if moved == before {
			t.Error("the gateway moved, and is the same process")
		}
		p.save("turn.go", version(1))
		d.await("reloaded", 3)
		p.say("s1", "hi")
		if after := p.gatewayPID(); after != moved {
			t.Errorf("a save of code replaced the gateway: %d, now %d", moved, after)
		}
	})
}

// TestDevAppliesTheOverride: of compose.override.yaml, what changed is replaced and
// nothing else.
func TestDevAppliesTheOverride(t *testing.T) {
	t.Parallel()
	p := newDockerWorld(t).dockerProject(filepath.Join(t.TempDir(), "bot"))
	p.slowTurns()
	d := p.dev()
	d.await("reloaded", 1)
	before := p.pids()
	services := func() []string {
		return strings.Fields(docker(t, "ps", "--format", `{{.Label "com.docker.compose.service"}}`, "--filter", "label=dev.flisk.project="+p.id()))
	}

	const coloured = "services:\n  bot:\n    environment: {COLOUR: red}\n"
	p.save("compose.override.yaml", coloured)
	if e := d.await("reloading", 2); !slices.Equal(e.Agents, []string{"bot"}) || !strings.Contains(strings.Join(e.Steps, "\n"), "COLOUR") {
		t.Errorf("another environment: %+v", e)
	}
	d.await("reloaded", 2)
	d.await("drained", 1)
	after := p.pids()
	if after["gateway"] != before["gateway"] || after["bot"] == before["bot"] || after["bot"] == 0 {
		t.Errorf("another environment: before %v, after %v", before, after)
	}
	if env := docker(t, "inspect", "--format", "{{.Config.Env}}", p.container("bot")); !strings.Contains(env, "COLOUR=red") {
		t.Errorf("the agent has %s", env)
	}

	for n, c := range []struct {
		override string
		running  bool
	}{
		{coloured + "  beside: {image: '" + stack.GatewayImage + "', command: ['--entrypoints.web.address=:9999']}\n", true},
		{coloured, false},
	} {
		p.save("compose.override.yaml", c.override)
		if e := d.await("reloading", 3+n); len(e.Agents) != 0 || !strings.Contains(strings.Join(e.Steps, "\n"), "service beside") {
			t.Errorf("a service: %+v", e)
		}
		d.await("reloaded", 3+n)
		if now := p.pids(); now["gateway"] != after["gateway"] || now["bot"] != after["bot"] {
			t.Errorf("a service: before %v, now %v", after, now)
		}
		if running := services(); slices.Contains(running, "beside") != c.running {
			t.Errorf("with the override\n%s\nthere is %q", c.override, running)
		}
	}
}

// container is the engine's id of the agent's container, of which there is one.
func (p *project) container(agent string) string {
	p.t.Helper()
	ids := p.objects("ps", "-q", "--filter", "label=dev.flisk.agent="+agent)
	if len(ids) != 1 {
		p.t.Fatalf("the containers of %q are %q", agent, ids)
	}
	return ids[0]
}
