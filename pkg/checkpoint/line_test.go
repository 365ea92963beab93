package checkpoint

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

var (
	testSalt = []byte("0123456789abcdef")
	testTime = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
)

func TestLineIsAsDocumented(t *testing.T) {
	t.Parallel()
	raw := appendLine(nil, testSalt, 17, 15, testTime, attempt{Replica: "r", Number: 2})
	want := `,"n":17,"s":15,"k":"attempt","ts":"2026-05-01T12:00:00.000Z","d":{"replica":"r","number":2}}` + "\n"
	if !bytes.HasPrefix(raw, []byte(`{"h":"`)) || string(raw[hashedFrom:]) != want {
		t.Fatalf("line is %s", raw)
	}
	if !json.Valid(raw) {
		t.Fatal("a line is not JSON")
	}
	l, err := decodeLine(raw, testSalt)
	if err != nil || l.n != 17 || l.s != 15 || l.kind != kindAttempt || string(l.d) != `{"replica":"r","number":2}` {
		t.Fatalf("decoded %+v, %v", l, err)
	}
	if _, err := decodeLine(raw, []byte("another salt....")); err != errLine {
		t.Fatalf("another file's line: %v", err)
	}
	again := appendResealed(nil, []byte("another salt...."), raw)
	if _, err := decodeLine(again, []byte("another salt....")); err != nil {
		t.Fatal(err)
	}
}

func TestEveryPayloadSurvives(t *testing.T) {
	t.Parallel()
	raw := json.RawMessage(`{"a":[1,"ü"]}`)
	odd := "ü \"quoted\" \\ \x7f\n<&>"
	for _, want := range []payload{
		header{V: 1, Volume: "v", Agent: "bot", Session: "s", Salt: "00", Len: 7},
		begin{Turn: 1, TurnID: "t-1", Key: odd, Hash: odd, Input: raw},
		begin{Turn: 1, TurnID: "t-1", Input: json.RawMessage("null")},
		attempt{Replica: "r", Number: 1},
		commit{Turn: 2, TurnID: "t", Key: "k", Hash: "h", Reply: raw, Keep: 3, Add: []stored{
			{Role: odd, Content: raw}, {Role: "", Content: raw}, {Role: "u", Ref: refInput}, {Role: "a", Ref: refReply}, {Ref: refOld, From: 0, Count: 4},
		}, State: json.RawMessage("null")},
		commit{Turn: 2, TurnID: "t", Reply: raw, Add: []stored{}},
		ended{as: kindFailed, TurnID: "t", Reason: odd}, ended{as: kindReleased, TurnID: "t"}, ended{as: kindParked, TurnID: "t", Reason: "x"},
		note{kindMark}, note{kindDelivered},
		snapshot{Turn: 1, Turns: []storedTurn{{Turn: 1, TurnID: "t", Key: "k", Hash: "h", Reply: raw, Delivered: true}, {Turn: 2, TurnID: "u", End: kindFailed, Reason: odd}},
			Messages: []stored{{Role: "a", Ref: refReply, Turn: 1}, {Role: "u", Content: raw}}, State: raw, More: true},
		snapshot{Turn: 0},
	} {
		line, err := decodeLine(appendLine(nil, testSalt, 2, 1, testTime, want), testSalt)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodePayload(line.kind, line.d)
		if err != nil {
			t.Fatalf("%s: %v", line.kind, err)
		}
		a, b := want.appendJSON(nil), got.appendJSON(nil)
		if !bytes.Equal(a, b) || got.kind() != want.kind() {
			t.Errorf("%s\nbecame\n%s", a, b)
		}
	}
}

func TestNewerLinesAreNotUnderstood(t *testing.T) {
	t.Parallel()
	for k, d := range map[kind]string{
		"waiting": `{}`, "step": `{}`, "mark": `{"x":1}`, "begin": `{"turn":1,"new":2}`, "commit": `{"turn":"1"}`, "attempt": `{} {}`,
	} {
		if _, err := decodePayload(k, []byte(d)); err == nil {
			t.Errorf("%s %s was understood", k, d)
		}
	}
}

func TestNothingLongerThanMaxLineIsALine(t *testing.T) {
	t.Parallel()
	data := []byte(strings.Repeat("x", MaxLine) + "\n")
	if _, ok := cutLine(data, 0); ok {
		t.Fatal("a line of MaxLine+1 bytes was taken")
	}
	if raw, ok := cutLine(data, 1); !ok || len(raw) != MaxLine {
		t.Fatal("a line of MaxLine bytes was not taken")
	}
}

func FuzzLine(f *testing.F) {
	f.Add(appendLine(nil, testSalt, 1, 0, testTime, begin{Turn: 1, TurnID: "t", Input: json.RawMessage(`"x"`)}))
	f.Add([]byte(`{"h":"00000000000000000000000000000000","n":1}` + "\n"))
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		// As they are, and as if a writer had sealed them.
		_, _ = decodeLine(append(bytes.Clone(data), '\n'), testSalt)
		if bytes.IndexByte(data, '\n') >= 0 {
			return
		}
		raw := append([]byte(linePrefix+strings.Repeat("0", hashHex)+`"`), data...)
		sealLine(raw, testSalt)
		l, err := decodeLine(append(raw, '\n'), testSalt)
		if err != nil {
			if err == errLine {
				t.Fatalf("a sealed line is not valid: %q", data)
			}
			return
		}
		if _, err := decodePayload(l.kind, l.d); err == nil && !json.Valid(l.d) {
			t.Fatalf("%s %q was understood and is not JSON", l.kind, l.d)
		}
	})
}
