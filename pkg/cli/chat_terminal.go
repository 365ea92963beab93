package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/turn"
)

// chatCommands are what a line that begins with a slash can say.
var chatCommands = [...]struct{ name, argument, meaning string }{
	{"/new", "", "begin a new session"},
	{"/session", "[ID]", "say which session this is, or go to another"},
	{"/history", "", "show the whole conversation"},
	{"/again", "", "wait for the turn that has no reply, under its key"},
	{"/help", "", "show this"},
	{"/quit", "", "leave; the conversation stays"},
}

// errLeave ends a chat.
var errLeave = errors.New("leave")

// runChat talks on a terminal. Only what ends the whole of it is an error: a
// turn that fails is shown, and the next line asked for.
func runChat(ctx context.Context, a *app, o chatOptions) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	hangups, stopHangups := catchHangups()
	defer stopHangups()
	t := &terminalChat{signals: signals, hangups: hangups}
	chat, err := a.newChat(ctx, o)
	if err != nil {
		return err
	}
	t.chat = chat
	if err := t.greet(ctx); err != nil {
		return err
	}
	lines := console.NewLineReader(a.streams.In, a.streams.Out, "> ")
	for asked := false; ; {
		line, err := t.read(ctx, lines)
		switch {
		case errors.Is(err, console.ErrInterrupt) && !asked && !t.abandoned:
			asked = true
			a.streams.Err.Note("note", console.Quiet, "Ctrl-C again leaves; so do Ctrl-D and /quit")
			continue
		case err == io.EOF, errors.Is(err, console.ErrInterrupt):
			t.bye()
			return nil
		case err != nil:
			return err
		}
		asked, t.abandoned = false, false
		if err := t.line(ctx, line); errors.Is(err, errLeave) {
			t.bye()
			return nil
		} else if err != nil {
			a.report(err, false)
		}
		if err := a.streams.Out.Failed(); err != nil {
			return err
		}
	}
}

// terminalChat is a chat with a person.
type terminalChat struct {
	*chat
	signals   <-chan os.Signal
	hangups   <-chan os.Signal // the terminal is gone
	abandoned bool             // the last turn was left alone by Ctrl-C
	missed    []message        // turns of this session that were, and whose replies were not shown
}

// whileSignals does work with a context that a signal ends.
func (t *terminalChat) whileSignals(ctx context.Context, work func(context.Context)) (caught os.Signal) {
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-ctx.Done():
			return
		case caught = <-t.signals:
		case caught = <-t.hangups:
		}
		t.a.freshLine()
		cancel()
	})
	work(ctx)
	cancel()
	watch.Wait()
	return caught
}

// read reads a line. A signal, which no key makes meanwhile, ends the chat.
func (t *terminalChat) read(ctx context.Context, lines *console.LineReader) (line string, err error) {
	caught := t.whileSignals(ctx, func(ctx context.Context) { line, err = lines.Read(ctx) })
	switch {
	case caught == syscall.SIGINT: // on a terminal that keeps Ctrl-C for itself
		err = console.ErrInterrupt
	case caught != nil:
		err = fault.New(fault.Interrupted, "", "interrupted")
	}
	return line, err
}

// line does what a line asks for.
func (t *terminalChat) line(ctx context.Context, line string) error {
	text := strings.TrimSpace(line)
	switch {
	case text == "":
		return nil
	case strings.HasPrefix(text, "//"):
		return t.say(ctx, text[1:])
	case strings.HasPrefix(text, "/") && !strings.Contains(text, "\n"):
		return t.command(ctx, strings.Fields(text))
	}
	return t.say(ctx, line)
}

func (t *terminalChat) command(ctx context.Context, words []string) error {
	name, arguments := words[0], words[1:]
	if name == "/session" && len(arguments) == 1 {
		return t.enter(ctx, arguments[0])
	}
	known := slices.IndexFunc(chatCommands[:], func(c struct{ name, argument, meaning string }) bool { return c.name == name })
	switch {
	case known < 0:
		return fault.New(fault.Usage, "/help lists them; a message that begins with / is typed as //", "there is no command %q here", name)
	case len(arguments) > 0:
		return fault.New(fault.Usage, "see /help", "%q does not take %q", name, arguments[0])
	}
	switch name {
	case "/new":
		t.begin()
		t.missed = nil
		t.note("the next line begins a new session")
	case "/session":
		t.note(t.where())
	case "/history":
		return t.history(ctx)
	case "/again":
		if t.last == nil {
			return fault.New(fault.Usage, "", "every turn has its reply")
		}
		return t.turn(ctx, *t.last)
	case "/help":
		t.help()
	case "/quit":
		return errLeave
	}
	return nil
}

func (t *terminalChat) note(text string) {
	out := t.a.streams.Out
	fmt.Fprintln(out, console.Quiet.Render(console.Fold(console.Line(text), out.Columns(), "")))
}

func (t *terminalChat) help() {
	var fields []console.Field
	for _, c := range chatCommands {
		label := strings.TrimSpace(c.name + " " + c.argument)
		fields = append(fields, console.Field{Label: label, Value: console.Cell{Text: c.meaning}})
	}
	t.a.streams.Out.Fields(append(fields,
		console.Field{Label: "//…", Value: console.Cell{Text: "a message that begins with a slash"}},
		console.Field{Label: "Ctrl-C", Value: console.Cell{Text: "stop waiting for a reply; twice leaves"}},
		console.Field{Label: "Ctrl-D", Value: console.Cell{Text: "leave"}},
	)...)
}

func (t *terminalChat) where() string {
	return "session " + t.session + " of agent " + t.agent
}

// say sends a new turn.
func (t *terminalChat) say(ctx context.Context, text string) error {
	m, err := t.message(text)
	if err != nil {
		return err
	}
	t.catchUp(ctx, false)
	return t.turn(ctx, m)
}

// catchUp shows the replies of turns that were not waited for, as far as they are
// saved by now. With all, a turn of the session that came after them is: what has
// no reply then gets none.
func (t *terminalChat) catchUp(ctx context.Context, all bool) {
	if len(t.missed) == 0 {
		return
	}
	view, err := t.view(ctx)
	if err != nil {
		return // the turn that follows finds the same, and says it
	}
	t.missed = slices.DeleteFunc(t.missed, func(m message) bool {
		said := strconv.Quote(console.Elide(console.Line(readable(m.input)), 40))
		at := slices.IndexFunc(view.Turns, func(known checkpoint.Turn) bool { return known.Key == m.key && known.State == turn.Committed })
		switch {
		case at >= 0:
			t.note(fmt.Sprintf("turn %d, not waited for: the reply to %s", view.Turns[at].Number, said))
			t.a.printReply(view.Turns[at].Reply)
		case all:
			t.note("not waited for, and not saved: " + said)
		default:
			return false
		}
		if t.last != nil && t.last.key == m.key {
			t.last = nil
		}
		return true
	})
}

// turn sends a turn and shows its reply.
func (t *terminalChat) turn(ctx context.Context, m message) error {
	begins := !t.begun
	var got answer
	var err error
	showTyping := t.a.streams.In.HideTyping()
	caught := t.whileSignals(ctx, func(ctx context.Context) { got, err = t.send(ctx, m) })
	showTyping()
	switch {
	case err != nil && caught == syscall.SIGINT:
		t.abandoned = true
		if !slices.ContainsFunc(t.missed, m.same) {
			t.missed = append(t.missed, m)
		}
		t.a.streams.Err.Note("note", console.Warn, "not waiting any more; an accepted turn goes on: /again waits for its reply, the next message shows it; Ctrl-C again leaves")
		return nil
	case err != nil && caught != nil:
		t.a.streams.Err.Note("note", console.Warn, t.a.interruptedTurn(m).Error())
		return errLeave
	case err != nil:
		return t.turnFault(t.opened.explain(ctx, err))
	}
	t.missed = slices.DeleteFunc(t.missed, m.same)
	t.catchUp(ctx, true)
	t.a.printReply(got.Reply)
	switch {
	case begins:
		t.note("session " + got.SessionID)
	case got.Replayed:
		t.note(fmt.Sprintf("turn %d · already there, not run again", got.Turn))
	}
	return nil
}

// same reports whether both are one turn.
func (m message) same(other message) bool { return m.key == other.key }

// turnFault words a turn without an answer. Where the hint of flisk turn is to
// send it again, here it is shorter.
func (t *terminalChat) turnFault(err error) error {
	worded := t.a.turnFault(err)
	f, ok := errors.AsType[*fault.Fault](worded)
	failed, sent := errors.AsType[*turnError](err)
	if ok && sent && strings.Contains(f.Hint, t.a.sameTurn(failed.message)) {
		short := *f
		short.Hint = "/again sends it again; it is saved at most once"
		return &short
	}
	return worded
}

func (t *terminalChat) bye() {
	if t.begun || t.abandoned {
		t.note("go on later: " + t.a.command("chat -s "+t.session))
	}
}

// enter goes to another session and shows what was said there last.
func (t *terminalChat) enter(ctx context.Context, id string) error {
	if err := turn.CheckSessionID(id); err != nil {
		return fault.New(fault.Usage, sessionHint(id), "cannot go there: %w", err)
	}
	t.session, t.begun, t.last, t.missed = id, true, nil, nil
	return t.earlier(ctx)
}

// greet says where we are.
func (t *terminalChat) greet(ctx context.Context) error {
	out := t.a.streams.Out
	fmt.Fprintln(out, console.Strong.Render("flisk chat")+console.Quiet.Render(" · "+t.agent+" · /help lists what else there is"))
	if !t.begun {
		t.note("a new session")
		return nil
	}
	return t.earlier(ctx)
}

// view reads the session from the volume; a new one is empty.
func (t *terminalChat) view(ctx context.Context) (view checkpoint.View, err error) {
	err = t.opened.withVolume(ctx, func(v sessionVolume) error {
		r, err := v.reader(t.agent)
		if r == nil {
			return err
		}
		defer r.Close()
		view, err = r.View(ctx, t.session)
		if err != nil && !errors.Is(err, checkpoint.ErrNoSession) {
			return t.a.sessionFault(err, t.agent, t.session)
		}
		return nil
	})
	return view, err
}

// recent is how many messages of a session are shown at first, each in one line.
const recent = 6

// earlier shows the end of what was said in the session, briefly.
func (t *terminalChat) earlier(ctx context.Context) error {
	view, err := t.view(ctx)
	if err != nil {
		return err
	}
	turns := view.Checkpoint.Turn
	if turns == 0 {
		t.note("session " + t.session + " · new")
		return nil
	}
	t.note("session " + t.session + " · " + console.Count(turns, "turn"))
	shown := view.Messages[max(0, len(view.Messages)-recent):]
	if left := len(view.Messages) - len(shown); left > 0 {
		t.note(fmt.Sprintf("… %s before these; /history shows all", console.Count(left, "message")))
	}
	out := t.a.streams.Out
	for _, m := range shown {
		role := console.Cut(console.Line(m.Role), longestRole)
		line := console.Line(strings.Join(strings.Fields(readable(m.Content)), " "))
		if columns := out.Columns(); columns > 0 {
			line = console.Cut(line, max(1, columns-longestRole-2))
		}
		fmt.Fprintln(out, console.Quiet.Render(role+strings.Repeat(" ", max(0, longestRole-console.Width(role))+2)+line))
	}
	return nil
}

// longestRole is the width of a message's role in a chat.
const longestRole = len("assistant")

func (t *terminalChat) history(ctx context.Context) error {
	view, err := t.view(ctx)
	if err != nil {
		return err
	}
	if view.Checkpoint.Turn == 0 {
		t.note("nothing was said yet")
		return nil
	}
	t.a.printSession(t.agent, view)
	return nil
}
