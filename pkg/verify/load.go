package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/flisk-go/flisk/pkg/turn"
)

const (
	readPause   = 25 * time.Millisecond
	repeatPause = 50 * time.Millisecond
)

// load is what clients do during reloads, and what they are told. Generations are
// numbered by the reload that brought them; 0 is what was there before.
type load struct {
	scene *scene
	first *attempt // that is sent again
	reply answer   // to it

	clients sync.WaitGroup
	retired sync.WaitGroup

	mu          sync.Mutex
	generations []generation
	early       map[string]bool // code that answered and that no reload had reported by then
	requests    int
	repeats     int
	outlived    int // requests that a process answered which was replaced by then
	refused     int
	again       bool     // the agent's code ran again for a turn that was answered
	stale       []string // answers of older code than had to answer
	failed      []string // requests
	wrong       []string // answers to the turn that was sent again
	slow        []string // turns that were cut by a drain whose time was up
	unwell      []answer // the agent's code failed by itself, or it takes no such input
}

// generation is the process of one code.
type generation struct {
	code   string
	told   time.Time // when it was to be told to stop; zero while it serves
	change Change    // when it has ended
	err    error     // of its end
}

func newLoad(s *scene, first *attempt, reply answer) *load {
	return &load{scene: s, first: first, reply: reply, generations: []generation{{code: reply.code}}, early: map[string]bool{}}
}

// start begins what goes on until the returned function is called.
func (l *load) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	for _, path := range []string{turn.SessionsPath(l.scene.Agent), turn.AgentReadyPath(l.scene.Agent)} {
		l.clients.Go(func() { every(ctx, readPause, func() { l.read(ctx, path) }) })
	}
	l.clients.Go(func() { every(ctx, repeatPause, func() { l.repeat(ctx, 0) }) })
	return func() {
		cancel()
		l.clients.Wait()
	}
}

// every calls do again and again until ctx ends.
func every(ctx context.Context, pause time.Duration, do func()) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for ctx.Err() == nil {
		do()
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// now is the number of the generation that must answer, by the last reload that was
// reported.
func (l *load) now() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.generations) - 1
}

// reloaded notes a reload that was reported, and sees the old process to its end.
func (l *load) reloaded(ctx context.Context, now Reloaded) {
	l.mu.Lock()
	old := len(l.generations) - 1
	l.generations[old].told = time.Now()
	l.generations = append(l.generations, generation{code: now.Code})
	l.mu.Unlock()
	l.retired.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, l.scene.Drain+changeTimeout)
		defer cancel()
		change, err := now.Retire(ctx)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.generations[old].change, l.generations[old].err = change, err
	})
}

// pid is that of a process that was replaced.
func (l *load) pid(number int) int { return l.generations[number].change.Before.PID }

func (l *load) name(number int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.generations[number].code
}

// read asks for the list of sessions, or whether the agent is ready: only one that
// is told to stop is not, and a gateway that is told too late still asks that one.
func (l *load) read(ctx context.Context, path string) {
	least := l.now()
	status, header, _, err := l.scene.client.ask(ctx, l.scene.target.URL()+path)
	if ctx.Err() != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests++
	code := header.Get(turn.HeaderCode)
	switch {
	case err != nil:
		l.failed = append(l.failed, fmt.Sprintf("GET %s: no answer: %v", path, err))
	case status != http.StatusOK && !(path == turn.AgentReadyPath(l.scene.Agent) && l.overtaken(code)):
		l.failed = append(l.failed, fmt.Sprintf("GET %s was answered %d", path, status))
	default:
		l.from(code, least, "a request")
	}
}

// overtaken reports whether code is that of a process that was to be told to stop
// before it answered.
func (l *load) overtaken(code string) bool {
	n := l.number(code)
	return n >= 0 && !l.generations[n].told.IsZero()
}

// repeatLong lets a process have a turn that is sent again until it is told to
// stop.
func (l *load) repeatLong(ctx context.Context, long time.Duration) {
	l.clients.Go(func() { l.repeat(ctx, long) })
}

// repeat sends the first turn again; the agent holds it for a while.
func (l *load) repeat(ctx context.Context, long time.Duration) {
	l.mu.Lock()
	least, again := len(l.generations)-1, l.again
	l.mu.Unlock()
	if again {
		return // each one would run the agent's code, and may cost something
	}
	a := &attempt{message: l.first.message, ledger: l.first.ledger}
	if long > 0 {
		a.hold = fmt.Sprintf("%s:%s:%d", l.scene.Nonce, turn.PointAccepted, long.Milliseconds())
	}
	got, err := l.scene.send(ctx, a)
	if err != nil {
		return
	}
	const what = "a turn that was sent again"
	l.answered(least, got, time.Now(), what)
	l.mu.Lock()
	defer l.mu.Unlock()
	was, is := l.reply.result, got.result
	switch {
	case !got.ok():
	case !is.Replayed || is.TurnID != was.TurnID:
		l.again = true
		l.scene.ran()
		l.wrong = append(l.wrong, fmt.Sprintf("turn %d was sent again and run again, as turn %d (%s)", was.Turn, is.Turn, is.TurnID))
	case !bytes.Equal(is.Reply, was.Reply):
		l.wrong = append(l.wrong, fmt.Sprintf("the reply of turn %d was %s, and %s when it was sent again", was.Turn, brief(was.Reply), brief(is.Reply)))
	default:
		l.repeats++
	}
}

// answered notes what came back for a turn. least is the number of the
// generation that served when it was sent.
func (l *load) answered(least int, got answer, at time.Time, what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests++
	switch {
	case got.ok():
		l.from(got.code, least, what)
	case got.failedItself(l.scene.TurnTimeout), got.problem == turn.BadRequest, got.problem == turn.TooLarge: // because of what it was sent
		l.unwell = append(l.unwell, got)
	case l.scene.busy(got): // for which on_busy: reject asks, or turns that take nearly all their time
		l.refused++
	case l.outOfTime(least, got, at):
		l.slow = append(l.slow, what)
	default:
		l.failed = append(l.failed, what+": "+got.String())
	}
}

// outOfTime reports whether the process that did not answer a turn had been told
// to stop for as long before that as a drain may take.
func (l *load) outOfTime(least int, got answer, at time.Time) bool {
	number := max(least, l.number(got.code))
	told := l.generations[number].told
	return !told.IsZero() && at.Sub(told) >= l.scene.Drain-logLag
}

// number is that of a code; -1 when no reload was to it.
func (l *load) number(code string) int {
	return slices.IndexFunc(l.generations, func(g generation) bool { return g.code == code })
}

// from notes which code answered. least is the number of the generation that
// served when the request was sent.
func (l *load) from(code string, least int, what string) {
	switch n := l.number(code); {
	case n < 0:
		l.early[code] = true // a process serves a moment before its reload is reported
	case n < least:
		l.stale = append(l.stale, fmt.Sprintf("%s, sent after reload %d was reported, was answered by the code that reload %d replaced (%s)", what, least, n+1, code))
	case n < len(l.generations)-1:
		l.outlived++
	}
}

// spoiled reports whether something is broken already.
func (l *load) spoiled() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.failed)+len(l.wrong)+len(l.stale) > 0
}

// judge says what is broken, or why nothing is known. Everything has ended.
func (l *load) judge() error {
	s, session := l.scene, l.first.ledger
	if len(l.failed) > 0 {
		return s.broke(Failed, session, "%d of %d requests failed, the first: %s", len(l.failed), l.requests, l.failed[0])
	}
	if len(l.wrong) > 0 {
		return s.broke(Doubled, session, "%s", l.wrong[0])
	}
	if len(l.stale) > 0 {
		return s.broke(Stale, session, "%s", l.stale[0])
	}
	for code := range l.early {
		if l.number(code) < 0 {
			return fmt.Errorf("an answer came from the code %q, and no reload was to that", code)
		}
	}
	replaced := l.generations[:len(l.generations)-1]
	for _, g := range replaced {
		if g.err != nil {
			return fmt.Errorf("cannot stop what a reload replaced: %w", g.err)
		}
	}
	if len(l.slow) > 0 {
		return s.tooSlow(l.slow[0])
	}
	for n, g := range replaced {
		if err := g.change.replaced(); err != nil {
			return s.broke(Stale, nil, "reload %d replaced nothing: %v", n+1, err)
		}
		if g.change.Exit != (Exit{}) {
			return s.broke(Failed, nil, "the old process of reload %d ended with %s after its drain", n+1, g.change.Exit)
		}
	}
	for _, a := range l.unwell {
		if err := s.mustAnswer(session, a); err != nil {
			return err
		}
	}
	if l.outlived == 0 {
		return errors.New("no request was under way when its process was replaced")
	}
	return nil
}

// tell says what was seen.
func (l *load) tell() {
	s := l.scene
	s.saw("%d requests during %s: none failed, and none that was sent after a reload was answered by older code", l.requests, count(len(l.generations)-1, "reload"))
	s.saw("%d of them were finished by a process that had been replaced", l.outlived)
	s.saw("turn %d was sent again %d times: always its stored reply", l.reply.result.Turn, l.repeats)
	if l.refused > 0 {
		s.saw("%s refused because the session was busy", wasWere(l.refused))
	}
}
