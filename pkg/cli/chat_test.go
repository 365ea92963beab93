package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/turn"
)

// talking is a driver with the volume of volume(t) and a gateway that is a
// handler.
func talking(t *testing.T, h http.HandlerFunc) *fakeDriver {
	t.Helper()
	there, err := volume(t).Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	url, err := serve(t, h).Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	there.Running, there.URL = true, url.URL
	return observing(there)
}

// chatIDs are the ids that a chat makes up.
var chatIDs = regexp.MustCompile(`[0-9a-f]{32}`)

func TestChatGolden(t *testing.T) {
	t.Parallel()
	dir := projectDir(t, false)
	typed := strings.Join([]string{
		"hello", "", "//slash", "/help", "/session", "/nwe", "/new now", "/again", "/history", "/new", "red \x1b[31m", "/session s1", "/session ../x", "/quit", "never",
	}, "\r")
	for name, args := range map[string][]string{"chat": {"-s", "s1"}, "chat-new": nil} {
		r := run{driver: talking(t, echo(t)), terminal: true, stdin: typed}
		got := r.do(t, append([]string{"chat", "-C", dir}, args...)...)
		if got.code != 0 {
			t.Errorf("%s: code %d", name, got.code)
		}
		// Only what the line editor draws is a sequence.
		out := strings.NewReplacer("\x1b[K", "", "\r", "").Replace(got.out)
		if strings.Contains(out, "\x1b") || strings.Contains(got.err, "\x1b") {
			t.Errorf("%s: an escape sequence reached the terminal: %q", name, got.out+got.err)
		}
		golden(t, name, sizes.ReplaceAllString(chatIDs.ReplaceAllString(out, "<new session>"), "# B")+"-- stderr\n"+got.err)
	}
}

// TestChatOffATerminal: a line is a turn, all in one session, and model text
// has no control characters there either.
func TestChatOffATerminal(t *testing.T) {
	t.Parallel()
	dir := projectDir(t, false)
	keys := map[string]bool{}
	sessions := map[string]bool{}
	noting := func(w http.ResponseWriter, r *http.Request) {
		keys[r.Header.Get(turn.HeaderKey)] = true
		sessions[r.Header.Get(turn.HeaderSession)] = true
		echo(t)(w, r)
	}
	got := run{driver: serve(t, noting), stdin: "one\r\n\n/help\nred \x1b[31m"}.do(t, "chat", "-C", dir)
	if got.code != 0 || got.out != "one\n/help\nred \\x1b[31m\n" || !strings.HasPrefix(got.err, "go on: flisk -C ") {
		t.Errorf("got %+v", got)
	}
	if len(keys) != 3 || len(sessions) != 1 || sessions[""] {
		t.Errorf("keys %v, sessions %v", keys, sessions)
	}
	got = run{driver: serve(t, echo(t)), stdin: "one\ntwo\n"}.do(t, "chat", "-C", dir, "--json", "-s", "s1")
	lines := strings.Split(strings.TrimSpace(got.out), "\n")
	for i, line := range lines {
		var v TurnJSON
		if err := json.Unmarshal([]byte(line), &v); err != nil || v.SessionID != "s1" || string(v.Reply) != []string{`"one"`, `"two"`}[i] {
			t.Errorf("line %q: %+v (%v)", line, v, err)
		}
	}
	if got.code != 0 || len(lines) != 2 || got.err != "" {
		t.Errorf("got %+v", got)
	}
}

// TestChatEndsWithTheFirstFailedTurn off a terminal; on one it goes on, and
// /again sends the very same turn.
func TestChatAfterAFailedTurn(t *testing.T) {
	t.Parallel()
	dir := projectDir(t, false)
	var keys []string
	failing := func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get(turn.HeaderKey))
		if len(keys) == 1 {
			(&turn.Problem{Code: turn.RunFailed, Detail: "the model is on fire"}).Write(w)
			return
		}
		echo(t)(w, r)
	}
	got := run{driver: serve(t, failing), stdin: "one\ntwo\n"}.do(t, "chat", "-C", dir)
	if got.code != 1 || got.out != "" || !strings.Contains(got.err, "the model is on fire") || len(keys) != 1 {
		t.Errorf("got %+v after %d turns", got, len(keys))
	}
	keys = nil
	got = run{driver: serve(t, failing), terminal: true, stdin: "one\r/again\r"}.do(t, "chat", "-C", dir)
	if got.code != 0 || !strings.Contains(strings.Join(strings.Fields(got.err), " "), "the model is on fire") || len(keys) != 2 || keys[0] != keys[1] {
		t.Errorf("got %+v with the keys %q", got, keys)
	}
}

func TestChatThatCannotBegin(t *testing.T) {
	t.Parallel()
	dir := projectDir(t, true)
	for _, c := range []struct {
		driver runtime.Driver
		args   []string
		code   int
		want   string
	}{
		{observing(runtime.Observed{}), []string{"--agent", "bot"}, 3, `nothing of project "shop" runs`},
		{serve(t, echo(t)), nil, 2, `project "shop" has 2 agents`},
		{serve(t, echo(t)), []string{"-s", "../x"}, 2, "cannot use --session"},
		{serve(t, echo(t)), []string{"-s", ""}, 2, "cannot use --session"},
	} {
		for _, terminal := range []bool{false, true} {
			got := run{driver: c.driver, terminal: terminal}.do(t, append([]string{"chat", "-C", dir}, c.args...)...)
			if got.code != c.code || !strings.Contains(got.err, c.want) {
				t.Errorf("%v: got %+v", c.args, got)
			}
		}
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// TestChatCtrlC: the first one stops waiting for a reply, and the turn can be
// waited for again under its key; the second one leaves.
func TestChatCtrlC(t *testing.T) {
	in, hand, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer hand.Close()
	say := func(text string) {
		if _, err := hand.WriteString(text); err != nil {
			t.Error(err)
		}
	}
	var keys []string
	handler := func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get(turn.HeaderKey)
		keys = append(keys, key)
		if len(keys) > 1 {
			echo(t)(w, r)
			say("\x03")
			return
		}
		_, _ = io.Copy(io.Discard, r.Body) // or the server does not see the client go
		say("/again\r")                    // typed ahead
		if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
			t.Error(err)
		}
		<-r.Context().Done()
	}
	var stdout, stderr bytes.Buffer
	asked := writer(func(p []byte) (int, error) {
		if strings.Contains(string(p), "Ctrl-C again leaves; so do") {
			say("\x03")
		}
		return stderr.Write(p)
	})
	options := console.OutputOptions{Terminal: true, Redraw: true, Width: func() int { return 80 }}
	driver := serve(t, handler)
	a := &app{
		streams: &console.Streams{
			In:  console.Input{Reader: in, Terminal: true},
			Out: console.NewOutput(&stdout, options), Err: console.NewOutput(asked, options),
		},
		environ: []string{"FLISK_HOME=/nonexistent/flisk"}, askEngine: answering(false),
		newDriver: func(*app, project.Runtime, *project.Project, <-chan struct{}) (runtime.Driver, error) {
			return driver, nil
		},
	}
	say("slow\r")
	if code := a.run(t.Context(), []string{"chat", "-C", projectDir(t, false), "-s", "s1"}); code != 0 {
		t.Errorf("code %d", code)
	}
	if len(keys) != 2 || keys[0] != keys[1] {
		t.Errorf("the keys are %q", keys)
	}
	if !strings.Contains(stderr.String(), "note: not waiting any more") || !strings.Contains(stderr.String(), "Ctrl-C again leaves; so do") {
		t.Errorf("stderr is %q", &stderr)
	}
	if !strings.Contains(stdout.String(), "\nslow\n") || !strings.Contains(stdout.String(), "go on later: ") {
		t.Errorf("stdout is %q", &stdout)
	}
}

// TestChatShowsTheReplyThatWasNotWaitedFor, when it is there, before that of the
// next turn; and says so when there is none. Not parallel: the signal reaches
// every test that waits for one.
func TestChatShowsTheReplyThatWasNotWaitedFor(t *testing.T) {
	for _, saved := range []bool{true, false} {
		in, hand, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		defer hand.Close()
		var place string
		var turns atomic.Int32 // a signal stands between two
		driver := talking(t, func(w http.ResponseWriter, r *http.Request) {
			if turns.Add(1) > 1 {
				echo(t)(w, r)
				return
			}
			_, _ = io.Copy(io.Discard, r.Body) // or the server does not see the client go
			if saved {
				key, err := turn.ParseKey(r.Header.Get(turn.HeaderKey))
				if err != nil {
					t.Error(err)
				}
				reply(t, place, "s1", key, "the late reply")
			}
			if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
				t.Error(err)
			}
			<-r.Context().Done()
		})
		there, err := driver.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		place = there.Place
		var stdout bytes.Buffer
		options := console.OutputOptions{Terminal: true, Redraw: true, Width: func() int { return 80 }}
		a := &app{
			streams: &console.Streams{
				In:  console.Input{Reader: in, Terminal: true},
				Out: console.NewOutput(&stdout, options), Err: console.NewOutput(io.Discard, options),
			},
			environ: []string{"FLISK_HOME=/nonexistent/flisk"}, askEngine: answering(false),
			newDriver: func(*app, project.Runtime, *project.Project, <-chan struct{}) (runtime.Driver, error) {
				return driver, nil
			},
		}
		if _, err := hand.WriteString("slow\rnext\r/quit\r"); err != nil {
			t.Fatal(err)
		}
		if code := a.run(t.Context(), []string{"chat", "-C", projectDir(t, false), "-s", "s1"}); code != 0 {
			t.Errorf("code %d", code)
		}
		want := "\nturn 3, not waited for: the reply to \"slow\"\nthe late reply\nnext\n"
		if !saved {
			want = "\nnot waited for, and not saved: \"slow\"\nnext\n"
		}
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("saved %v: stdout is %q", saved, &stdout)
		}
	}
}

// reply commits a turn of the agent bot.
func reply(t *testing.T, place, session, key, text string) {
	store, err := checkpoint.Open(place, checkpoint.Options{Agent: "bot"})
	if err != nil {
		t.Error(err)
		return
	}
	defer store.Close()
	s, err := store.Acquire(t.Context(), session)
	if err != nil {
		t.Error(err)
		return
	}
	defer s.Release()
	if _, err = s.Begin(checkpoint.Begin{Key: key, Input: json.RawMessage(`"slow"`)}); err == nil {
		_, err = s.Commit(checkpoint.Commit{Messages: s.Checkpoint().Messages, State: s.Checkpoint().State, Reply: json.RawMessage(strconv.Quote(text))})
	}
	if err != nil {
		t.Error(err)
	}
}

// TestC13AChatEndsWithItsTerminal: while it reads a line, and while it waits for
// a reply. Not parallel: the signal reaches every test that waits for one.
func TestC13AChatEndsWithItsTerminal(t *testing.T) {
	hangUp := func() {
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Error(err)
		}
	}
	dir := projectDir(t, false)
	for name, line := range map[string]string{"reading": "", "waiting": "slow\r"} {
		in, hand, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		defer hand.Close()
		driver := serve(t, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // or the server does not see the client go
			hangUp()
			<-r.Context().Done()
		})
		prompted := writer(func(p []byte) (int, error) {
			if line == "" && strings.Contains(string(p), "> ") {
				hangUp()
			}
			return len(p), nil
		})
		options := console.OutputOptions{Terminal: true, Redraw: true, Width: func() int { return 80 }}
		a := &app{
			streams: &console.Streams{
				In:  console.Input{Reader: in, Terminal: true},
				Out: console.NewOutput(prompted, options), Err: console.NewOutput(io.Discard, options),
			},
			environ: []string{"FLISK_HOME=/nonexistent/flisk"}, askEngine: answering(false),
			newDriver: func(*app, project.Runtime, *project.Project, <-chan struct{}) (runtime.Driver, error) {
				return driver, nil
			},
		}
		if _, err := hand.WriteString(line); err != nil {
			t.Fatal(err)
		}
		ended := make(chan int, 1)
		go func() { ended <- a.run(t.Context(), []string{"chat", "-C", dir, "-s", "s1"}) }()
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: the chat goes on", name)
		}
	}
}
