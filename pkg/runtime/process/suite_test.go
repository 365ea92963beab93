package process

import (
	"cmp"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
)

var suiteProgram runtimetest.Program

// TestSuite holds local processes against what every runtime does.
func TestSuite(t *testing.T) {
	t.Parallel()
	runtimetest.Suite(t, suitePlace)
}

// suitePlace is where agents of the suite run as local processes.
func suitePlace(t *testing.T) runtimetest.Place {
	// Sockets have short names, and t.TempDir has the test's name in it.
	base, err := os.MkdirTemp("/tmp", "fl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return runtimetest.Place{
		Program: &suiteProgram,
		New: func(t *testing.T, s runtimetest.Setup) runtime.Driver {
			t.Helper()
			d, err := New(Options{
				Stack: s.Stack, Home: s.Home, RunBase: base, Executable: self, Env: os.Environ(),
				SourceHash: s.SourceHash, Force: s.Force, LeaveAgents: s.LeaveAgents, ReadyTimeout: cmp.Or(s.ReadyTimeout, 20*time.Second),
			})
			if err != nil {
				t.Fatal(err)
			}
			return d
		},
		Install: func(t *testing.T, s runtimetest.Setup, agent, code, program string) {
			t.Helper()
			path := filepath.Join(placeOf(s.Home, base, s.Stack).build, agent+"-"+code)
			if err := os.MkdirAll(filepath.Dir(path), userOnly); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(program, path); err != nil && !os.IsExist(err) {
				t.Fatal(err)
			}
		},
		RemoveSession: func(t *testing.T, s runtimetest.Setup, agent, id string) {
			t.Helper()
			volume := placeOf(s.Home, base, s.Stack).volume
			known, err := checkpoint.VolumeID(volume)
			if err == nil {
				_, err = checkpoint.RemoveAll(t.Context(), volume, []string{id}, checkpoint.Options{Agent: agent, ExpectVolume: known})
			}
			if err != nil {
				t.Errorf("remove session %s: %v", id, err)
			}
		},
		Clean: func(t *testing.T, s runtimetest.Setup) {
			t.Helper()
			if exists(placeOf(s.Home, base, s.Stack).run) {
				t.Error("the run directory is left")
			}
		},
	}
}
