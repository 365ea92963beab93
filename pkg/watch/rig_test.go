package watch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/goleak"

	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const config = `version: 1
name: shop
id: 9f2c41d07a3e
agents: {bot: {watch: {ignore: ["*.tmp"]}}, clerk: {path: clerk, watch: {ignore: ["*.tmp"]}}}
volumes: {checkpoints: {name: flisk-shop-9f2c41d07a3e}}
`

// soon is how long a test waits for what should happen at once.
const soon = 20 * time.Second

// rig is a project on disk that is watched.
type rig struct {
	*testing.T
	dir string
	p   *project.Project
	w   *Watcher

	base *source.Tree // what was told last

	mu     sync.Mutex
	warned []string
}

// newRig makes a project, which nobody watches yet.
func newRig(t *testing.T) *rig {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{T: t, dir: filepath.Join(dir, "shop")}
	for _, f := range []string{"main.go", "go.mod", "assets/prompt.txt", "clerk/main.go", "lib/deep/er/lib.go"} {
		r.write(f, "content of "+f)
	}
	r.write("go.mod", "module shop\n")
	r.write("flisk.yaml", config)
	r.load(r.dir)
	return r
}

func (r *rig) load(dir string) {
	r.Helper()
	p, _, err := project.Parse(dir, []byte(config))
	if err != nil {
		r.Fatal(err)
	}
	r.p = p
}

func (r *rig) options() Options {
	return Options{Project: r.p, Warn: func(err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.warned = append(r.warned, err.Error())
	}}
}

// watch begins to watch with the system's events.
func (r *rig) watch() *rig {
	r.Helper()
	w, err := New(r.Context(), r.options())
	if err != nil {
		r.Fatal(err)
	}
	return r.use(w)
}

// watchWith begins to watch with other events.
func (r *rig) watchWith(o Options, open func() (notifier, error)) *rig {
	r.Helper()
	w := newWatcher(o, open)
	if err := w.start(r.Context()); err != nil {
		r.Fatal(err)
	}
	return r.use(w)
}

func (r *rig) use(w *Watcher) *rig {
	r.w = w
	r.Cleanup(func() {
		if err := w.Close(); err != nil {
			r.Errorf("close: %v", err)
		}
	})
	tree, err := w.Tree(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	r.base = tree
	return r
}

func (r *rig) warnings() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.warned)
}

func (r *rig) at(rel string) string { return filepath.Join(r.dir, filepath.FromSlash(rel)) }

func (r *rig) must(errs ...error) {
	r.Helper()
	if err := errors.Join(errs...); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) write(rel, content string) {
	r.Helper()
	r.must(os.MkdirAll(filepath.Dir(r.at(rel)), 0o755), os.WriteFile(r.at(rel), []byte(content), 0o644))
}

// save writes as most editors do: another file, renamed over the old one.
func (r *rig) save(rel, content string) {
	r.Helper()
	temporary := r.at(rel) + "___jb_tmp___"
	r.must(os.WriteFile(temporary, []byte(content), 0o644), os.Rename(temporary, r.at(rel)))
}

// next waits for a change after which the files rest, and returns it as "added a, modified b".
func (r *rig) next() string {
	r.Helper()
	c := r.change()
	// Nobody saves meanwhile: the change must be all that there is.
	fresh, err := source.Read(r.Context(), r.p, source.Options{})
	if err != nil {
		r.Fatal(err)
	}
	if left := source.Diff(c.Tree, fresh); len(left) > 0 && !r.w.isPending() {
		r.Errorf("the disk has more than the change: %v", left)
	}
	var out []string
	for _, f := range c.Files {
		out = append(out, fmt.Sprintf("%s %s", f.Op, f.Path))
	}
	return strings.Join(out, ", ")
}

// change waits for a change.
func (r *rig) change() Change {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), soon)
	defer cancel()
	c, err := r.w.Next(ctx, r.base)
	if err != nil {
		r.Fatalf("next: %v", err)
	}
	r.base = c.Tree
	return c
}

// expect waits for a change and compares it.
func (r *rig) expect(want string) {
	r.Helper()
	if got := r.next(); got != want {
		r.Errorf("got %q, want %q", got, want)
	}
}

// nothing sees that what was done gives no change: the next one is another file's.
func (r *rig) nothing(what string) {
	r.Helper()
	r.save("marker.txt", fmt.Sprint(time.Now().UnixNano()))
	if got := r.next(); got != "modified marker.txt" && got != "added marker.txt" {
		r.Errorf("%s gives a change: %s", what, got)
	}
}

// fake is a notifier that tells what the test wants.
type fake struct {
	event  chan fsnotify.Event
	err    chan error
	mu     sync.Mutex
	dirs   []string
	fail   func(dir string) error // what watching a directory gives; set while nobody does
	opened int
	open   bool
}

func newFake() *fake { return &fake{} }

// opens is the function that opens it, again and again.
func (f *fake) opens() (notifier, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.event, f.err, f.dirs, f.open = make(chan fsnotify.Event), make(chan error), nil, true
	f.opened++
	return &handle{f, f.event, f.err}, nil
}

// tell sends an event, as from the file's directory.
func (f *fake) tell(path string, op fsnotify.Op) {
	f.mu.Lock()
	c := f.event
	f.mu.Unlock()
	c <- fsnotify.Event{Name: path, Op: op}
}

func (f *fake) overflow() {
	f.mu.Lock()
	c := f.err
	f.mu.Unlock()
	c <- fsnotify.ErrEventOverflow
}

func (f *fake) watched() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	dirs := slices.Clone(f.dirs)
	slices.Sort(dirs)
	return dirs
}

// handle is the fake opened once.
type handle struct {
	f     *fake
	event chan fsnotify.Event
	err   chan error
}

func (h *handle) Add(dir string) error {
	if h.f.fail != nil {
		if err := h.f.fail(dir); err != nil {
			return err
		}
	}
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	h.f.dirs = append(h.f.dirs, dir)
	return nil
}

func (h *handle) Close() error {
	close(h.event)
	close(h.err)
	return nil
}

func (h *handle) events() <-chan fsnotify.Event { return h.event }
func (h *handle) errs() <-chan error            { return h.err }

var errNoSpace = fmt.Errorf("add: %w", syscall.ENOSPC)
