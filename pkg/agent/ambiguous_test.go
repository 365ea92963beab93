package agent

import (
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// TestAmbiguousInputsAreRefused: what two readers can take for two values must
// not share the hash by which a turn key tells inputs apart.
func TestAmbiguousInputsAreRefused(t *testing.T) {
	t.Parallel()
	for _, input := range []string{
		`"\ud800"`, `"\udfff"`, `"\ud800\ud800"`, `"a\udc00b"`, `["\\\ud83d"]`, `{"\ud800":1}`,
		`{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `[{"b":{"c":1,"c":1}}]`, `{"a":[{}],"a":1}`, `{"a":{},"a":{}}`,
	} {
		if _, _, err := parseInput([]byte(`{"input":` + input + `}`)); err == nil {
			t.Errorf("%s is accepted", input)
		}
	}
	for _, input := range []string{
		`"\ud83d\ude00"`, `"\\ud800"`, `"\u00fc\u0000"`, `"a:a"`, `["a","a"]`, `{"a":"a","b":"a"}`, `{"a":{"a":{"a":1}},"b":{"a":1}}`,
		`[{"a":1},{"a":1}]`, `{"a":["a","a",{"a":1}],"b":1}`, `{}`, `[]`, `0`, `null`, `{"":1}`,
	} {
		if _, _, err := parseInput([]byte(`{"input":` + input + `}`)); err != nil {
			t.Errorf("%s is refused: %v", input, err)
		}
	}
}

// TestC14_AByteDoesNotHoldTheDrain: a client that sends the first byte of a
// request on a used connection and no more.
func TestC14_AByteDoesNotHoldTheDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dial, drain := servePipe(t, NewServer(remember, nil, pipeEnv(), slog.New(slog.DiscardHandler)))
		conn := dial()
		go func() { _, _ = io.WriteString(conn, "GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\nP") }()
		go func() { _, _ = io.Copy(io.Discard, conn) }()
		synctest.Wait()
		began := time.Now()
		drain()
		if took := time.Since(began); took > headerTimeout+time.Second {
			t.Errorf("the drain took %v", took)
		}
	})
}
