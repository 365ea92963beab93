package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Serve answers requests on ln until ctx ends, and returns when everything has
// stopped. It closes ln, and serves once.
//
// The end has two phases. First ln is closed, held requests get 503, and the
// ones that a replica has go on, for Options.Grace at most. Then what is left is
// cut: clients see their connection close, and agents see theirs cancelled. An
// error says that something was cut, or that ln broke while ctx had not ended.
//
// Stop the agents first: what they answer while they drain still has to pass
// through here.
func (g *Gateway) Serve(ctx context.Context, ln net.Listener) error {
	var connections sync.WaitGroup
	server := &http.Server{
		Handler:           g,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(g.opts.Log.Handler(), slog.LevelWarn),
		// OPTIONS * is a request like any other: checked, and not served.
		DisableGeneralOptionsHandler: true,
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				connections.Add(1)
			case http.StateClosed:
				connections.Done()
			}
		},
	}
	var broken error
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			broken = fmt.Errorf("the gateway's listener failed: %w", err)
		}
	}()
	select {
	case <-ctx.Done():
	case <-served:
	}
	g.stop()

	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.opts.Grace)
	defer cancel()
	var cut error
	if err := server.Shutdown(grace); err != nil {
		cut = fmt.Errorf("requests in flight were cut after %s: %w", g.opts.Grace, err)
		_ = server.Close() // the listener is closed already; connections report nothing of use
	}
	<-served           // no connection is accepted any more …
	connections.Wait() // … and the handlers of all have returned
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, rep := range g.table.replicas {
		rep.transport.CloseIdleConnections()
	}
	return errors.Join(broken, cut)
}
