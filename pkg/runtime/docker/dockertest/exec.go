package dockertest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"

	api "github.com/docker/docker/api/types/container"
)

// execution is a command in a running container.
type execution struct {
	id      string
	c       *container
	options api.ExecOptions
	running bool
	begun   bool
	code    int
}

func (e *Engine) execCreate(w http.ResponseWriter, r *http.Request) error {
	var options api.ExecOptions
	if err := decode(r, &options); err != nil {
		return err
	}
	if options.Tty || options.AttachStdin || options.Privileged {
		return notPlayed("these options of exec")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	c, err := e.find(r.PathValue("id"))
	if err != nil {
		return err
	}
	if c.play == nil {
		return refuse(http.StatusConflict, "Container %s is not running", c.id)
	}
	if c.paused {
		return refuse(http.StatusConflict, "Container %s is paused, unpause the container before exec", c.id)
	}
	if len(options.Cmd) == 0 {
		return refuse(http.StatusBadRequest, "No exec command specified")
	}
	if c.image.program == "" {
		return notPlayed("exec in this image")
	}
	x := &execution{id: newID(), c: c, options: options}
	e.execs[x.id] = x
	return answer(w, http.StatusCreated, map[string]string{"Id": x.id})
}

func (e *Engine) execStart(w http.ResponseWriter, r *http.Request) error {
	e.mu.Lock()
	x := e.execs[r.PathValue("id")]
	var p *play
	if x != nil {
		p = x.c.play
	}
	switch {
	case x == nil:
		e.mu.Unlock()
		return refuse(http.StatusNotFound, "No such exec instance: %s", r.PathValue("id"))
	case x.begun:
		e.mu.Unlock()
		return refuse(http.StatusConflict, "Error: Exec command %s is already running", x.id)
	case p == nil:
		e.mu.Unlock()
		return refuse(http.StatusConflict, "Container %s is not running", x.c.id)
	case r.Header.Get("Upgrade") != "tcp":
		e.mu.Unlock()
		return notPlayed("exec without an upgraded connection")
	}
	x.begun, x.running = true, true
	e.mu.Unlock()
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // the client has all, or left
	kind := "application/vnd.docker.raw-stream"
	if e.knows("1.42") {
		kind = "application/vnd.docker.multiplexed-stream"
	}
	if _, err := fmt.Fprintf(conn, "HTTP/1.1 101 UPGRADED\r\nContent-Type: %s\r\nConnection: Upgrade\r\nUpgrade: tcp\r\nApi-Version: %s\r\n\r\n", kind, e.o.API); err != nil {
		return nil
	}
	var mu sync.Mutex
	code := e.runIn(e.ctx, x.c, p, x.options.Cmd, framed{conn, false, &mu}, framed{conn, true, &mu})
	e.mu.Lock()
	x.running, x.code = false, code
	e.mu.Unlock()
	return nil
}

// framed writes frames of one stream.
type framed struct {
	w      io.Writer
	stderr bool
	mu     *sync.Mutex
}

func (f framed) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.w.Write(frame(f.stderr, p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// runIn runs a command as if it were in a running container, and ends with it.
func (e *Engine) runIn(ctx context.Context, c *container, p *play, argv []string, stdout, stderr io.Writer) (code int) {
	e.mu.Lock()
	cmd, err := e.command(c, argv)
	e.mu.Unlock()
	if err != nil {
		_, _ = fmt.Fprintln(stdout, err) // as the engine does; the code says it as well
		return 126
	}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = stdout, stderr, killWait
	if err := cmd.Start(); err != nil {
		_, _ = fmt.Fprintln(stdout, err)
		return 126
	}
	ended := make(chan error, 1)
	e.wg.Go(func() { ended <- cmd.Wait() })
	select {
	case err = <-ended:
		return exitCode(err)
	case <-ctx.Done():
	case <-p.done:
	}
	_ = cmd.Process.Kill() // it may just have ended
	return exitCode(<-ended)
}

func (e *Engine) execInspect(w http.ResponseWriter, r *http.Request) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.execs[r.PathValue("id")]
	if x == nil {
		return refuse(http.StatusNotFound, "No such exec instance: %s", r.PathValue("id"))
	}
	return answer(w, http.StatusOK, map[string]any{"ID": x.id, "Running": x.running, "ExitCode": x.code, "ContainerID": x.c.id})
}
