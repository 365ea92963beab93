package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/turn"
)

// TurnJSON is what "flisk turn --json" prints: the agent's answer and how it was
// got.
type TurnJSON struct {
	Agent string `json:"agent"`
	turn.Result
	Key      string `json:"key"`      // the turn key that was sent
	Code     string `json:"code"`     // hash of the source that answered
	Attempts int    `json:"attempts"` // how often it was sent
	Millis   int64  `json:"millis"`   // from the first attempt to the answer
}

type turnOptions struct {
	message  string
	rawInput bool
	session  string
	newID    bool // no session was named
	key      string
	agent    string
}

func newTurn(a *app) *cobra.Command {
	var o turnOptions
	cmd := &cobra.Command{
		Use:     "turn MESSAGE",
		Short:   "send one turn to an agent",
		GroupID: groupTalk,
		Long: "Send one turn to an agent and print its reply, once it is saved. Without --session it opens a new " +
			"session and says how to go on with it.\n\n" +
			"Every turn has a key. When the answer does not arrive, the turn is sent again under the same key, up " +
			"to 8 times in all and within a minute: it is committed at most once, however often it is sent.\n\n" +
			"Off a terminal, stdout holds the reply and nothing else.",
		Example: examples(
			`flisk turn "hello" -s s1`, "talk in session s1",
			`flisk turn "hello"`, "begin a new session",
			`flisk turn - -s s1 < question.txt`, "read the message from stdin",
			`flisk turn '{"n": 17}' --input-json -s s1`, "send any JSON as the input",
			`flisk turn "pay" -s s1 --key order-4711`, "safe to run again: the same key is the same turn",
		),
		Args: positional(1, "MESSAGE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.message = args[0]
			o.newID = !cmd.Flags().Changed("session")
			if o.key == "" && !cmd.Flags().Changed("key") {
				o.key = turn.NewKey()
			}
			// Before signals are caught: a read of a terminal cannot be cancelled.
			m, err := o.read(a.streams.In)
			if err != nil {
				return err
			}
			return a.interruptible(cmd.Context(), func(ctx context.Context) error { return runTurn(ctx, a, o, m) })
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.session, "session", "s", "", "talk in session `ID`; without, in a new one")
	flags.StringVar(&o.key, "key", "", "use `KEY` as the turn key; without, a new one")
	flags.StringVar(&o.agent, "agent", "", "talk to agent `NAME`, where there are several")
	flags.BoolVar(&o.rawInput, "input-json", false, "MESSAGE is JSON and is sent as it is")
	return cmd
}

func runTurn(ctx context.Context, a *app, o turnOptions, m message) error {
	opened, err := a.look(ctx, nil)
	if err != nil {
		return err
	}
	observed, err := opened.driver.Observe(ctx)
	if err != nil {
		return err
	}
	if m.agent, err = opened.agent(o.agent, runningAgents(observed)...); err != nil {
		return err
	}
	if observed.URL == "" {
		return a.nothingRuns(opened.project.Name, observed)
	}
	progress := a.progress()
	again := func(err error, pause time.Duration) {
		progress.Note("again", console.Warn, fmt.Sprintf("%v; same key, in %s", err, console.Span(pause)))
	}
	c := client{base: observed.URL, http: directly(), again: again, gone: opened.gone}
	started := time.Now()
	done := progress.Wait("waiting for " + m.agent)
	got, err := c.send(ctx, m)
	done()
	switch {
	case err != nil && ctx.Err() != nil:
		return a.interruptedTurn(m)
	case err != nil:
		return a.turnFault(opened.explain(ctx, err))
	}
	took := time.Since(started)
	if a.global.json {
		return a.printJSON(TurnJSON{m.agent, got.Result, m.key, got.code, got.attempts, took.Milliseconds()})
	}
	a.printReply(got.Reply)
	a.printMeta(got, took, o.newID)
	return nil
}

// read checks the options and makes the turn of them.
func (o turnOptions) read(in io.Reader) (message, error) {
	m := message{key: o.key, session: o.session}
	if err := turn.CheckKey(o.key); err != nil {
		return m, fault.New(fault.Usage, "use 1 to 128 printable ASCII characters", "cannot use --key: %w", err)
	}
	if !o.newID {
		if err := turn.CheckSessionID(o.session); err != nil {
			return m, fault.New(fault.Usage, sessionHint(o.session), "cannot use --session: %w", err)
		}
	}
	text := o.message
	if text == "-" {
		b, err := io.ReadAll(in)
		if err != nil {
			return m, fault.New(fault.Failed, "", "cannot read the message from stdin: %w", err)
		}
		text = strings.TrimSuffix(string(b), "\n")
	}
	if text == "" {
		return m, fault.New(fault.Usage, "say something", "the message is empty")
	}
	if !utf8.ValidString(text) {
		return m, fault.New(fault.Usage, "", "the message is not UTF-8 text")
	}
	if !o.rawInput {
		b, err := json.Marshal(text)
		m.input = b
		return m, err
	}
	if !json.Valid([]byte(text)) {
		return m, fault.New(fault.Usage, "leave --input-json away to send it as text", "the message is not JSON")
	}
	m.input = json.RawMessage(text)
	return m, nil
}

// sessionHint says how to mend a session id that is refused.
func sessionHint(id string) string {
	switch {
	case id == "":
		return "leave it away to begin a new session"
	case len(id) > turn.MaxSessionID:
		return fmt.Sprintf("use at most %d characters", turn.MaxSessionID)
	default:
		return "use letters, digits and . _ ~ : @ + = -, beginning with a letter or a digit"
	}
}

// printReply prints what the agent said: readable on a terminal, byte for byte
// elsewhere (a string as its text).
func (a *app) printReply(reply json.RawMessage) {
	out := a.streams.Out
	if !out.ForPeople() {
		_, _ = io.WriteString(out.Raw(), turn.Text(reply)+"\n") // Failed tells
		return
	}
	fmt.Fprintln(out, console.Fold(console.Text(readable(reply)), out.Columns(), ""))
}

// printMeta tells on stderr what the turn was.
func (a *app) printMeta(got answer, took time.Duration, newID bool) {
	err := a.streams.Err
	meta := fmt.Sprintf("session %s · turn %d · %s", console.Elide(console.Line(got.SessionID), 36), got.Turn, console.Span(took))
	if got.Replayed {
		meta += " · already there, not run again"
	}
	if got.attempts > 1 {
		meta += fmt.Sprintf(" · sent %d times", got.attempts)
	}
	fmt.Fprintln(err, console.Quiet.Render(console.Fold(meta, err.Columns(), "")))
	if newID {
		err.Note("go on", console.Quiet, a.command("turn MESSAGE -s "+got.SessionID))
	}
}

func (a *app) nothingRuns(project string, observed runtime.Observed) error {
	if observed.Running {
		return fault.New(fault.Environment, "bring it back: "+a.command("up"), "the gateway of project %q does not run or does not answer", project)
	}
	return fault.New(fault.Environment, "start it: "+a.command("up"), "nothing of project %q runs", project)
}

// turnFault words a turn that has no answer.
func (a *app) turnFault(err error) error {
	failed, ok := errors.AsType[*turnError](err)
	if !ok {
		return err
	}
	f := &fault.Fault{Kind: fault.Failed, Message: failed.Error(), Detail: failed.body, Err: failed}
	if failed.problem != nil && failed.down == "" {
		code := failed.problem.Code
		f.Kind, f.Hint = a.problemHint(code, failed.message)
		f.Message = string(code) + ": " + f.Message + failed.tried()
		f.Detail = "see " + code.URI()
		return f
	}
	switch {
	case failed.down != "":
		f.Message, f.Detail = fmt.Sprintf("agent %q does not answer: %s%s", failed.message.agent, failed.down, failed.tried()), ""
		f.Hint = a.sendAgain(failed.message)
	case !failed.sent:
		f.Kind, f.Message, f.Hint = fault.Environment, "cannot reach the gateway: "+failed.Error()+failed.tried(), "look: "+a.command("status")
	case failed.body == "":
		f.Message = "no answer to the turn, it may be saved or not: " + failed.Error() + failed.tried()
		f.Hint = a.sendAgain(failed.message)
	default:
		f.Hint = "is another program on this port, or an agent of another version? look: " + a.command("status")
	}
	return f
}

// explain looks, where the last answer is that of a gateway that is not flisk's own,
// or not of the contract at all, whether that is because the agent does not run.
func (o *opened) explain(ctx context.Context, err error) error {
	failed, ok := errors.AsType[*turnError](err)
	if ok && failed.down == "" && (failed.foreign || failed.body != "") {
		failed.down = o.whyDown(ctx, failed.message.agent, func(runtime.Replica) bool { return true })
	}
	return err
}

// comesBack is how long what has just stopped may take to run again: "flisk kill"
// starts it within a second, and an engine after pauses that grow. The gateway
// holds a request for as long.
const comesBack = 10 * time.Second

// gone is [client.gone]: nothing brings back a container that was removed, or that
// has stopped for longer than comesBack.
func (o *opened) gone(ctx context.Context, agent string) string {
	return o.whyDown(ctx, agent, func(r runtime.Replica) bool {
		return r.State == runtime.Gone || !r.Stopped.IsZero() && time.Since(r.Stopped) > comesBack
	})
}

// whyDown says why an agent does not answer: the detail of the first of its
// replicas, when all of them are down. It is "" when one is not, and when nothing
// is known.
func (o *opened) whyDown(ctx context.Context, agent string, down func(runtime.Replica) bool) (why string) {
	observed, err := o.driver.Observe(ctx)
	if err != nil {
		return "" // the answer says more
	}
	for _, r := range observed.Replicas {
		switch {
		case r.Agent != agent:
		case r.State == runtime.Ready || !down(r):
			return ""
		default:
			why = cmp.Or(why, r.Detail)
		}
	}
	return why
}

// tried says how often and how long, when it was more than once.
func (e *turnError) tried() string {
	if e.attempts < 2 {
		return ""
	}
	return fmt.Sprintf(" (sent %d times in %s)", e.attempts, console.Span(e.took))
}

// interruptedTurn says what became of a turn that was not waited for.
func (a *app) interruptedTurn(m message) error {
	return fault.New(fault.Interrupted, "ask again, it is saved at most once: "+a.sameTurn(m),
		"interrupted; if the agent accepted the turn, it goes on without you")
}

func (a *app) sendAgain(m message) string {
	return "send it again, it is saved at most once: " + a.sameTurn(m)
}

// sameTurn is the command line of the very same turn.
func (a *app) sameTurn(m message) string {
	line := a.command("turn MESSAGE --key " + shellWord(m.key))
	if m.session != "" {
		line += " -s " + m.session
	}
	return line
}

// problemHint says what to do about a problem.
func (a *app) problemHint(code turn.Code, m message) (fault.Kind, string) {
	switch code {
	case turn.KeyReused:
		return fault.Usage, "send the same input, or leave --key away"
	case turn.SessionRequired:
		return fault.Usage, "name a session: -s ID"
	case turn.BadSessionID, turn.BadTurnKey, turn.BadRequest, turn.NotJSON, turn.TooLarge:
		return fault.Usage, code.Advice()
	case turn.AgentLost, turn.NotReady:
		return fault.Failed, "its log may say why: " + a.command("logs "+m.agent) + "; then " + a.sendAgain(m)
	case turn.CommitUnknown, turn.Draining, turn.Unavailable:
		return fault.Failed, a.sendAgain(m)
	case turn.Busy, turn.SessionBusy, turn.QueueFull:
		return fault.Failed, "wait for the other turn; " + a.sendAgain(m)
	case turn.RunFailed:
		return fault.Failed, "see its log: " + a.command("logs "+m.agent)
	case turn.TurnTimeout:
		return fault.Failed, "raise turn_timeout in flisk.yaml, or make the turn shorter"
	case turn.NoSpace, turn.ReadOnly:
		return fault.Environment, "make room on the volume, it is named by: " + a.command("status")
	case turn.SessionDamaged:
		return fault.Failed, "other sessions are not affected; the file is named by: " + a.command("sessions list")
	default:
		return fault.Failed, code.Advice()
	}
}

// describe adds what a program wants to know about a failed turn.
func (e *turnError) describe(body *ErrorBody) {
	body.Session, body.Key = e.message.session, e.message.key
	if e.problem != nil {
		body.Problem, body.TurnID = string(e.problem.Code), e.problem.TurnID
		body.Session = e.problem.SessionID
	}
}
