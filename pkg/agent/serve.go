package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	headerTimeout = 10 * time.Second
	// idleTimeout is longer than that of any gateway in front, so that the side
	// that sends requests is the one that closes an idle connection.
	idleTimeout    = 3 * time.Minute
	maxHeaderBytes = 64 << 10
	// leaveTime is what is left after the drain budget to write the last
	// answers; see settleTime.
	leaveTime = settleTime + time.Second
)

// errBudget ends the waiting part of a drain.
var errBudget = errors.New("the drain budget is used up")

// Serve answers requests on ln until ctx ends, then drains and returns nil:
//
//  1. /ready answers 503.
//  2. Everything is served as before for env.Linger, while gateways turn away;
//     [Main] skips that when FLISK_LIFELINE has ended, which says that they have.
//  3. The listener is closed, and every answer closes its connection.
//  4. Requests that were read, are being read or wait in a queue are finished,
//     committed and answered; connections without a request are closed. A body
//     that makes no progress for a second is answered 503.
//  5. After env.Drain, counted from the beginning, turns that still wait are
//     answered 503, and running ones have their context cancelled. They are
//     given back and not recorded as failed.
//
// Serve returns an error only if ln failed before ctx ended. It does not wait
// for a runTurn that ignores the end of its context.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	return s.serve(ctx, context.Background(), context.Background(), ln)
}

// serve is Serve; the end of alone skips step 2, and that of hurry skips to step 5.
func (s *Server) serve(ctx, alone, hurry context.Context, ln net.Listener) error {
	cs := &conns{states: map[*conn]connState{}}
	srv := &http.Server{
		Handler:           s,
		ConnState:         cs.changed,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(listener{ln}) }()
	select {
	case err := <-served:
		_ = srv.Close()
		s.Close()
		return fmt.Errorf("cannot accept connections on %q: %w", ln.Addr(), err)
	case <-ctx.Done():
	}

	s.log.Info("draining", "in_flight", s.engine.flights.count())
	began := time.Now()
	s.draining.Store(true)
	budget, cancel := context.WithTimeoutCause(hurry, s.env.Drain, errBudget)
	defer cancel()
	linger(budget, alone, s.env.Linger)

	s.closing.Store(true)
	_ = ln.Close()
	<-served // from here on every accepted connection has been counted
	cs.drain()
	s.bodies.drain()
	err := errors.Join(cs.open.wait(budget), s.engine.flights.wait(budget))
	if err != nil {
		s.log.Warn("drain cut short", "reason", context.Cause(budget), "in_flight", s.engine.flights.count())
		s.engine.stop()
		leaving, cancel := context.WithTimeout(context.Background(), leaveTime)
		defer cancel()
		_ = errors.Join(cs.open.wait(leaving), s.engine.flights.wait(leaving))
	}
	_ = srv.Close()
	s.log.Info("drained", "took", time.Since(began).Round(time.Millisecond), "abandoned", s.engine.flights.count())
	return nil
}

// linger waits for d, or for the end of budget, or until nobody is left for whom
// there is anything to wait.
func linger(budget, alone context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-alone.Done():
	case <-budget.Done():
	}
}
