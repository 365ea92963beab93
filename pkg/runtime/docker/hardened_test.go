package docker

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
	"github.com/flisk-go/flisk/pkg/stack"
)

// TestNoSecretIsShown: a value of an env file is in the container's environment,
// as it must be, and nowhere else.
func TestNoSecretIsShown(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p *runtimetest.Project) {
		const secret = `a$b "c" #d`
		file := filepath.Join(p.Setup.Stack.Dir, ".env")
		write(t, file, "SAYS='"+secret+"'\n")
		p.Setup.Stack.Agents[0].EnvFiles = []string{file}
		p.Up()
		if a := p.MustTurn("s1", "x"); !strings.HasSuffix(a.Reply, "SAYS="+secret) {
			t.Errorf("it arrived as %q", a.Reply)
		}
		d := driverOf(p)
		l, err := d.look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range l.everything() {
			c.Config.Env = nil
			img, _, err := l.e.inspectImage(t.Context(), c.Image)
			if err != nil {
				t.Fatal(err)
			}
			shown, err := json.Marshal([]any{c.InspectResponse, img})
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(shown), "a$b") {
				t.Errorf("%s shows the secret", c.name())
			}
			for port, bindings := range c.NetworkSettings.Ports {
				for _, b := range bindings {
					if b.HostIP != "127.0.0.1" {
						t.Errorf("%s is published at %s", port, b.HostIP)
					}
				}
			}
		}
		o := p.Observe()
		if shown := fmt.Sprintf("%+v", o); strings.Contains(shown, "a$b") {
			t.Errorf("what is observed shows the secret: %s", shown)
		}
		grep(t, p.Setup.Home, "a$b")
	})
}

// grep fails the test when a file below dir holds the text.
func grep(t *testing.T, dir, text string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), text) {
			t.Errorf("%q holds %q", path, text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestHardened: what a container may is what the Compose file says.
func TestHardened(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p *runtimetest.Project) {
		p.Up()
		l, err := driverOf(p).look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range l.everything() {
			h := c.HostConfig
			if !h.ReadonlyRootfs || !slices.Equal(h.CapDrop, []string{"ALL"}) || !slices.Contains(h.SecurityOpt, "no-new-privileges:true") ||
				c.Config.User != stack.User || h.RestartPolicy.Name != container.RestartPolicyUnlessStopped || h.Privileged {
				t.Errorf("%s: %+v %q", c.name(), h, c.Config.User)
			}
			for _, m := range h.Mounts {
				if strings.Contains(m.Source, "docker.sock") {
					t.Errorf("%s mounts %s", c.name(), m.Source)
				}
			}
			labels := c.Config.Labels
			if labels[composeProject] != p.Setup.Stack.ContainerProject() || labels[composeOneOff] != "False" || labels[composeNumber] != "1" || labels[composeService] == "" {
				t.Errorf("%s has the labels %v", c.name(), labels)
			}
		}
		bot, _ := l.at(runtime.Ref{Agent: "bot", Replica: "bot-1", Generation: 1})
		if bot.Config.StopTimeout == nil || *bot.Config.StopTimeout != 30 {
			t.Errorf("the grace of the agent is %v", bot.Config.StopTimeout)
		}
	})
}
