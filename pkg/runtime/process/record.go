package process

import (
	"os"
	"path/filepath"
	"time"

	"github.com/flisk-go/flisk/pkg/internal/proc"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/stack"
)

// record is what the run directory says of one process of a replica.
type record struct {
	proc.Identity
	runtime.Ref
	Socket string
	Code   string
	Grace  time.Duration
}

// observed is the replica whose process this was, as far as a record says.
func (r record) observed(state runtime.State) runtime.Replica {
	return runtime.Replica{Agent: r.Agent, Name: r.Replica, Generation: r.Generation, State: state, Code: r.Code}
}

// settings is what a supervisor is started with, and what the run directory
// says of it. None of it is a secret.
type settings struct {
	ID       string
	Instance string
	Home     string
	RunBase  string
	Volume   string
	Gateway  stack.Gateway
	Owned    bool          // it ends when the pipe at ownerFD does
	Serve    switchRequest // of no replica yet: its agents' requests are held until one is ready
}

func (s settings) place() place {
	return placeOf(s.Home, s.RunBase, stack.Stack{ID: s.ID, Instance: s.Instance, Volume: stack.Volume{Name: s.Volume}})
}

// records reads all replica records of a run directory. A file that cannot be
// read names nothing that could be signalled, and is left out.
func (p place) records() []record {
	paths, err := filepath.Glob(filepath.Join(p.run, "*"+recordSuffix))
	if err != nil { // a malformed pattern
		panic(err)
	}
	var out []record
	for _, path := range paths {
		var r record
		if name := filepath.Base(path); name == settingsFile || name == supervisorFile {
			continue
		}
		if readFile(path, &r) == nil && r.PID > 0 {
			out = append(out, r)
		}
	}
	return out
}

// supervisor reads the record of the supervisor; false when there is none.
func (p place) supervisor() (proc.Identity, bool) {
	var id proc.Identity
	return id, readFile(filepath.Join(p.run, supervisorFile), &id) == nil
}

// settings reads what the present or last supervisor was started with.
func (p place) settings() (settings, error) {
	var s settings
	return s, readFile(filepath.Join(p.run, settingsFile), &s)
}

// removeRunDir removes the run directory. Only whoever made sure that nothing
// runs in it may do that.
func (p place) removeRunDir() error { return os.RemoveAll(p.run) }
