package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/scaffold"
	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/turn"
	"github.com/flisk-go/flisk/pkg/verify"
)

// DemoJSON is what "flisk demo --json" prints.
type DemoJSON struct {
	Held   bool            `json:"held"` // every check held
	Checks []DemoCheckJSON `json:"checks"`
	Turns  []DemoTurnJSON  `json:"turns"`
	Killed DemoKillJSON    `json:"killed"`
	Verify VerifyJSON      `json:"verify"`        // what "flisk verify" said
	Dir    string          `json:"dir,omitempty"` // what --keep kept
	Millis int64           `json:"millis"`
}

// DemoCheckJSON is one thing that the demo looked at.
type DemoCheckJSON struct {
	Name string `json:"name"`
	Held bool   `json:"held"`
}

// DemoTurnJSON is one turn that the demo sent.
type DemoTurnJSON struct {
	Session string `json:"session_id"`
	Turn    int    `json:"turn"`
	Input   string `json:"input"`
	Reply   string `json:"reply"`
}

// DemoKillJSON names the agent's process before and after the SIGKILL.
type DemoKillJSON struct {
	Before int `json:"pid_before"`
	After  int `json:"pid_after"`
}

func newDemo(a *app) *cobra.Command {
	var keep bool
	cmd := &cobra.Command{
		Use:     "demo",
		Short:   "see the whole story in under a minute",
		GroupID: groupRun,
		Long: "Scaffold a project in a temporary directory, run it, talk to it, kill its process with SIGKILL, and " +
			"see the conversation go on; then prove it with flisk verify. It needs Go and nothing else, checks what it " +
			"shows, and leaves nothing behind.",
		Example: examples(
			"flisk demo", "watch it",
			"flisk demo --keep", "keep the directory to look around in",
		),
		Args: positional(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Root().PersistentFlags().Changed("chdir") { // in the environment it may mean other commands
				return usageFault(cmd, "%q has a directory of its own and takes no -C", cmd.CommandPath())
			}
			return runDemo(cmd.Context(), a, keep)
		},
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "keep the temporary directory")
	return cmd
}

// demo is one run of it.
type demo struct {
	story
	app    *app // with a FLISK_HOME and a run directory of its own
	root   string
	dir    string // of the project, in root
	port   int
	keep   bool
	opened *opened
	force  chan struct{} // closed when the end must not wait for a drain
	url    string
	pids   []int       // of every process that the agent had
	open   []io.Closer // the claim on root, and the pipe that the stack lives by
	result DemoJSON
}

// What is said, and must be remembered.
const (
	demoSession = "s1"
	demoFirst   = "my name is Ada"
	demoSecond  = "I like green tea"
	demoThird   = "what do you know about me?"
	demoOther   = "hello, who am I?"
)

// cleanup bounds what the end of an interrupted demo may take.
const demoCleanup = 30 * time.Second

// runDemo runs the demo and cleans up, whatever happens. A second signal does
// not cut the cleaning off: it is short, and what it would leave is a running
// process. When nobody reads the story any more, it ends early.
func runDemo(ctx context.Context, a *app, keep bool) error {
	ctx, stop := a.untilSignal(ctx, func(os.Signal, chan<- os.Signal) {})
	defer stop()
	ctx, unheard := context.WithCancelCause(ctx)
	defer unheard(nil)

	started := time.Now()
	d := &demo{story: newStory(a), keep: keep, force: make(chan struct{})}
	d.unheard = unheard
	a.clearRooms(ctx, project.Process, d.progress)
	if err := d.makeRoom(a); err != nil {
		return err
	}
	defer d.close()
	err := d.play(ctx)
	if err != nil {
		close(d.force)
		left := d.leave(context.WithoutCancel(ctx))
		if gone := a.streams.Out.Failed(); gone != nil && left == nil {
			return fmt.Errorf("cannot write to standard output: %w", gone)
		}
		err = errors.Join(err, left)
	}
	if err != nil && ctx.Err() != nil {
		return interrupted(ctx, err)
	}
	if err != nil {
		return err
	}
	d.result.Millis = time.Since(started).Milliseconds()
	return d.conclude(a, time.Since(started))
}

// makeRoom makes the temporary directory. The stack in it ends with this process,
// also when that is killed, and the directory is cleared by a later one then,
// unless it is to be kept.
func (d *demo) makeRoom(a *app) error {
	name := demoRoomPrefix
	if d.keep {
		name += "*-kept"
	}
	root, err := makeRoom(name)
	if err != nil {
		return err
	}
	held, mine, err := os.Pipe()
	if err != nil {
		return errors.Join(err, os.Remove(root))
	}
	d.open = append(d.open, held, mine)
	d.root, d.dir = root, filepath.Join(root, "bot")
	inner := *a
	inner.environ = append(append([]string{}, a.environ...),
		"FLISK_HOME="+filepath.Join(root, roomHome), "FLISK_RUN_DIR="+filepath.Join(root, roomRun))
	inner.global.dir, inner.global.runtime = d.dir, runtimeProcess
	inner.owner = held
	d.app = &inner
	return nil
}

// play tells the story up to and including the end of the stack.
func (d *demo) play(ctx context.Context) error {
	d.title("a conversation that outlives its process")
	for _, chapter := range []struct {
		title string
		play  func(context.Context) error
	}{
		{"A new project", d.scaffold},
		{"Run it", d.up},
		{"Talk", d.talk},
		{"Kill it", d.kill},
		{"Go on as if nothing had happened", d.goOn},
		{"Another session knows nothing of it", d.other},
		{"Prove it", d.verify},
		{"Stop", d.down},
	} {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		d.chapter(chapter.title)
		if err := chapter.play(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) scaffold(ctx context.Context) error {
	d.command("flisk init bot")
	port, err := steadyPort()
	if err != nil {
		return err
	}
	made, err := scaffold.Init(d.dir, scaffold.Options{Port: port})
	if err != nil {
		return err
	}
	d.port = port
	d.say(fmt.Sprintf("%d files, one agent. For now it replies with what it remembers; a model call goes into turn.go.", made.Files))
	if d.opened, err = d.app.open(ctx, d.force); err != nil {
		return err
	}
	claim, err := claimRoom(d.root, d.opened.runtime, stack.Of(d.opened.project, d.app.global.instance))
	if err == nil {
		d.open = append(d.open, claim)
	}
	return err
}

// close gives back what the stack lived by, once it has ended.
func (d *demo) close() {
	for _, c := range d.open {
		_ = c.Close() // nothing was written to it
	}
}

func (d *demo) up(ctx context.Context) error {
	d.command("flisk up")
	report, err := d.opened.driver.Up(ctx, d.progress)
	if err != nil {
		return err
	}
	d.url = report.URL
	agent, err := d.agent(ctx)
	if err != nil {
		return err
	}
	d.result.Killed.Before = agent.PID
	d.say(fmt.Sprintf("The agent is process %d, behind %s", agent.PID, d.url))
	return nil
}

// agent is the one replica of the demo, ready.
func (d *demo) agent(ctx context.Context) (runtime.Replica, error) {
	observed, err := d.opened.driver.Observe(ctx)
	if err != nil {
		return runtime.Replica{}, err
	}
	for _, r := range observed.Replicas {
		if r.State == runtime.Ready {
			d.pids = append(d.pids, r.PID)
			return r, nil
		}
	}
	return runtime.Replica{}, errors.New("no agent is ready")
}

func (d *demo) talk(ctx context.Context) error {
	for _, input := range []string{demoFirst, demoSecond} {
		if _, err := d.turn(ctx, demoSession, input); err != nil {
			return err
		}
	}
	d.say("Each reply was sent after its turn was on disk, not before.")
	return nil
}

// turn sends one and shows what was said.
func (d *demo) turn(ctx context.Context, session, input string) (answer, error) {
	raw, err := json.Marshal(input)
	if err != nil {
		return answer{}, err
	}
	d.you(session, input)
	c := client{base: d.url, http: directly(), again: func(error, time.Duration) {}}
	done := d.progress.Wait("waiting for the agent")
	got, err := c.send(ctx, message{agent: scaffold.Agent, session: session, key: turn.NewKey(), input: raw})
	done()
	if err != nil {
		return answer{}, d.app.turnFault(err)
	}
	reply := turn.Text(got.Reply)
	d.they(reply)
	d.result.Turns = append(d.result.Turns, DemoTurnJSON{got.SessionID, got.Turn, input, reply})
	return got, nil
}

func (d *demo) kill(ctx context.Context) error {
	before := d.result.Killed.Before
	d.command(fmt.Sprintf("kill -9 %d", before))
	killed, err := d.opened.driver.Kill(ctx, scaffold.Agent)
	if err != nil {
		return err
	}
	at := time.Now()
	after, err := d.successor(ctx, before)
	if err != nil {
		return err
	}
	d.result.Killed.After = after.PID
	d.say(fmt.Sprintf("No warning, no time to save anything. %s later process %d took its place.", console.Span(time.Since(at)), after.PID))
	d.check(fmt.Sprintf("process %d is dead", before), len(killed) == 1 && killed[0].Before.PID == before && gone(before))
	return nil
}

// successor waits for a ready replica in another process.
func (d *demo) successor(ctx context.Context, before int) (runtime.Replica, error) {
	ctx, cancel := context.WithTimeout(ctx, demoCleanup)
	defer cancel()
	done := d.progress.Wait("waiting for the next process")
	defer done()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return runtime.Replica{}, fmt.Errorf("no process took the place of the killed one: %w", context.Cause(ctx))
		case <-tick.C:
			if r, err := d.agent(ctx); err == nil && r.PID != before {
				return r, nil
			}
		}
	}
}

// gone reports whether no process has the id.
func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func (d *demo) goOn(ctx context.Context) error {
	got, err := d.turn(ctx, demoSession, demoThird)
	if err != nil {
		return err
	}
	reply := turn.Text(got.Reply)
	d.check("turn 3 remembers turns 1 and 2", got.Turn == 3 && mentions(reply, demoFirst) && mentions(reply, demoSecond))
	return nil
}

func (d *demo) other(ctx context.Context) error {
	got, err := d.turn(ctx, "s2", demoOther)
	if err != nil {
		return err
	}
	reply := turn.Text(got.Reply)
	d.check("a new session starts fresh", got.Turn == 1 && !mentions(reply, demoFirst) && !mentions(reply, demoSecond))
	return nil
}

// verify proves the project in a stack of its own: each guarantee is a check of
// the demo.
func (d *demo) verify(ctx context.Context) error {
	d.command("flisk verify")
	d.say("The same again, for every moment of a turn, in a stack of its own: killed, drained, restarted, raced.")
	left := func() {}
	var err error
	d.result.Verify, err = d.app.prover(ctx, d.app, proving{
		opened: d.opened, agents: d.opened.project.AgentNames(), seed: uint64(d.port), keep: filepath.Join(d.root, "kept"),
		progress: console.Silent(), agent: func(string, int) {}, ended: func(verify.Report) {}, left: func() { left() },
		begin: func(c verify.Check) func(verify.Result) {
			done := d.progress.Wait(c.How)
			left = done
			return func(r verify.Result) {
				done()
				d.check(r.Promise, r.Verdict == verify.Held)
			}
		},
	})
	return err
}

func (d *demo) down(ctx context.Context) error {
	d.command("flisk down")
	if err := d.leave(ctx); err != nil {
		return err
	}
	free := true
	if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", d.port)); err != nil {
		free = false
	} else {
		free = l.Close() == nil
	}
	d.check("nothing is left behind: no process, no port, no directory", free && d.left())
	return nil
}

// leave stops what runs and removes the directory, as far as either exists.
func (d *demo) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, demoCleanup)
	defer cancel()
	var err error
	if d.opened != nil {
		_, err = d.opened.driver.Down(ctx, d.progress)
	}
	if d.keep {
		d.result.Dir = d.root
		gone := os.Remove(filepath.Join(d.root, roomOwner))
		if errors.Is(gone, fs.ErrNotExist) { // it did not come to that
			gone = nil
		}
		return errors.Join(err, gone)
	}
	return errors.Join(err, os.RemoveAll(d.root))
}

// left reports whether no process, run directory and temporary directory is.
func (d *demo) left() bool {
	for _, pid := range d.pids {
		if !gone(pid) {
			return false
		}
	}
	runs, err := os.ReadDir(filepath.Join(d.root, roomRun))
	if d.keep {
		return err == nil && len(runs) == 0 || errors.Is(err, fs.ErrNotExist)
	}
	_, err = os.Lstat(d.root)
	return errors.Is(err, fs.ErrNotExist)
}
