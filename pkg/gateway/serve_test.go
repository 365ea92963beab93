package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

func TestC15_StopLetsRequestsInFlightFinish(t *testing.T) {
	t.Parallel()
	begun, finish := make(chan struct{}), make(chan struct{})
	e := backend(t, "bot-1", func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-finish
		_, _ = io.WriteString(w, "whole")
	})
	s := serve(t, Options{}, routes(e))
	answered := s.start()
	<-begun
	s.stop()
	eventually(t, "the listener is closed", func() bool {
		conn, err := net.Dial("tcp", s.addr)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	select {
	case <-s.done:
		t.Error("Serve returned with a request in flight")
	default:
	}
	close(finish)
	if r := <-answered; r.status != http.StatusOK || r.body != "whole" {
		t.Errorf("status %d %q", r.status, r.body)
	}
	<-s.done
	if s.err != nil {
		t.Errorf("Serve: %v", s.err)
	}
}

func TestStopCutsWhatOutlastsItsGrace(t *testing.T) {
	t.Parallel()
	begun, cancelled := make(chan struct{}), make(chan struct{})
	e := backend(t, "bot-1", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(begun)
		<-r.Context().Done()
		close(cancelled)
	})
	s := serve(t, Options{Grace: 20 * time.Millisecond}, routes(e))
	failed := make(chan error, 1)
	go func() {
		r, err := s.do("POST", "/api/bot/turn", "{}")
		if err == nil {
			t.Errorf("the client got %d %q", r.status, r.body)
		}
		failed <- err
	}()
	<-begun
	s.stop()
	<-s.done
	if !errors.Is(s.err, context.DeadlineExceeded) {
		t.Errorf("Serve: %v", s.err)
	}
	<-cancelled
	<-failed
}

func TestServeReturnsAfterItsHandlers(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	e := backend(t, "bot-1", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(begun)
		<-r.Context().Done()
	})
	g := New(Options{Grace: time.Millisecond})
	cut, release := make(chan struct{}), make(chan struct{})
	g.proxy.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		res, err := g.forward(r)
		close(cut)
		<-release
		return res, err
	})
	s := serveGateway(t, g, routes(e))
	failed := make(chan error, 1)
	go func() {
		_, err := s.do("POST", "/api/bot/turn", "{}")
		failed <- err
	}()
	<-begun
	s.stop()
	<-cut
	if err := <-failed; err == nil {
		t.Error("the client got an answer")
	}
	select {
	case <-s.done:
		t.Error("Serve returned before the handler")
	case <-time.After(20 * time.Millisecond):
	}
	close(release)
	<-s.done
}

func TestServeReturnsWithIdleConnectionsOpen(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{Grace: time.Hour}, routes(backend(t, "bot-1", say("ok"))))
	if r := s.post(); r.status != http.StatusOK {
		t.Fatalf("status %d", r.status)
	}
	s.stop()
	<-s.done
	if s.err != nil {
		t.Errorf("Serve: %v", s.err)
	}
}

func TestServeReportsABrokenListener(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	if err := New(Options{}).Serve(t.Context(), ln); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve: %v", err)
	}
}

func TestServeWithAnEndedContext(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := New(Options{}).Serve(ctx, ln); err != nil {
		t.Errorf("Serve: %v", err)
	}
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener is open: %v", err)
	}
}
