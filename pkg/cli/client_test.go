package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/turn"
)

// gatewayFunc answers attempt n (from 1) of a turn.
type gatewayFunc func(n int, req *http.Request) (*http.Response, error)

// script is a transport that answers one attempt after the other.
type script struct {
	answer gatewayFunc
	keys   []string
}

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	s.keys = append(s.keys, req.Header.Get(turn.HeaderKey))
	return s.answer(len(s.keys), req)
}

func committed() *http.Response {
	rec := httptest.NewRecorder()
	rec.Header().Set(turn.HeaderCode, "abc123")
	fmt.Fprint(rec, `{"session_id":"s1","turn":3,"turn_id":"x-7","reply":"hello","replayed":false}`)
	return rec.Result()
}

func problem(p *turn.Problem) *http.Response {
	rec := httptest.NewRecorder()
	p.Write(rec)
	return rec.Result()
}

// byRoutes is what Traefik answers for an agent, by our routes.
func byRoutes(status int) *http.Response {
	rec := httptest.NewRecorder()
	rec.Header().Set(turn.HeaderRoutes, "0123456789ab")
	http.Error(rec, http.StatusText(status), status)
	return rec.Result()
}

// A turn whose answer a gateway has lost is sent again as long as the agent may
// come back, and what it is given up with names its key.
func TestTurnIsGivenUpWithItsAgent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		gone, want string
		sent       int
	}{
		{"", "agent-lost: ", maxAttempts},
		{"its container has stopped", `agent "bot" does not answer: its container has stopped (sent 3 times in `, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &script{answer: func(int, *http.Request) (*http.Response, error) { return byRoutes(http.StatusBadGateway), nil }}
			asked := 0
			client := client{base: "http://gateway", http: s, again: func(error, time.Duration) {}, gone: func(context.Context, string) string {
				if asked++; asked == 3 {
					return c.gone
				}
				return ""
			}}
			_, err := client.send(t.Context(), message{agent: "bot", session: "s1", key: "k1", input: []byte(`"hi"`)})
			f := asFault((&app{}).turnFault(err))
			if len(s.keys) != c.sent || !strings.HasPrefix(f.Message, c.want) || !strings.Contains(f.Hint, "--key k1 -s s1") {
				t.Errorf("sent %d times: %+v", len(s.keys), f)
			}
		})
	}
}

// What has just stopped may come back, and what was removed does not.
func TestWhichAgentsComeBack(t *testing.T) {
	t.Parallel()
	now := time.Now()
	stopped := func(ago time.Duration) runtime.Replica {
		return runtime.Replica{Agent: "bot", State: runtime.Failing, Stopped: now.Add(-ago), Detail: "stopped"}
	}
	other := runtime.Replica{Agent: "clerk", State: runtime.Ready}
	for _, c := range []struct {
		name     string
		replicas []runtime.Replica
		gone     bool
	}{
		{"just now", []runtime.Replica{stopped(time.Second)}, false},
		{"long ago", []runtime.Replica{stopped(time.Minute), other}, true},
		{"removed", []runtime.Replica{{Agent: "bot", State: runtime.Gone, Detail: "removed"}}, true},
		{"one of two", []runtime.Replica{stopped(time.Minute), {Agent: "bot", State: runtime.Ready}}, false},
		{"the engine starts it again", []runtime.Replica{{Agent: "bot", State: runtime.Failing, Detail: "it ended"}}, false},
		{"nothing is known", nil, false},
	} {
		o := &opened{driver: observing(runtime.Observed{Replicas: c.replicas})}
		if why := o.gone(t.Context(), "bot"); (why != "") != c.gone {
			t.Errorf("%s: %q", c.name, why)
		}
	}
}

func TestTurnIsSentAgainUnderItsKey(t *testing.T) {
	t.Parallel()
	refusedErr := fmt.Errorf("dial: %w", syscall.ECONNREFUSED)
	for _, c := range []struct {
		name  string
		first gatewayFunc
	}{
		{"connection refused", func(int, *http.Request) (*http.Response, error) { return nil, refusedErr }},
		{"cut off", func(int, *http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }},
		{"agent lost", func(int, *http.Request) (*http.Response, error) {
			return problem(turn.Problemf(turn.AgentLost, "it exited")), nil
		}},
		{"draining", func(int, *http.Request) (*http.Response, error) {
			return problem(turn.Problemf(turn.Draining, "")), nil
		}},
		{"commit unknown", func(int, *http.Request) (*http.Response, error) {
			return problem(turn.Problemf(turn.CommitUnknown, "")), nil
		}},
		{"a gateway without its routes", func(int, *http.Request) (*http.Response, error) {
			rec := httptest.NewRecorder()
			http.NotFound(rec, nil)
			return rec.Result(), nil
		}},
		{"a 502 by our routes", func(int, *http.Request) (*http.Response, error) { return byRoutes(http.StatusBadGateway), nil }},
		{"a 504 by our routes", func(int, *http.Request) (*http.Response, error) { return byRoutes(http.StatusGatewayTimeout), nil }},
		{"answer cut in the middle", func(int, *http.Request) (*http.Response, error) {
			resp := committed()
			resp.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"sess`), &brokenReader{}))
			return resp, nil
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &script{answer: func(n int, req *http.Request) (*http.Response, error) {
					if n < 3 {
						return c.first(n, req)
					}
					return committed(), nil
				}}
				told := 0
				client := client{base: "http://gateway", http: s, again: func(error, time.Duration) { told++ }}
				got, err := client.send(t.Context(), message{agent: "bot", session: "s1", key: `k"1`, input: []byte(`"hi"`)})
				if err != nil || got.attempts != 3 || got.Turn != 3 || got.code != "abc123" || told != 2 {
					t.Errorf("got %+v (%v), told %d times", got, err, told)
				}
				for _, key := range s.keys {
					if key != `"k\"1"` {
						t.Errorf("an attempt had the key %q", key)
					}
				}
			})
		})
	}
}

type brokenReader struct{}

func (*brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestTurnIsNotSentAgainWhenThatCannotHelp(t *testing.T) {
	t.Parallel()
	for _, code := range turn.Codes() {
		var failed error
		s := &script{answer: func(int, *http.Request) (*http.Response, error) {
			return problem(turn.Problemf(code, "because")), nil
		}}
		synctest.Test(t, func(t *testing.T) {
			c := client{base: "http://gateway", http: s, again: func(error, time.Duration) {}}
			_, err := c.send(t.Context(), message{agent: "bot", key: "k", input: []byte(`1`)})
			failed = err
			p, ok := errors.AsType[*turn.Problem](err)
			if !ok || p.Code != code {
				t.Errorf("%s: got %v", code, err)
			}
		})
		again := code.Status() >= 500 && code.Retryable()
		if want := map[bool]int{false: 1, true: maxAttempts}[again]; len(s.keys) != want {
			t.Errorf("%s was sent %d times, want %d", code, len(s.keys), want)
		} else if said := asFault((&app{}).turnFault(failed)).Message; strings.Contains(said, fmt.Sprintf("sent %d times in ", want)) != again {
			t.Errorf("%s: the error is %q", code, said)
		}
	}
}

func TestTurnGivesUpInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{answer: func(int, *http.Request) (*http.Response, error) {
			time.Sleep(30 * time.Second) // as a gateway that holds
			return problem(turn.Problemf(turn.NotReady, "")), nil
		}}
		started := time.Now()
		c := client{base: "http://gateway", http: s, again: func(error, time.Duration) {}}
		if _, err := c.send(t.Context(), message{agent: "bot", key: "k", input: []byte(`1`)}); err == nil {
			t.Error("it succeeded")
		}
		if took := time.Since(started); took > 2*retryWindow {
			t.Errorf("it took %s", took)
		}
	})
}

func TestAStrangersAnswerIsShown(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"<html>hello</html>", "", `{"type":"about:blank"}`} {
		s := &script{answer: func(int, *http.Request) (*http.Response, error) {
			rec := httptest.NewRecorder()
			rec.WriteHeader(http.StatusBadGateway)
			rec.WriteString(body)
			return rec.Result(), nil
		}}
		c := client{base: "http://gateway", http: s, again: func(error, time.Duration) { t.Error("it was sent again") }}
		_, err := c.send(t.Context(), message{agent: "bot", key: "k", input: []byte(`1`)})
		f := asFault((&app{}).turnFault(err))
		if !strings.Contains(f.Message, "502 Bad Gateway") || body != "" && f.Detail != body || f.Hint == "" {
			t.Errorf("got %+v", f)
		}
	}
}
