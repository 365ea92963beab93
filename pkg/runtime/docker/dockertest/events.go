package dockertest

import (
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"github.com/docker/docker/api/types/events"
)

// tell writes down what happened to a container, with attributes of its own, and
// announces it. e.mu is held.
func (e *Engine) tell(c *container, action events.Action, own map[string]string) {
	attributes := map[string]string{"name": c.name, "image": c.image.id}
	maps.Copy(attributes, c.labels())
	maps.Copy(attributes, own)
	now := time.Now()
	e.events = append(e.events, events.Message{
		Type: events.ContainerEventType, Action: action, Scope: "local", Time: now.Unix(), TimeNano: now.UnixNano(),
		Actor: events.Actor{ID: c.id, Attributes: attributes},
	})
	e.announce()
}

// tellSignal tells of a signal that somebody sends to a container. e.mu is held.
func (e *Engine) tellSignal(c *container, sig syscall.Signal) {
	e.tell(c, events.ActionKill, map[string]string{"signal": strconv.Itoa(int(sig))})
}

// systemEvents tells what happens from now on.
func (e *Engine) systemEvents(w http.ResponseWriter, r *http.Request) error {
	args, err := filtersOf(r, "label", "type", "event")
	if err != nil {
		return err
	}
	if q := r.URL.Query(); q.Get("since") != "" || q.Get("until") != "" {
		return notPlayed("events of a time")
	}
	e.mu.Lock()
	seen := len(e.events)
	e.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	flush, out := http.NewResponseController(w), json.NewEncoder(w)
	for flush.Flush() == nil {
		e.mu.Lock()
		more, changed := e.events[seen:], e.changed
		e.mu.Unlock()
		seen += len(more)
		for _, m := range more {
			if args.MatchKVList("label", m.Actor.Attributes) && args.Match("type", string(m.Type)) && args.Match("event", string(m.Action)) && out.Encode(m) != nil {
				return nil // the client left
			}
		}
		if len(more) > 0 {
			continue
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return nil
		}
	}
	return nil
}
