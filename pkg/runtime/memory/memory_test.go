package memory

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/fault"
)

func TestMemoryOfAProjectThatNeverRan(t *testing.T) {
	t.Parallel()
	f := Of(t.TempDir(), "0123456789ab", "")
	if p, err := f.Read(); err != nil || !reflect.DeepEqual(p, Project{}) {
		t.Errorf("got %+v, %v", p, err)
	}
	if err := f.Remove(); err != nil {
		t.Errorf("forgetting nothing: %v", err)
	}
}

func TestMemoryIsKeptForEveryRuntime(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	f := Of(home, "0123456789ab", "")
	onProcess := Project{}.Keep("process", Volume{Name: "v", ID: "1", Without: []string{"clerk"}})
	both := onProcess.Keep("docker", Volume{Name: "v", ID: "2", EngineID: "E", Engine: "unix:///e", Agents: []string{"bot"}})
	for _, p := range []Project{onProcess, both} {
		if err := f.Write(p); err != nil {
			t.Fatal(err)
		}
		p.Version = version
		if got, err := f.Read(); err != nil || !reflect.DeepEqual(got, p) {
			t.Errorf("got %+v, %v, want %+v", got, err, p)
		}
	}
	if len(onProcess.Volumes) != 1 {
		t.Errorf("Keep changed what it was called on: %+v", onProcess)
	}
	if other, err := Of(home, "0123456789ab", "second").Read(); err != nil || other.Runtime != "" {
		t.Errorf("the instance has the project's memory: %+v, %v", other, err)
	}
	if err := f.Forget("docker"); err != nil {
		t.Fatal(err)
	}
	if left, err := f.Read(); err != nil || left.Runtime != "" || len(left.Volumes) != 1 || left.Volumes["process"].ID != "1" {
		t.Errorf("forgetting one runtime left %+v, %v", left, err)
	}
	if entries, err := os.ReadDir(filepath.Dir(f.Path())); err != nil || len(entries) != 1 {
		t.Errorf("writing left %v, %v", entries, err)
	}
	for range 2 { // the last one, and none
		if err := f.Forget("process"); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(f.Path()); !os.IsNotExist(err) {
		t.Errorf("nothing is remembered, and there is a file: %v", err)
	}
}

// What is the same is not written: looking must not need a disk with room.
func TestMemoryThatIsTheSameIsNotWritten(t *testing.T) {
	t.Parallel()
	f := Of(t.TempDir(), "0123456789ab", "")
	p := Project{}.Keep("process", Volume{Name: "v", ID: "1"})
	if err := f.Write(p); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(f.Path())
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Write(p); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(f.Path()); err != nil || !os.SameFile(before, after) {
		t.Errorf("the file was replaced, %v", err)
	}
}

func TestMemoryOfTheFirstVersion(t *testing.T) {
	t.Parallel()
	f := Of(t.TempDir(), "0123456789ab", "two")
	if err := os.MkdirAll(filepath.Dir(f.Path()), 0o700); err != nil {
		t.Fatal(err)
	}
	old := `{"version": 1, "runtime": "process", "volume": "v", "volume_id": "1", "port": 8081, "without_agents": ["clerk"]}`
	if err := os.WriteFile(f.Path(), []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	want := Project{Version: version, Runtime: "process", Volumes: map[string]Volume{"process": {Name: "v", ID: "1", Without: []string{"clerk"}}}, Port: 8081}
	if got, err := f.Read(); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// A memory that cannot be read is never taken for none.
func TestC18UnreadableMemoryIsAnError(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"", "{", `{"version": 3}`, `[]`, `{}`} {
		f := Of(t.TempDir(), "0123456789ab", "")
		if err := os.MkdirAll(filepath.Dir(f.Path()), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f.Path(), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := f.Read()
		said, ok := errors.AsType[*fault.Fault](err)
		if !ok || said.Kind != fault.Environment || !strings.Contains(said.Message, f.Path()) {
			t.Errorf("%q: %v", content, err)
		}
	}
}
