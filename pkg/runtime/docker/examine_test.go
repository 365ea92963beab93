package docker

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
)

// A service's volume that is somebody else's keeps up from working, and Examine
// says so before.
func TestExamineSeesSomebodyElsesServiceVolume(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	fake.AddVolume("theirs", map[string]string{labelProject: "ffffffffffff"})
	write(t, filepath.Join(p.Setup.Stack.Dir, "compose.override.yaml"), "volumes: {db: {name: theirs}}\n")
	_, err := p.Driver().Up(t.Context(), p.P)
	mustFault(t, err, fault.Usage, "theirs", "is not of this project")
	var blocking []string
	for _, f := range p.Driver().Examine(t.Context()) {
		if f.Level == runtime.Blocking {
			blocking = append(blocking, f.Subject+": "+f.Text)
		}
	}
	if len(blocking) != 1 || !strings.HasPrefix(blocking[0], `volume: the volume "theirs" is not of this project`) {
		t.Errorf("it says %q", blocking)
	}
}
