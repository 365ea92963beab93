package cli

import (
	"bufio"
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

type chatOptions struct {
	session string // "" begins a new one
	agent   string
}

func newChat(a *app) *cobra.Command {
	var o chatOptions
	cmd := &cobra.Command{
		Use:     "chat",
		Short:   "talk to an agent, turn by turn",
		GroupID: groupTalk,
		Long: "Hold a conversation. On a terminal it shows what was said last and asks for the next line; /help lists " +
			"what else it knows. Ctrl-C stops waiting for a reply, and the turn goes on; twice, or Ctrl-D, leaves. The " +
			"conversation stays where it is, and flisk chat -s ID goes on with it.\n\n" +
			"Off a terminal each line of stdin is a turn and stdout holds the replies, without control characters; with " +
			"--json it is one JSON value a line, with all there was. It ends with the first turn that has no reply.\n\n" +
			"Every turn has a key and is sent again under it when the answer does not arrive, as flisk turn does it.",
		Example: examples(
			"flisk chat", "begin a new conversation",
			"flisk chat -s s1", "go on with one",
			"flisk chat -s s1 < questions.txt", "a turn a line, for a script",
		),
		Args: positional(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("session") {
				if err := turn.CheckSessionID(o.session); err != nil {
					return fault.New(fault.Usage, sessionHint(o.session), "cannot use --session: %w", err)
				}
			}
			if a.streams.In.Terminal && a.streams.Out.Terminal && !a.global.json && !a.global.noInput {
				return runChat(cmd.Context(), a, o)
			}
			return a.interruptible(cmd.Context(), func(ctx context.Context) error { return runPlainChat(ctx, a, o) })
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.session, "session", "s", "", "talk in session `ID`; without, in a new one")
	flags.StringVar(&o.agent, "agent", "", "talk to agent `NAME`, where there are several")
	return cmd
}

// chat is one conversation after another with an agent.
type chat struct {
	a       *app
	opened  *opened
	agent   string
	session string
	begun   bool // the session was named, or had a reply
	client  client

	progress *console.Progress
	last     *message // the last turn, when it has no reply
}

func (a *app) newChat(ctx context.Context, o chatOptions) (*chat, error) {
	p, err := a.look(ctx, nil)
	if err != nil {
		return nil, err
	}
	observed, err := p.driver.Observe(ctx)
	if err != nil {
		return nil, err
	}
	agent, err := p.agent(o.agent, runningAgents(observed)...)
	if err != nil {
		return nil, err
	}
	if observed.URL == "" {
		return nil, a.nothingRuns(p.project.Name, observed)
	}
	c := &chat{
		a: a, opened: p, agent: agent, session: o.session, begun: o.session != "", progress: a.progress(),
	}
	if !c.begun {
		c.begin()
	}
	c.client = client{base: observed.URL, http: directly(), gone: p.gone, again: func(err error, pause time.Duration) {
		c.progress.Note("again", console.Warn, fmt.Sprintf("%v; same key, in %s", err, console.Span(pause)))
	}}
	return c, nil
}

func runningAgents(observed runtime.Observed) (names []string) {
	for _, r := range observed.Replicas {
		names = append(names, r.Agent)
	}
	return names
}

// begin goes to a new session. Its id is known before the first reply, so that a
// turn that is not waited for is not lost from sight.
func (c *chat) begin() { c.session, c.begun, c.last = turn.NewKey(), false, nil }

// message is a new turn that says text.
func (c *chat) message(text string) (message, error) {
	if !utf8.ValidString(text) {
		return message{}, fault.New(fault.Usage, "", "the message is not UTF-8 text")
	}
	input, err := json.Marshal(text)
	return message{agent: c.agent, session: c.session, key: turn.NewKey(), input: input}, err
}

// send sends a turn.
func (c *chat) send(ctx context.Context, m message) (answer, error) {
	c.last = &m
	done := c.progress.Wait("waiting for " + c.agent)
	got, err := c.client.send(ctx, m)
	done()
	if err == nil {
		c.last, c.begun = nil, true
	}
	return got, err
}

// runPlainChat makes a turn of each line of stdin.
func runPlainChat(ctx context.Context, a *app, o chatOptions) error {
	c, err := a.newChat(ctx, o)
	if err != nil {
		return err
	}
	patient := console.Patient(ctx, a.streams.In.Reader)
	defer patient.Close()
	in := bufio.NewReader(patient)
	for {
		line, readErr := in.ReadString('\n')
		if readErr != nil && readErr != io.EOF {
			if ctx.Err() != nil {
				return readErr
			}
			return fault.New(fault.Failed, "", "cannot read from stdin: %w", readErr)
		}
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			if err := c.plainTurn(ctx, line); err != nil {
				return err
			}
		}
		if readErr == io.EOF {
			break
		}
	}
	if o.session == "" && c.begun && !a.global.json {
		a.streams.Err.Note("go on", console.Quiet, a.command("chat -s "+c.session))
	}
	return nil
}

func (c *chat) plainTurn(ctx context.Context, line string) error {
	m, err := c.message(line)
	if err != nil {
		return err
	}
	started := time.Now()
	got, err := c.send(ctx, m)
	switch {
	case err != nil && ctx.Err() != nil:
		return c.a.interruptedTurn(m)
	case err != nil:
		return c.a.turnFault(c.opened.explain(ctx, err))
	case c.a.global.json:
		err = encode(c.a.streams.Out.Raw(), TurnJSON{c.agent, got.Result, m.key, got.code, got.attempts, time.Since(started).Milliseconds()}, "")
	default: // what a pipe leads to is often a terminal
		_, err = io.WriteString(c.a.streams.Out.Raw(), console.Text(readable(got.Reply))+"\n")
	}
	return errors.Join(err, c.a.streams.Out.Failed())
}
