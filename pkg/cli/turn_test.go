package cli

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/turn"
)

// serve is a driver whose gateway is a handler.
func serve(t *testing.T, h http.HandlerFunc) *fakeDriver {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return &fakeDriver{observe: func() (runtime.Observed, error) {
		return runtime.Observed{Running: true, URL: server.URL}, nil
	}}
}

// echo replies with what it got, as turn 3 of the session it was told.
func echo(t *testing.T) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var req turn.Request
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			t.Error(err)
		}
		if _, err := turn.ParseKey(r.Header.Get(turn.HeaderKey)); err != nil {
			t.Errorf("a turn without a key: %v", err)
		}
		session := r.Header.Get(turn.HeaderSession)
		if session == "" {
			session = "5f0c9f0e4a2b4f6d8c1e2a3b4c5d6e7f"
		}
		w.Header().Set(turn.HeaderCode, "c0de")
		if err := encode(w, turn.Result{SessionID: session, Turn: 3, TurnID: "x-7", Reply: req.Input}, ""); err != nil {
			t.Error(err)
		}
	}
}

func TestTurnOffATerminalPrintsTheReplyOnly(t *testing.T) {
	t.Parallel()
	dir := projectDir(t, false)
	for _, c := range []struct {
		name, stdin string
		args        []string
		want        string
	}{
		{"text", "", []string{"<hello> & \x1b[31m"}, "<hello> & \x1b[31m\n"},
		{"stdin", "from a file\n", []string{"-"}, "from a file\n"},
		{"JSON", "", []string{`{"a":[1,"<b>"]}`, "--input-json"}, `{"a":[1,"<b>"]}` + "\n"},
		{"JSON from stdin", "17", []string{"-", "--input-json"}, "17\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := run{driver: serve(t, echo(t)), stdin: c.stdin}
			got := r.do(t, append([]string{"turn", "-C", dir, "-s", "s1"}, c.args...)...)
			if got.code != 0 || got.out != c.want || !strings.HasPrefix(got.err, "session s1 · turn 3 · ") {
				t.Errorf("got %+v, want stdout %q", got, c.want)
			}
		})
	}
}

func TestTurnOnATerminal(t *testing.T) {
	t.Parallel()
	dir := projectDir(t, false)
	r := run{driver: serve(t, echo(t)), terminal: true, colour: true}
	got := r.do(t, "turn", "-C", dir, "red \x1b[31m \u202e "+strings.Repeat("word ", 30))
	if got.code != 0 || !strings.HasPrefix(got.out, `red \x1b[31m \u202e word word`) {
		t.Errorf("the reply became %q", got.out)
	}
	if !strings.HasPrefix(got.err, "\x1b[2msession 5f0c9f0e4a2b4f6d8c1e2a3b4c5d6e7f · turn 3 · ") ||
		!strings.Contains(strings.Join(strings.Fields(got.err), " "), " turn MESSAGE -s 5f0c9f0e4a2b4f6d8c1e2a3b4c5d6e7f") {
		t.Errorf("stderr is %q", got.err)
	}
}

func TestTurnJSON(t *testing.T) {
	t.Parallel()
	got := run{driver: serve(t, echo(t))}.do(t, "turn", "hi", "-C", projectDir(t, false), "-s", "s1", "--key", "k1", "--json")
	var v TurnJSON
	if err := json.Unmarshal([]byte(got.out), &v); err != nil {
		t.Fatalf("%v in %+v", err, got)
	}
	if got.err != "" || v.Agent != "bot" || v.Key != "k1" || v.SessionID != "s1" || v.Turn != 3 || v.TurnID != "x-7" ||
		string(v.Reply) != `"hi"` || v.Code != "c0de" || v.Attempts != 1 {
		t.Errorf("got %+v", v)
	}
}

// A problem of the contract is named, and where it is explained.
func TestTurnNamesTheProblem(t *testing.T) {
	t.Parallel()
	driver := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		(&turn.Problem{Code: turn.StateMismatch, Detail: "no field"}).Write(w)
	})
	got := run{driver: driver}.do(t, "turn", "hi", "-s", "s1", "-C", projectDir(t, false))
	want := "flisk: state-mismatch: " + turn.StateMismatch.Title() + ": no field\n  see " + turn.StateMismatch.URI() +
		"\nhint: " + turn.StateMismatch.Advice() + "\n"
	if got.code != 1 || got.err != want {
		t.Errorf("got %+v, want\n%s", got, want)
	}
}

func TestTurnPicksTheAgent(t *testing.T) {
	t.Parallel()
	one, two := projectDir(t, false), projectDir(t, true)
	paths := make(chan string, 4)
	driver := serve(t, func(w http.ResponseWriter, r *http.Request) {
		paths <- r.URL.Path
		echo(t)(w, r)
	})
	if got := (run{driver: driver}).do(t, "turn", "hi", "-C", one); got.code != 0 || <-paths != "/api/bot/turn" {
		t.Errorf("the only agent: %+v", got)
	}
	if got := (run{driver: driver}).do(t, "turn", "hi", "-C", two, "--agent", "clerk"); got.code != 0 || <-paths != "/api/clerk/turn" {
		t.Errorf("a named agent: %+v", got)
	}
	if got := (run{driver: driver}).do(t, "turn", "hi", "-C", two); got.code != 2 ||
		got.err != "flisk: project \"shop\" has 2 agents\nhint: name one with --agent: bot, clerk\n" {
		t.Errorf("no agent of two: %+v", got)
	}
	if got := (run{driver: driver}).do(t, "turn", "hi", "-C", two, "--agent", "clark"); got.code != 2 ||
		got.err != "flisk: project \"shop\" has no agent \"clark\"\nhint: did you mean \"clerk\"?\n" {
		t.Errorf("an unknown agent: %+v", got)
	}
}

func TestTurnRefusesBadInputBeforeItSends(t *testing.T) {
	t.Parallel()
	dir := projectDir(t, false)
	for _, args := range [][]string{
		{"turn", "hi", "-s", "../x"}, {"turn", "hi", "-s", ""}, {"turn", "hi", "-s", "a/b"},
		{"turn", "hi", "-s", strings.Repeat("x", 5000)},
		{"turn", "hi", "--key", ""}, {"turn", "hi", "--key", "schlüssel"},
		{"turn", "{", "--input-json"}, {"turn", "\xff"}, {"turn", ""}, {"turn", "-"},
	} {
		got := run{terminal: true}.do(t, append(args, "-C", dir)...)
		if got.code != 2 || got.out != "" || !strings.HasPrefix(got.err, "flisk: ") {
			t.Errorf("%q: %+v", args, got)
		}
	}
}

func TestHintsFitTheSessionID(t *testing.T) {
	t.Parallel()
	dir := projectDir(t, false)
	for id, hint := range map[string]string{
		strings.Repeat("x", 200): "use at most 128 characters",
		"a/b":                    "use letters, digits and . _ ~ : @ + = -, beginning with a letter or a digit",
		"":                       "leave it away to begin a new session",
	} {
		if got := (run{}).do(t, "turn", "hi", "-s", id, "-C", dir); !strings.HasSuffix(got.err, "\nhint: "+hint+"\n") {
			t.Errorf("%.10q: %+v", id, got)
		}
	}
}

// Whether the agent got the turn is not known when its sender leaves.
func TestTurnThatIsInterruptedPromisesNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	driver := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // with it unread nobody sees that the client left
		cancel()
		<-r.Context().Done()
	})
	dir := projectDir(t, false)
	got := run{driver: driver, ctx: ctx}.do(t, "turn", "hi", "-s", "s1", "--key", "k1", "-C", dir)
	want := "flisk: interrupted; if the agent accepted the turn, it goes on without you\n" +
		"hint: ask again, it is saved at most once: flisk -C " + dir + " turn MESSAGE --key k1 -s s1\n"
	if got.code != 130 || got.out != "" || got.err != want {
		t.Errorf("got %+v, want\n%s", got, want)
	}
}

// A gateway that was killed is not "nothing".
func TestTurnWithoutAGateway(t *testing.T) {
	t.Parallel()
	got := run{driver: observing(runtime.Observed{Running: true})}.do(t, "turn", "hi", "-C", projectDir(t, false))
	if got.code != 3 || !strings.HasPrefix(got.err, "flisk: the gateway of project \"shop\" does not run or does not answer\nhint: bring it back: flisk -C ") {
		t.Errorf("got %+v", got)
	}
}

func TestTurnWhenNothingRuns(t *testing.T) {
	t.Parallel()
	driver := &fakeDriver{observe: func() (runtime.Observed, error) { return runtime.Observed{}, nil }}
	dir := projectDir(t, false)
	got := run{driver: driver}.do(t, "turn", "hi", "-C", dir)
	if got.code != 3 || got.err != "flisk: nothing of project \"shop\" runs\nhint: start it: flisk -C "+shellWord(dir)+" up\n" {
		t.Errorf("got %+v", got)
	}
}

func TestTurnProblems(t *testing.T) {
	t.Parallel()
	dir := projectDir(t, false)
	for _, c := range []struct {
		code    turn.Code
		exit    int
		message string
		hint    string
	}{
		{turn.KeyReused, 2, "the turn key was used with another input", "hint: send the same input, or leave --key away"},
		{turn.RunFailed, 1, "the agent's code failed; nothing was committed", "hint: see its log: flisk -C " + shellWord(dir) + " logs bot"},
		{turn.TurnTimeout, 1, "the turn took too long; nothing was committed", "hint: raise turn_timeout in flisk.yaml"},
		{turn.SessionDamaged, 1, "the session's file is damaged", "hint: other sessions are not affected"},
		{turn.QueueFull, 1, "too many turns wait for this session", "--key k1 -s s1"},
	} {
		t.Run(string(c.code), func(t *testing.T) {
			t.Parallel()
			driver := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				(&turn.Problem{Code: c.code, Detail: "\x1b[31mwhy", TurnID: "x-9"}).Write(w)
			})
			got := run{driver: driver, terminal: true}.do(t, "turn", "hi", "-C", dir, "-s", "s1", "--key", "k1")
			flat := strings.Join(strings.Fields(got.err), " ")
			if got.code != c.exit || got.out != "" || !strings.HasPrefix(flat, "flisk: "+string(c.code)+": "+c.message) ||
				!strings.Contains(flat, c.hint) || strings.Contains(got.err, "\x1b[31m") {
				t.Errorf("got %+v", got)
			}
			got = run{driver: driver}.do(t, "turn", "hi", "-C", dir, "-s", "s1", "--key", "k1", "--json")
			var v ErrorJSON
			if err := json.Unmarshal([]byte(got.err), &v); err != nil || got.out != "" {
				t.Fatalf("%v in %+v", err, got)
			}
			if b := v.Error; b.Problem != string(c.code) || b.Session != "s1" || b.TurnID != "x-9" || b.Key != "k1" || b.ExitCode != c.exit {
				t.Errorf("got %+v", b)
			}
		})
	}
}
