package dockertest

import (
	"net/http"
	"syscall"
)

// containerPause stops a container's process, or what a gateway answers with.
func (e *Engine) containerPause(w http.ResponseWriter, r *http.Request) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, err := e.find(r.PathValue("id"))
	switch {
	case err != nil:
		return err
	case c.play == nil:
		return refuse(http.StatusConflict, "Container %s is not running", c.id)
	case c.paused:
		return refuse(http.StatusConflict, "Container %s is already paused", c.id)
	}
	c.paused = true
	if c.play.pid != 0 {
		c.play.signal(syscall.SIGSTOP)
	}
	e.announce()
	return noContent(w)
}

func (e *Engine) containerUnpause(w http.ResponseWriter, r *http.Request) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, err := e.find(r.PathValue("id"))
	if err != nil {
		return err
	}
	if !c.paused {
		return refuse(http.StatusInternalServerError, "Container %s is not paused", c.id)
	}
	e.resume(c)
	return noContent(w)
}

// resume lets a container go on. e.mu is held.
func (e *Engine) resume(c *container) {
	if c.paused && c.play != nil && c.play.pid != 0 {
		c.play.signal(syscall.SIGCONT)
	}
	c.paused = false
	e.announce()
}
