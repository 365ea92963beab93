package gateway

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"testing"
)

func TestStreamsPassAsTheyCome(t *testing.T) {
	t.Parallel()
	t.Run("of unknown length", func(t *testing.T) { testStream(t, "Trailer", "X-End") })
	t.Run("of known length", func(t *testing.T) { testStream(t, "Content-Length", "18") })
}

func testStream(t *testing.T, name, value string) {
	t.Parallel()
	more := make(chan struct{})
	e := backend(t, "bot-1", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(name, value)
		for range 3 {
			_, _ = io.WriteString(w, "event\n")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-more: // the client has it
			case <-r.Context().Done():
				return
			}
		}
		w.Header().Set("X-End", "whole")
	})
	s := serve(t, Options{}, routes(e))
	res, err := s.client.Do(s.request(t.Context(), "GET", "/api/bot/sessions/s1/events", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	in := bufio.NewReader(res.Body)
	for range 3 {
		if event, err := in.ReadString('\n'); event != "event\n" {
			t.Fatalf("%q, %v", event, err)
		}
		more <- struct{}{}
	}
	if rest, err := io.ReadAll(in); len(rest) > 0 || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	if name == "Trailer" && res.Trailer.Get(value) != "whole" {
		t.Errorf("trailer %q", res.Trailer)
	}
}

func TestStreamThatBreaksOffIsNotTakenForWhole(t *testing.T) {
	t.Parallel()
	e := backend(t, "bot-1", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	s := serve(t, Options{}, routes(e))
	if r, err := s.do("GET", "/api/bot/sessions", ""); err == nil {
		t.Errorf("status %d %q and no error", r.status, r.body)
	}
}

func TestClientsGoingCancelsTheAgentsRequest(t *testing.T) {
	t.Parallel()
	begun, cancelled := make(chan struct{}), make(chan struct{})
	e := backend(t, "bot-1", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(begun)
		<-r.Context().Done()
		close(cancelled)
	})
	s := serve(t, Options{}, routes(e))
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		res, err := s.client.Do(s.request(ctx, "POST", "/api/bot/turn", "{}"))
		if err == nil {
			res.Body.Close()
		}
		left <- err
	}()
	<-begun
	leave()
	<-cancelled
	if err := <-left; err == nil {
		t.Error("the client got an answer")
	}
	s.SetRoutes(routes())
	if err := s.Drained(t.Context(), "bot-1"); err != nil {
		t.Error(err)
	}
}

func TestInformationalAnswersPass(t *testing.T) {
	t.Parallel()
	e := backend(t, "bot-1", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</x>")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusOK)
	})
	s := serve(t, Options{}, routes(e))
	var hints []int
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
			hints = append(hints, code)
			return nil
		},
	})
	res, err := s.client.Do(s.request(ctx, "GET", "/api/bot/sessions", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if len(hints) != 1 || hints[0] != http.StatusEarlyHints || len(res.Header.Values("Flisk-Routes")) != 1 {
		t.Errorf("hints %v, header %v", hints, res.Header)
	}
}
