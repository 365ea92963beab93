package turn_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/turn"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestProblemRoundTrip(t *testing.T) {
	t.Parallel()
	for _, code := range turn.Codes() {
		if code.Title() == "" || code.Advice() == "" || code.Status() == 0 {
			t.Errorf("%s has no title, advice or status", code)
		}
		want := &turn.Problem{Code: code, Detail: "d", SessionID: "s", TurnID: "t-1"}
		w := httptest.NewRecorder()
		want.Write(w)
		if w.Code != code.Status() || w.Header().Get("Content-Type") != turn.ProblemType {
			t.Errorf("%s: status %d, content type %q", code, w.Code, w.Header().Get("Content-Type"))
		}
		if got := w.Header().Get("Retry-After") != ""; got != code.Retryable() {
			t.Errorf("%s: Retry-After present = %v, want %v", code, got, code.Retryable())
		}
		got := new(turn.Problem)
		if err := json.Unmarshal(w.Body.Bytes(), got); err != nil {
			t.Fatalf("%s: %v", code, err)
		}
		if *got != *want {
			t.Errorf("%s: read back %+v, want %+v", code, got, want)
		}
		if w.Header().Get(turn.HeaderTurn) != "t-1" || w.Header().Get(turn.HeaderSession) != "s" {
			t.Errorf("%s: the turn and session headers are missing: %v", code, w.Header())
		}
	}
}

func TestProblemRetryAfterIsWholeSeconds(t *testing.T) {
	t.Parallel()
	for after, want := range map[time.Duration]string{0: "1", time.Millisecond: "1", 1500 * time.Millisecond: "2", 3 * time.Second: "3"} {
		w := httptest.NewRecorder()
		(&turn.Problem{Code: turn.QueueFull, After: after}).Write(w)
		if got := w.Header().Get("Retry-After"); got != want {
			t.Errorf("Retry-After for %v is %q, want %q", after, got, want)
		}
	}
}

func TestUnknownProblemTypeIsRefused(t *testing.T) {
	t.Parallel()
	for _, doc := range []string{`{"type":"about:blank"}`, `{"type":"https://example.org/x"}`, `{}`, `[]`} {
		if err := json.Unmarshal([]byte(doc), new(turn.Problem)); err == nil {
			t.Errorf("%s was read as a problem of this contract", doc)
		}
	}
}

// TestProblemsPage keeps docs/PROBLEMS.md, which every problem type links to,
// equal to the table.
func TestProblemsPage(t *testing.T) {
	t.Parallel()
	const path = "../../docs/PROBLEMS.md"
	var page bytes.Buffer
	page.WriteString("# Problems\n\n<!-- Generated from pkg/turn by `go test ./pkg/turn -update`. Do not edit. -->\n\n" +
		"Every error of an agent or a gateway is an [RFC 9457](https://www.rfc-editor.org/rfc/rfc9457) document\n" +
		"(`application/problem+json`). Its `type` is stable, ends in one of these names and links to this page.\n" +
		"*Again* says that the same request may succeed later; its answer carries `Retry-After`. Retry turns with the\n" +
		"same `Idempotency-Key`: no turn is stored twice.\n\n" +
		"| type | status | title | again | what to do |\n|---|---|---|---|---|\n")
	for _, c := range turn.Codes() {
		again := ""
		if c.Retryable() {
			again = "yes"
		}
		fmt.Fprintf(&page, "| <a id=\"%s\"></a>`%s` | %d %s | %s | %s | %s |\n", c, c, c.Status(), http.StatusText(c.Status()), c.Title(), again,
			strings.ReplaceAll(strings.ReplaceAll(c.Advice(), "<", "&lt;"), "|", "\\|"))
	}
	if *update {
		if err := os.WriteFile(path, page.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, page.Bytes()) {
		t.Errorf("%s is out of date: run go test ./pkg/turn -update", path)
	}
}
