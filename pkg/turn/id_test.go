package turn_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/turn"
)

// TestC29_SessionIDs is the table of CASES C29 and DESIGN section 5.
func TestC29_SessionIDs(t *testing.T) {
	t.Parallel()
	good := []string{
		"a", "A", "0", "x.tmp", "CON", "tg:4711", "ann@example.org", "a+b=c~d_e-f",
		strings.Repeat("a", 128), turn.NewSessionID(), turn.DeriveSessionID([]byte("s"), "bot", "k"),
	}
	for _, id := range good {
		if err := turn.CheckSessionID(id); err != nil {
			t.Errorf("CheckSessionID(%q) = %v, want nil", id, err)
		}
	}
	bad := []string{
		"", "../../etc/x", "a/b", "..", ".", ".tmp", "-a", "~", "a b", "a\x00b", "a\n", "a%2fb", `a\b`,
		"\u00fc", "u\u0308", strings.Repeat("a", 129), strings.Repeat("a", 5000),
	}
	for _, id := range bad {
		err := turn.CheckSessionID(id)
		if !errors.Is(err, turn.ErrSessionID) {
			t.Errorf("CheckSessionID(%q) = %v, want ErrSessionID", id, err)
			continue
		}
		if len(err.Error()) > 120 || strings.ContainsAny(err.Error(), "\n\x00") {
			t.Errorf("the message for %.20q repeats the input: %q", id, err)
		}
	}
}

func TestParseKey(t *testing.T) {
	t.Parallel()
	tests := []struct{ value, key string }{
		{`abc`, `abc`},
		{`"abc"`, `abc`},
		{`  "abc" `, `abc`},
		{`"a \"b\" \\"`, `a "b" \`},
		{`a"b`, `a"b`},
		{`" a "`, ` a `},
		{strings.Repeat("k", 128), strings.Repeat("k", 128)},
	}
	for _, tt := range tests {
		key, err := turn.ParseKey(tt.value)
		if err != nil || key != tt.key {
			t.Errorf("ParseKey(%q) = %q, %v, want %q", tt.value, key, err, tt.key)
		}
	}
	for _, value := range []string{``, ` `, `""`, `"`, `"a`, `"a"b`, `"a\n"`, `"a\`, "a\tb", "ü", "a\x7f", strings.Repeat("k", 129)} {
		if key, err := turn.ParseKey(value); !errors.Is(err, turn.ErrKey) {
			t.Errorf("ParseKey(%q) = %q, %v, want ErrKey", value, key, err)
		}
	}
}

func FuzzParseKey(f *testing.F) {
	for _, s := range []string{`abc`, `"a\"b"`, `"`, ` `, `"\\"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		key, err := turn.ParseKey(value)
		if err != nil {
			return
		}
		if err := turn.CheckKey(key); err != nil {
			t.Fatalf("ParseKey(%q) returned a key that CheckKey refuses: %v", value, err)
		}
		again, err := turn.ParseKey(turn.QuoteKey(key))
		if err != nil || again != key {
			t.Fatalf("QuoteKey does not round-trip %q: %q, %v", key, again, err)
		}
	})
}

func TestDeriveSessionID(t *testing.T) {
	t.Parallel()
	derive := turn.DeriveSessionID
	first, again := derive([]byte("s"), "bot", "k"), derive([]byte("s"), "bot", "k")
	if first != again {
		t.Errorf("the same secret, agent and key give %q and %q", first, again)
	}
	seen := map[string]bool{}
	for _, id := range []string{
		derive([]byte("s"), "bot", "k"), derive([]byte("t"), "bot", "k"),
		derive([]byte("s"), "tob", "k"), derive([]byte("s"), "bot", "l"),
	} {
		if seen[id] {
			t.Errorf("%q is derived twice from different inputs", id)
		}
		seen[id] = true
	}
}

func TestValidAgent(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "bot", "a1-b", strings.Repeat("a", 20)} {
		if !turn.ValidAgent(name) {
			t.Errorf("ValidAgent(%q) = false", name)
		}
	}
	for _, name := range []string{"", "Bot", "1a", "-a", "a-", "a_b", "a.b", "a/b", "ü", strings.Repeat("a", 21)} {
		if turn.ValidAgent(name) {
			t.Errorf("ValidAgent(%q) = true", name)
		}
	}
}

func TestAgentOf(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		turn.TurnPath("bot"):           "bot",
		turn.TurnsPath("bot", "x-1"):   "bot",
		turn.SessionPath("bot", "a@b"): "bot",
		turn.AgentReadyPath("billing"): "billing",
		"/api/bot":                     "",
		"/api//turn":                   "",
		"/api/../health":               "",
		"/api/Bot/turn":                "",
		"/":                            "",
		"/health":                      "",
		"/apix/bot/turn":               "",
		"/api/" + "a b" + "/turn":      "",
	} {
		got, ok := turn.AgentOf(path)
		if ok != (want != "") || ok && got != want {
			t.Errorf("AgentOf(%q) = %q, %v, want %q", path, got, ok, want)
		}
	}
}
