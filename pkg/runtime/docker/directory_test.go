package docker

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
	"github.com/flisk-go/flisk/pkg/scaffold"
	"github.com/flisk-go/flisk/pkg/stack"
)

// oddDirectories are what people call a directory. On the real engine one of them is
// tried every day, and all with FLISK_TEST_LONG=1.
var oddDirectories = []string{
	"My App", "日本語", strings.Repeat("x", 200), // longer than the name of anything
	"my.app", "MyApp!", "Ünïcode", "agent-日本", "🤖 bot 🤖", "_hidden", "-rf", "$HOME ${X} #1", `it's "a" \ b`,
}

// TestC16_UpInOddDirectories: a project that init makes in any of twelve
// directories comes up, keeps its conversation over a restart and goes down.
func TestC16_UpInOddDirectories(t *testing.T) {
	t.Parallel()
	t.Run("fake", func(t *testing.T) {
		t.Parallel()
		for _, directory := range oddDirectories {
			t.Run(directory[:min(20, len(directory))], func(t *testing.T) {
				t.Parallel()
				place, _ := fakePlace(t, dockertest.Options{})
				comesUp(t, place, directory)
			})
		}
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		directories := oddDirectories
		if os.Getenv("FLISK_TEST_LONG") != "1" {
			at := rand.IntN(len(directories))
			directories = directories[at : at+1]
		}
		for _, directory := range directories {
			t.Run(directory[:min(20, len(directory))], func(t *testing.T) {
				t.Parallel()
				comesUp(t, realPlace(t), directory)
			})
		}
	})
}

func comesUp(t *testing.T, place runtimetest.Place, directory string) {
	t.Helper()
	base := t.TempDir()
	dir := filepath.Join(base, directory)
	if _, err := scaffold.Init(dir, scaffold.Options{}); err != nil {
		t.Fatal(err)
	}
	loaded, _, err := project.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	p := runtimetest.NewProject(t, place)
	port := p.Setup.Stack.Gateway.Port // of the test's own
	p.Setup.Stack = stack.Of(loaded, "")
	p.Setup.Stack.Gateway.Port = port
	p.Code("c1")
	p.Up()
	agent := loaded.Agents[0].Name
	for turn := 1; turn <= 2; turn++ {
		if a := p.Turn(agent, "s1", "", "a"); a.Err != nil || a.Turn != turn {
			t.Fatalf("turn %d: %+v", turn, a)
		}
		p.Restart()
	}
	o := p.Observe()
	if o.Dir != loaded.Dir {
		t.Errorf("it runs from %q, not %q", o.Dir, loaded.Dir)
	}
	for _, c := range containersOf(t, p) {
		project := p.Setup.Stack.ContainerProject() // a long name of the directory is cut short in it
		if len(c.name()) > 63 || !strings.HasPrefix(c.name(), project+"-") || project[:min(len(loaded.Name), 20)] != loaded.Name[:min(len(loaded.Name), 20)] {
			t.Errorf("the container is called %q, in the project %q", c.name(), loaded.Name)
		}
	}
	p.Down()
}
