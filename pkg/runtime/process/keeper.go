package process

import (
	"context"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/stack"
)

// How fast a replica that does not get ready is started again. One that had
// been ready is started at once.
const (
	firstBackoff = 250 * time.Millisecond
	lastBackoff  = 5 * time.Second
)

// successorTime is how long the next process after one that ended may take to be
// there: longer than it may be held back.
const successorTime = 2 * lastBackoff

// lastLines is how much of a replica's output is kept for an error message.
const lastLines = 20

// keeper keeps one generation of a replica alive, from its start until it is
// told to stop. Its goroutine is run; everything else may be called at once.
type keeper struct {
	startRequest
	dir *os.Root     // where sockets and records go
	log *logFile     // of the agent; shared with other replicas
	say func(string) // a line for the supervisor's own log
	hub hub

	stopping chan struct{} // closed by stop
	forced   chan struct{} // closed by force
	done     chan struct{} // closed by the supervisor when run returned
	budget   time.Duration // of the stop; set before stopping is closed
	once     struct{ stop, force sync.Once }
	moved    bool          // the last launch found no WorkDir; of run
	hurry    chan struct{} // cuts the present pause between two starts short

	mu       sync.Mutex
	news     chan struct{} // closed, and replaced, at every change of what is below
	state    runtime.State
	child    *child // nil between two
	restarts int
	exit     string // how the last process ended
	last     runtime.Process
	how      runtime.Exit // of last
	reason   string       // why it says that it is not ready, if it does
	killed   bool         // its stop took SIGKILL
	tail     []string     // of the present process, or of the last one
	loop     loop
}

// hub is how a keeper reaches the gateway, by way of the supervisor.
type hub interface {
	// changed is called when what serving answers is another; on its return
	// the gateway acts by it.
	changed()

	// letGo waits until nothing that the gateway gave to an endpoint is in
	// flight, or for a short while: what is in flight then was accepted, and
	// belongs to the drain. It reports whether nothing is.
	letGo(e stack.Endpoint) (gone bool)
}

func newKeeper(r startRequest, dir *os.Root, log *logFile, say func(string), h hub) *keeper {
	return &keeper{
		startRequest: r, dir: dir, log: log, say: say, hub: h,
		stopping: make(chan struct{}), forced: make(chan struct{}), done: make(chan struct{}), hurry: make(chan struct{}, 1),
		budget: r.Grace,
		news:   make(chan struct{}), state: runtime.Starting,
	}
}

// run starts the replica again and again until stop is called, and returns when
// its last process and everything in its group is gone.
func (k *keeper) run() {
	backoff := firstBackoff
	var crashes runtime.Burst
	for n := 0; ; n++ {
		k.update(func() { k.tail = nil })
		c, err := k.launch(n)
		wasReady := false
		if err != nil {
			k.ended(err.Error())
		} else {
			k.update(func() { k.child, k.state, k.restarts = c, runtime.Starting, n })
			wasReady = k.attend(c)
		}
		if k.isStopping() {
			return
		}
		if wasReady {
			backoff = firstBackoff
			if text := crashes.Ended(k.lastExit(), time.Since(c.started)); text != "" {
				k.note(text + "; starting it again")
			}
			continue
		}
		k.update(func() {
			k.state = runtime.Failing
			k.loop.failed(k.exit, k.tail)
		})
		k.noteLoop()
		select {
		case <-k.stopping:
			return
		case <-k.hurry:
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, lastBackoff)
	}
}

// attend sees one process through to its end, and reports whether it had been
// ready.
func (k *keeper) attend(c *child) (wasReady bool) {
	ctx, cancel := context.WithCancel(context.Background())
	answers := make(chan answer)
	var polls sync.WaitGroup
	polls.Go(func() { c.pollReady(ctx, answers) })
	defer polls.Wait()
	defer cancel()

	stopping, forced := k.stopping, k.forced
	var grace <-chan time.Time
	for {
		select {
		case a := <-answers:
			if grace != nil {
				continue // it is on its way out; nothing is sent to it any more
			}
			wasReady = wasReady || a.ready
			if a.ready {
				k.noteReady()
			}
			k.update(func() { k.state, k.reason = stateOf(a.ready, wasReady), a.reason })
			k.hub.changed()
		case <-stopping:
			stopping = nil
			k.update(func() { k.state = runtime.Draining })
			cancel() // its connection would keep the agent's drain waiting
			k.hub.changed()
			if k.hub.letGo(c.endpoint) {
				c.leave()
			}
			c.terminate()
			grace = time.After(k.budget)
		case <-grace:
			k.update(func() { k.killed = true })
			k.note("did not end within " + k.budget.String() + " of SIGTERM; killing it")
			c.kill()
			grace = make(chan time.Time) // never again
		case <-forced:
			forced = nil
			k.update(func() { k.killed = true })
			c.kill()
		case <-c.exited:
			k.update(func() { k.last, k.how = c.process(), c.how })
			k.ended(c.exit)
			k.hub.changed()
			c.cleanUp()
			return wasReady
		}
	}
}

func stateOf(ready, wasReady bool) runtime.State {
	switch {
	case ready:
		return runtime.Ready
	case wasReady:
		return runtime.Draining
	}
	return runtime.Starting
}

// stop begins the end: no new requests, SIGTERM, and SIGKILL to the group when
// it is not gone within grace. It does not wait; done does.
func (k *keeper) stop(grace time.Duration) {
	k.once.stop.Do(func() {
		if grace > 0 {
			k.budget = min(grace, k.budget)
		}
		close(k.stopping)
	})
}

// force ends a stop at once. It implies stop.
func (k *keeper) force() {
	k.stop(0)
	k.once.force.Do(func() { close(k.forced) })
}

func (k *keeper) isStopping() bool {
	select {
	case <-k.stopping:
		return true
	default:
		return false
	}
}

// await returns when the replica is ready, or has failed to get ready, or is
// being stopped, or the time is over. With again, only a start that fails from
// now on counts: one that failed before may have failed for a reason that is
// mended by now, so the next start is made at once.
func (k *keeper) await(ctx context.Context, within time.Duration, again bool) (awaitReply, error) {
	over := time.NewTimer(within)
	defer over.Stop()
	before := 0
	if again {
		k.mu.Lock()
		before = k.loop.failures
		k.mu.Unlock()
		select {
		case k.hurry <- struct{}{}:
		default:
		}
	}
	for {
		k.mu.Lock()
		state, news, loop := k.state, k.news, k.loop
		reply := awaitReply{Log: slices.Clone(k.tail)}
		reason := k.reason
		k.mu.Unlock()
		switch {
		case state == runtime.Ready:
			return awaitReply{Ready: true}, nil
		case state == runtime.Failing && loop.failures > before:
			reply.Log, reply.Exit, reply.Detail = loop.tail, loop.exit, "ended before it was ready ("+loop.exit+")"
			return reply, nil
		case k.isStopping():
			reply.Detail = "is being stopped"
			return reply, nil
		}
		select {
		case <-ctx.Done():
			return reply, context.Cause(ctx)
		case <-over.C:
			k.mu.Lock()
			reply.Log = slices.Clone(k.tail) // a line is no news
			k.mu.Unlock()
			reply.Detail = "was not ready within " + within.String()
			if reason != "" {
				reply.Detail += ": " + reason
			}
			return reply, nil
		case <-k.stopping:
		case <-news:
		}
	}
}

// signal sends a signal to the present process, waits until it has ended, and
// returns when another one is in its place. SIGKILL goes to the whole group; any
// other one to the process alone. It is false when there is no process right
// now. A keeper that is being stopped puts nobody in the place.
func (k *keeper) signal(ctx context.Context, sig syscall.Signal) (change runtime.Change, ok bool, err error) {
	k.mu.Lock()
	c := k.child
	k.mu.Unlock()
	if c == nil {
		return change, false, nil
	}
	change = runtime.Change{Agent: k.Agent, Replica: k.Replica, Before: c.process()}
	if sig == syscall.SIGKILL {
		c.kill()
	} else if err := c.record.Signal(sig); err != nil {
		return change, true, err
	}
	select {
	case <-ctx.Done():
		return change, true, context.Cause(ctx)
	case <-c.exited:
		change.Exit = c.how
	}
	over := time.NewTimer(successorTime)
	defer over.Stop()
	for {
		k.mu.Lock()
		next, news := k.child, k.news
		k.mu.Unlock()
		if next != nil && next != c {
			change.After = next.process()
			return change, true, nil
		}
		select {
		case <-ctx.Done():
			return change, true, context.Cause(ctx)
		case <-over.C:
			return change, true, nil
		case <-k.done:
			return change, true, nil
		case <-news:
		}
	}
}

func (k *keeper) observe() runtime.Replica {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := runtime.Replica{
		Agent: k.Agent, Name: k.Replica, Generation: k.Generation,
		State: k.state, Restarts: k.restarts, Code: k.Code, Settings: k.Settings, Named: k.Named,
	}
	if k.child != nil {
		r.PID, r.Start, r.Started = k.child.record.PID, k.child.record.Start, k.child.started
	}
	if k.last != (runtime.Process{}) {
		r.Exit = new(k.how)
	}
	if k.loop.failures > 0 && (k.state == runtime.Failing || k.state == runtime.Starting) {
		r.State, r.Detail = runtime.Failing, k.loop.String()
	} else if k.state == runtime.Starting && k.exit != "" {
		r.Detail = "it had been ready, and ended (" + k.exit + ")"
	}
	return r
}

// serving is the endpoint that may get requests right now, if there is one.
func (k *keeper) serving() (stack.Endpoint, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.child == nil || k.state != runtime.Ready {
		return stack.Endpoint{}, false
	}
	return k.child.endpoint, true
}

func (k *keeper) stopped() stopReply {
	k.mu.Lock()
	defer k.mu.Unlock()
	return stopReply{Exit: k.exit, Killed: k.killed, Last: k.last, How: k.how}
}

func (k *keeper) lastExit() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.exit
}

// ended notes the end of a process. Its successor, if any, is not ready yet.
func (k *keeper) ended(how string) {
	k.update(func() { k.child, k.exit, k.state = nil, how, runtime.Starting })
}

// update changes the fields below mu and wakes whoever waits for news.
func (k *keeper) update(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
	close(k.news)
	k.news = make(chan struct{})
}

// output takes a line that the replica wrote.
func (k *keeper) output(line string) {
	_ = k.log.write(k.Replica, line) // a full disk must not stop the agent; the tail below still has it
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.tail) == lastLines {
		k.tail = slices.Delete(k.tail, 0, 1)
	}
	k.tail = append(k.tail, line)
}

// note says something about the replica where its readers see it: among its own
// lines, and in the supervisor's log.
func (k *keeper) note(what string) {
	_ = k.log.write(k.Replica, "[flisk] "+what)
	k.say(k.Replica + " generation " + strconv.Itoa(k.Generation) + " " + what)
}
