package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/turn"
)

func TestInputHash(t *testing.T) {
	t.Parallel()
	same := [][]string{
		{`{"a":1,"b":[true,null]}`, `{"b":[true,null],"a":1}`, "{ \"b\" : [ true , null ] ,\n\"a\": 1 }"},
		{`"ü<"`, `"\u00fc\u003c"`},
		{`12345678901234567890123`},
		{`12345678901234567890124`},
		{`1`}, {`1.0`}, {`1e0`}, {`"1"`}, {`null`}, {`[]`}, {`{}`}, {`""`},
	}
	owner := map[string]int{}
	for i, group := range same {
		for _, text := range group {
			hash, err := inputHash(json.RawMessage(text))
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if j, seen := owner[hash]; seen && j != i {
				t.Errorf("%s has the hash of %s", text, same[j][0])
			}
			owner[hash] = i
		}
	}
	if len(owner) != len(same) {
		t.Errorf("%d hashes for %d different inputs", len(owner), len(same))
	}
}

func TestParseInput(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"input":"hi"}`:                      `"hi"`,
		"\n{ \"input\" : { \"b\": 1.0 } }\n ": `{"b":1.0}`,
		`{"input":null}`:                      `null`,
		`{"input":[1e400, -0]}`:               `[1e400,-0]`,
		`{"input":"<b>\u00fc"}`:               `"<b>\u00fc"`,
	} {
		got, _, err := parseInput([]byte(body))
		if err != nil || string(got) != want {
			t.Errorf("parseInput(%q) = %s, %v, want %s", body, got, err, want)
		}
	}
	for _, body := range []string{
		``, ` `, `{`, `{}`, `[]`, `"input"`, `null`, `{"input"}`, `{"input":}`, `{"input":1`, `{"input":1}}`,
		`{"input":1} x`, `{"input":1}{"input":1}`, `{"input":1,"input":1}`, `{"Input":1}`, `{"input":1,"key":"k"}`,
		`{"input":01}`, `{"input":'x'}`, "{\"input\":\"\xff\"}", "{\"input\":\"\n\"}", "\xef\xbb\xbf{\"input\":1}",
		`{"input":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`,
	} {
		_, _, err := parseInput([]byte(body))
		if p, ok := errors.AsType[*turn.Problem](err); !ok || p.Code != turn.BadRequest {
			t.Errorf("parseInput(%.40q) = %v, want a bad-request problem", body, err)
		}
	}
}

func FuzzParseInput(f *testing.F) {
	f.Add([]byte(`{"input":{"b":[1.50,"ü"],"a":null}}`))
	f.Add([]byte("{\"input\":\"\xff\"}"))
	f.Add([]byte(`{"input":1,"input":2}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		input, hash, err := parseInput(body)
		if err != nil {
			if _, ok := errors.AsType[*turn.Problem](err); !ok {
				t.Fatalf("%v is not a problem", err)
			}
			return
		}
		var spread bytes.Buffer
		if err := json.Indent(&spread, input, " ", "\t"); err != nil {
			t.Fatalf("input %q is not JSON: %v", input, err)
		}
		again, hashAgain, err := parseInput([]byte(`{"input":` + spread.String() + `}`))
		if err != nil || !bytes.Equal(again, input) || hashAgain != hash {
			t.Fatalf("%q parsed again is %q, hash %s, %v, want hash %s", input, again, hashAgain, err, hash)
		}
	})
}

func TestEncodeJSONRefusesBadBytes(t *testing.T) {
	t.Parallel()
	if got, err := encodeJSON(json.RawMessage("\"\xff\"")); err == nil {
		t.Errorf("encoded to %q", got)
	}
	got, err := encodeJSON(map[string]string{"a": "<&>"})
	if err != nil || string(got) != `{"a":"<&>"}` {
		t.Errorf("encodeJSON = %s, %v", got, err)
	}
}

// FuzzPlainString: what is taken for its own canonical form must be it.
func FuzzPlainString(f *testing.F) {
	for _, s := range []string{"", "hi", "ü", "\u2028", "a\u2029", "“quoted”", "<&>", "\x7f", "[{", `\`, "\x01"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		raw, err := encodeJSON(s)
		if err != nil {
			t.Skip(err)
		}
		// Written as it is, if that is JSON too.
		for _, raw := range []json.RawMessage{raw, json.RawMessage(`"` + s + `"`)} {
			if compact, err := compactJSON(raw); err != nil || !plainString(compact) {
				continue
			}
			canonical, err := canonicalJSON(raw)
			if err != nil || !bytes.Equal(canonical, raw) {
				t.Errorf("%s is not its canonical form, %s, %v", raw, canonical, err)
			}
			if err := checkUnambiguous(raw); err != nil {
				t.Errorf("%s: %v", raw, err)
			}
		}
	})
}
