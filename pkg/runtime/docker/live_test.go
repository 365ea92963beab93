package docker

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
)

// TestDamagedLiveRoutes: a file that nobody can read keeps nobody from stopping
// what runs, and an up writes it anew.
func TestDamagedLiveRoutes(t *testing.T) {
	t.Parallel()
	for name, heal := range map[string]func(t *testing.T, p *runtimetest.Project){
		"up": func(t *testing.T, p *runtimetest.Project) {
			before := p.Replica()
			if !p.Up().Changed {
				t.Error("an up changed nothing")
			}
			if after := p.Replica(); after.PID != before.PID || !after.Serving || len(p.Observe().Stale) > 0 {
				t.Errorf("after the up: %+v", p.Observe())
			}
			if p.Up().Changed {
				t.Error("the second up changed something")
			}
		},
		"restart": func(t *testing.T, p *runtimetest.Project) { p.Restart() },
		"kill": func(t *testing.T, p *runtimetest.Project) {
			if _, err := p.Driver().Kill(t.Context(), "bot"); err != nil {
				t.Error(err)
			}
			p.Up()
		},
		"down": func(_ *testing.T, p *runtimetest.Project) { p.Down(); p.Up() },
		"erase": func(t *testing.T, p *runtimetest.Project) {
			if err := driverOf(p).Erase(t.Context(), p.P); err != nil {
				t.Error(err)
			}
			p.Code("c1") // its program is gone, too
			p.Up()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _ := onFake(t, dockertest.Options{})
			p.Up()
			p.MustTurn("s1", "a")
			write(t, driverOf(p).place.routes(), "# flisk: {\n")
			o := p.Observe()
			if !slices.ContainsFunc(o.Stale, func(s string) bool { return strings.Contains(s, "live routes") }) || o.Replicas[0].Serving {
				t.Errorf("observed %+v", o)
			}
			heal(t, p)
			want := 2
			if name == "erase" {
				want = 1
			}
			if a := p.MustTurn("s1", "b"); a.Turn != want {
				t.Errorf("after it: %+v", a)
			}
		})
	}
}

// TestStaticFileIsGivenBack: a gateway that was not stopped in the end is not to
// start with another's file the next time.
func TestStaticFileIsGivenBack(t *testing.T) {
	t.Parallel()
	p, _ := onFake(t, dockertest.Options{})
	p.Up()
	place := driverOf(p).place
	before, err := os.ReadFile(place.static())
	if err != nil {
		t.Fatal(err)
	}
	// What cannot be read as live routes is written anew, and this cannot be.
	if err := os.Remove(place.routes()); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(place.routes(), "full"), userOnly); err != nil {
		t.Fatal(err)
	}
	p.Setup.Stack.Agents[0].StopGrace += 5 * time.Minute // which the gateway's file names
	if _, err := p.Driver().Up(t.Context(), p.P); err == nil {
		t.Fatal("the live routes were written over a directory")
	}
	if !strings.Contains(p.P.String(), "begin start gateway again") {
		t.Errorf("the gateway was not to be swapped:\n%s", p.P)
	}
	after, err := os.ReadFile(place.static())
	if err != nil || !bytes.Equal(after, before) {
		t.Errorf("the gateway would start with another file: %v\n%s", err, after)
	}
	if err := os.RemoveAll(place.routes()); err != nil {
		t.Fatal(err)
	}
	p.Up()
	if now, err := os.ReadFile(place.static()); err != nil || bytes.Equal(now, before) {
		t.Errorf("the settings did not change the file: %v", err)
	}
}
