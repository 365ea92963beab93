package verify

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/turn"
)

// Check is one guarantee and how it is tried.
type Check struct {
	Name    string
	Promise string // the guarantee, as a sentence
	How     string // what is done to try it
	Turns   int    // that it sends, at most, besides those that follow, those of allow, and what reload repeats

	// Undisturbed is how long the session is, in turns, that its own is compared
	// with; 0 when it is compared with none.
	Undisturbed int

	// Again is how many turns it takes, at most, to make both once more when they
	// differ.
	Again int

	run func(context.Context, *scene) error
}

// Most is how many turns it sends, at most, when it is done alone and nothing
// differs.
func (c Check) Most() int { return c.Turns + c.Undisturbed }

// Checks are all there are, in the order in which they run: first what every
// other one relies on.
func Checks() []Check {
	return []Check{
		continuity(), isolation(), downUp(), missingFile(), drain(), crash(), lostReply(), replay(), race(), reload(),
	}
}

// errBroken ends a check that has its verdict.
var errBroken = errors.New("broken")

// changeTimeout bounds what the target may take for one change, on top of what
// the change is about.
const changeTimeout = time.Minute

// scene is one check while it runs. Its methods are for the goroutine of the
// check; those that say so are for any.
type scene struct {
	*run
	Check
	flights sync.WaitGroup // requests in the background

	killedAt time.Time // when the agent was killed that is not ready again

	mu     sync.Mutex
	result Result
}

// check does one check.
func (r *run) check(ctx context.Context, c Check) Result {
	started := time.Now()
	s := &scene{run: r, Check: c, result: newResult(c.Name, c.Promise)}
	if c.Undisturbed > 0 {
		s.Turns += r.longest // whichever check is the first makes it for all
	}
	err := s.target.Up(ctx) // an earlier check may have left it in any state
	if err == nil {
		inner, cancel := context.WithCancel(ctx)
		err = c.run(inner, s)
		cancel()
		s.flights.Wait()
	}
	if err == nil {
		err = r.client.sameCode()
	}
	s.result.Millis = time.Since(started).Milliseconds()
	r.sent += s.result.Turns
	switch {
	case len(s.result.Broken) > 0:
		s.result.Verdict = Broken
	case err != nil:
		s.result.Verdict, s.result.Reason = Unchecked, err.Error()
	default:
		s.result.Verdict = Held
	}
	return s.result
}

// saw notes something that the verdict rests on.
func (s *scene) saw(format string, args ...any) {
	s.result.Seen = append(s.result.Seen, fmt.Sprintf(format, args...))
}

// broke notes that the guarantee is broken, and returns errBroken.
func (s *scene) broke(kind Kind, l *ledger, format string, args ...any) error {
	f := Finding{Kind: kind, What: fmt.Sprintf(format, args...)}
	if l != nil {
		f.Session = l.session
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.result.Broken = append(s.result.Broken, f)
	return errBroken
}

// session opens a session that nothing was sent to.
func (s *scene) session() *ledger {
	l := &ledger{session: s.name(s.Name)}
	s.result.Sessions = append(s.result.Sessions, l.session)
	return l
}

// attempt makes the next turn of a session, and does not send it.
func (s *scene) attempt(l *ledger) *attempt {
	return l.add(s.name("key"), s.input(l.next()), "")
}

// post sends a turn and notes what came back. It may be called by any goroutine.
// The error says that it was not sent: the check would send more than it says.
func (s *scene) post(ctx context.Context, a *attempt) (answer, error) {
	s.mu.Lock()
	if s.result.Turns++; s.result.Turns > s.Turns {
		s.result.Turns--
		s.mu.Unlock()
		return answer{}, fmt.Errorf("more than the %d turns were needed that it says it sends", s.Turns)
	}
	s.mu.Unlock()
	got, err := s.send(ctx, a)
	if err == nil && got.ok() {
		s.mu.Lock()
		s.result.Replies = append(s.result.Replies, Exchange{a.session, got.result.Turn, turn.Text(a.input), turn.Text(got.result.Reply)})
		s.mu.Unlock()
	}
	return got, err
}

// send is post of what does not count: a turn that was answered before, for which
// the agent's code does not run again.
func (s *scene) send(ctx context.Context, a *attempt) (answer, error) {
	got := s.client.send(ctx, s.target.URL(), a.message)
	if ctx.Err() != nil && !got.ok() {
		a.told(answer{err: context.Cause(ctx)})
		return got, context.Cause(ctx)
	}
	a.told(got)
	return got, nil
}

// ran counts a turn that was sent again and run again.
func (s *scene) ran() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.result.Turns++
}

// turn sends the next turn of a session once the agent is ready, and returns its
// result. Anything but 200 ends the check.
func (s *scene) turn(ctx context.Context, l *ledger) (turn.Result, error) {
	return s.say(ctx, l, s.input(l.next()))
}

// say is turn with an input of the check's own choice.
func (s *scene) say(ctx context.Context, l *ledger, input json.RawMessage) (turn.Result, error) {
	if err := s.ready(ctx); err != nil {
		return turn.Result{}, err
	}
	got, err := s.post(ctx, l.add(s.name("key"), input, ""))
	if err != nil {
		return turn.Result{}, err
	}
	return got.result, s.mustAnswer(l, got)
}

// mustAnswer ends the check unless a turn was answered. That a session cannot be
// read is what it is about; what else an agent may answer is not.
func (s *scene) mustAnswer(l *ledger, got answer) error {
	switch {
	case got.ok():
		return nil
	case got.problem == turn.SessionDamaged:
		return s.broke(Torn, l, "the agent cannot read the session any more: %s", got.detail)
	case got.failedItself(s.TurnTimeout):
		return fmt.Errorf("the agent's own code failed a turn, and that says nothing of this: %s", got)
	}
	return fmt.Errorf("a turn was not answered: %s", got)
}

// ready waits until the agent takes turns.
func (s *scene) ready(ctx context.Context) error {
	gap, err := s.client.ready(ctx, s.target.URL())
	if !s.killedAt.IsZero() {
		gap, s.killedAt = time.Since(s.killedAt), time.Time{}
	}
	s.result.Gap = max(s.result.Gap, gap.Milliseconds())
	if err != nil && ctx.Err() == nil {
		err = s.withLastWords(ctx, err)
	}
	return err
}

// withLastWords adds to an error what the agent wrote last: the stack and its
// log are gone when somebody reads the verdict.
func (s *scene) withLastWords(ctx context.Context, err error) error {
	last := ""
	reading := s.target.Logs(ctx, false, func(line string) error {
		last = cmp.Or(strings.TrimSpace(line), last)
		return nil
	})
	if reading != nil || last == "" {
		return err
	}
	return fmt.Errorf("%w; the last that it wrote: %q", err, last)
}

// look reads a session from the volume and judges it.
func (s *scene) look(ctx context.Context, l *ledger) (checkpoint.View, error) {
	view, err := s.read(ctx, l.session)
	damaged, isDamaged := errors.AsType[*checkpoint.DamagedError](err)
	switch {
	case errors.Is(err, checkpoint.ErrNoSession), errors.Is(err, fs.ErrNotExist):
		l.sawTurns(0)
		if n := l.acknowledged(); n > 0 {
			return view, s.broke(Lost, l, "%s answered, and the volume has no such session", wasWere(n))
		}
		return view, nil
	case isDamaged:
		return view, s.broke(Torn, l, "the session cannot be read: %s", damaged.Reason)
	case err != nil:
		return view, fmt.Errorf("cannot read the session: %w", err)
	}
	l.sawTurns(view.Turn)
	if found := l.judge(view); len(found) > 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.result.Broken = append(s.result.Broken, found...)
		return view, errBroken
	}
	return view, nil
}

func wasWere(turns int) string {
	if turns == 1 {
		return "1 turn was"
	}
	return fmt.Sprintf("%d turns were", turns)
}

// read reads a session from the volume.
func (s *scene) read(ctx context.Context, session string) (view checkpoint.View, err error) {
	err = s.target.ReadVolume(ctx, func(dir string) error {
		reader, err := checkpoint.OpenReader(dir, s.Agent)
		if err != nil {
			return err
		}
		view, err = reader.View(ctx, session)
		return errors.Join(err, reader.Close())
	})
	return view, err
}

// unchanged looks at a session between whose two looks no turn ran.
func (s *scene) unchanged(ctx context.Context, l *ledger, before checkpoint.View, by string) error {
	after, err := s.look(ctx, l)
	if err != nil {
		return err
	}
	if what := difference(before, after); what != "" {
		return s.broke(Lost, l, "%s changed the checkpoint: %s", by, what)
	}
	return nil
}

// kill kills the agent's process, and makes sure of it.
func (s *scene) kill(ctx context.Context, l *ledger) (Change, error) {
	s.killedAt = time.Now()
	within, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	change, err := s.target.Signal(within, syscall.SIGKILL)
	if errors.Is(err, ErrStillRuns) {
		return change, s.broke(NotKilled, l, "the kill did not kill: %v", err)
	}
	if err != nil {
		return change, fmt.Errorf("cannot kill the agent: %w", err)
	}
	if err := change.killed(); err != nil {
		return change, s.broke(NotKilled, l, "the kill did not kill: %v", err)
	}
	return change, nil
}

// restart replaces the agent's process, and makes sure of it.
func (s *scene) restart(ctx context.Context) (Change, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Drain+changeTimeout)
	defer cancel()
	change, err := s.target.Restart(ctx)
	if err == nil {
		err = change.replaced()
	}
	if err != nil {
		return change, fmt.Errorf("cannot restart the agent: %w", err)
	}
	return change, nil
}

// reload replaces the agent's process by one of newer code, and lets the old one
// run.
func (s *scene) reload(ctx context.Context) (Reloaded, error) {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	now, err := s.target.Reload(ctx)
	if err != nil {
		return now, fmt.Errorf("cannot reload the agent: %w", err)
	}
	s.client.expect(now.Code)
	return now, nil
}

// otherInput is one that differs from a given one: another of the agent's own,
// if there is one. Else it is no longer than the given one: a longer one may be
// more than the agent takes.
func (s *scene) otherInput(than json.RawMessage) json.RawMessage {
	others := append(slices.Clone(s.Inputs), json.RawMessage("0"), json.RawMessage("1"))
	return others[slices.IndexFunc(others, func(in json.RawMessage) bool { return !sameValue(in, than) })]
}
