package dev

import (
	"context"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// rig is a loop with a driver that does what a test says. It lives in a bubble
// of [synctest].
type rig struct {
	runtime.Driver // what is not below is not called
	t              *testing.T
	o              Options
	tells          Told

	mu       sync.Mutex
	touched  bool          // so that it is as it was
	dirty    Change        // what differs from what the last Load read
	saved    chan struct{} // closed, and replaced, at a save
	fresh    bool
	closed   int
	attached []bool
	events   []Event
	ups      int
	overlaps int // ups that ran beside another one
	running  int
	retired  []runtime.Ref
	downs    int

	load    func(n int) error
	up      func(ctx context.Context, n int, told Told) (runtime.Report, error)
	observe func() (runtime.Observed, error)
	takes   time.Duration // one look
	down    func()
	retire  func(ctx context.Context, ref runtime.Ref) (runtime.Change, error)
	cancel  context.CancelFunc
	over    chan error
}

// newRig is a rig on which everything works, at once.
func newRig(t *testing.T) *rig {
	r := &rig{t: t, saved: make(chan struct{}), fresh: true, over: make(chan error, 1)}
	r.up = func(_ context.Context, n int, told Told) (runtime.Report, error) {
		r.play(told, 10*time.Millisecond)
		return runtime.Report{Changed: true}, nil
	}
	r.observe = func() (runtime.Observed, error) {
		return runtime.Observed{Running: true, Gateway: "127.0.0.1:4000", Replicas: []runtime.Replica{{Agent: "bot", Name: "bot-1", Serving: true, State: runtime.Ready}}}, nil
	}
	r.o = Options{
		Load: func(_ context.Context, told Told, attached bool) (Stack, error) {
			r.mu.Lock()
			paths := r.dirty.Paths
			r.dirty = Change{}
			r.attached = append(r.attached, attached)
			n, load := r.ups, r.load
			r.mu.Unlock()
			if load != nil {
				if err := load(n); err != nil {
					return Stack{}, err
				}
			}
			r.tells = told
			return Stack{Driver: r, Agents: map[string]int{"bot": 1}, Change: changeOf(paths), Fresh: r.isFresh, Close: r.close}, nil
		},
		Next: func(ctx context.Context, until Until) (Change, error) {
			for {
				r.mu.Lock()
				c, saved := changeOf(r.dirty.Paths), r.saved
				c.First, c.Told = r.dirty.First, time.Now()
				if until.Touched && r.touched {
					r.touched = false
					r.mu.Unlock()
					return Change{Paths: []string{"touched.go"}, ByHand: []string{"touched.go"}, First: time.Now(), Told: time.Now()}, nil
				}
				r.mu.Unlock()
				if slices.ContainsFunc(c.Paths, func(path string) bool { return until.But == nil || !until.But(path) }) {
					return c, nil
				}
				select {
				case <-ctx.Done():
					return Change{}, context.Cause(ctx)
				case <-saved:
				}
			}
		},
		Tell: func(e Event) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.events = append(r.events, e)
		},
		Progress: silent{}, Reloads: silent{},
	}
	return r
}

// changeOf is a change of these, of which people write the Go files.
func changeOf(paths []string) Change {
	return Change{Paths: paths, ByHand: slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return path.Ext(p) != ".go" })}
}

// plan is a reload's as it is when code changed.
func plan() runtime.Plan {
	step := func(do runtime.Action, generation int) runtime.Step {
		return runtime.Step{Do: do, Agent: "bot", Replica: "bot-1", Generation: generation}
	}
	return runtime.Plan{step(runtime.Build, 0), step(runtime.Start, 2), step(runtime.Await, 2), {Do: runtime.Switch}, {Do: runtime.Confirm, Agent: "bot"}}
}

// play tells of a plan whose steps take that long each.
func (r *rig) play(told Told, each time.Duration) {
	_ = plan().Do(told, func([]runtime.Step) error { time.Sleep(each); return nil })
}

// awaiting tells of a plan that gets as far as the wait for an agent, and waits.
func awaiting(ctx context.Context, told Told, within time.Duration, err error) error {
	return plan().Do(told, func(steps []runtime.Step) error {
		if steps[0].Do != runtime.Await {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(within):
			return err
		}
	})
}

func (r *rig) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ups
}

// start begins the loop; the test's end is its end, too.
func (r *rig) start() {
	ctx, cancel := context.WithCancel(r.t.Context())
	r.cancel = cancel
	go func() { r.over <- Run(ctx, r.o) }()
	synctest.Wait()
}

// stop ends the loop as Ctrl-C does.
func (r *rig) stop() {
	r.t.Helper()
	r.cancel()
	if err := <-r.over; err != nil {
		r.t.Errorf("the loop ended with %v", err)
	}
}

// save is a save of files, and what comes of it within d.
func (r *rig) save(d time.Duration, paths ...string) {
	r.change(time.Now(), paths...)
	r.pass(d)
}

// change is what a save does to the disk.
func (r *rig) change(first time.Time, paths ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dirty.Paths == nil {
		r.dirty.First = first
	}
	r.dirty.Paths = append(slices.Clone(r.dirty.Paths), paths...)
	slices.Sort(r.dirty.Paths)
	r.dirty.Paths = slices.Compact(r.dirty.Paths)
	close(r.saved)
	r.saved = make(chan struct{})
}

// touch saves a file as it is.
func (r *rig) touch(d time.Duration) {
	r.mu.Lock()
	r.touched = true
	close(r.saved)
	r.saved = make(chan struct{})
	r.mu.Unlock()
	r.pass(d)
}

// forget takes a touch back that nobody waited for.
func (r *rig) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.touched = false
}

func (r *rig) isFresh() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fresh
}

func (r *rig) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed++
}

func (r *rig) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// kinds are the events so far, as words; but for the steps of reloads.
func (r *rig) kinds() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var words []string
	for _, e := range r.events {
		if e.Kind != Doing {
			words = append(words, string(e.Kind))
		}
	}
	return strings.Join(words, " ")
}

// news is how often something was told that was not known.
func (r *rig) news(kind Kind) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Kind == kind && !e.Known {
			n++
		}
	}
	return n
}

// told is how often something was told.
func (r *rig) told(kind Kind) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

func (r *rig) expect(want string) {
	r.t.Helper()
	if got := r.kinds(); got != want {
		r.t.Errorf("events:\n got %s\nwant %s", got, want)
	}
}

func (r *rig) last(kind Kind) Event {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range slices.Backward(r.events) {
		if e.Kind == kind {
			return e
		}
	}
	r.t.Fatalf("there was no event %q", kind)
	return Event{}
}

func (r *rig) Up(ctx context.Context, _ runtime.Progress) (runtime.Report, error) {
	r.mu.Lock()
	n, up := r.ups, r.up
	r.ups++
	if r.running++; r.running > 1 {
		r.overlaps++
	}
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.running--
	}()
	return up(ctx, n, r.tells)
}

func (r *rig) Down(context.Context, runtime.Progress) (runtime.Report, error) {
	r.play(r.tells, 0) // a plan of its own, which is no reload's
	if r.down != nil {
		r.down()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.downs++
	return runtime.Report{}, nil
}

func (r *rig) Observe(ctx context.Context) (runtime.Observed, error) {
	r.mu.Lock()
	observe, takes := r.observe, r.takes
	r.mu.Unlock()
	select {
	case <-ctx.Done():
		return runtime.Observed{}, context.Cause(ctx)
	case <-time.After(takes):
	}
	return observe()
}

// sees says what the looks find from now on.
func (r *rig) sees(observe func() (runtime.Observed, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.observe = observe
}

// does says what Up does from now on.
func (r *rig) does(up func(ctx context.Context, n int, told Told) (runtime.Report, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.up = up
}

func (r *rig) Retire(ctx context.Context, ref runtime.Ref) (runtime.Change, error) {
	r.mu.Lock()
	r.retired = append(r.retired, ref)
	r.mu.Unlock()
	if r.retire == nil {
		return runtime.Change{Agent: ref.Agent, Replica: ref.Replica, Before: runtime.Process{PID: ref.Generation}}, nil
	}
	return r.retire(ctx, ref)
}

type silent struct{}

func (silent) Begin(string) func(string, error) { return func(string, error) {} }
func (silent) Output() io.Writer                { return io.Discard }

// errBuild is an agent's own fault, errSettings a mistake in flisk.yaml.
var (
	errBuild    = &fault.Fault{Kind: fault.Failed, Message: "the agent does not build", Agents: []string{"bot"}}
	errSettings = fault.New(fault.Usage, "", "flisk.yaml:3:1: no")
)
