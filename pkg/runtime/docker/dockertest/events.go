package dockertest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
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

// systemEvents tells what happens from now on, or what happened in a time.
func (e *Engine) systemEvents(w http.ResponseWriter, r *http.Request) error {
	args, err := filtersOf(r, "label", "type", "event", "container")
	if err != nil {
		return err
	}
	fits := func(m events.Message) bool {
		return args.MatchKVList("label", m.Actor.Attributes) && args.Match("type", string(m.Type)) && args.Match("event", string(m.Action)) &&
			(len(args.Get("container")) == 0 || args.ExactMatch("container", m.Actor.ID))
	}
	if q := r.URL.Query(); q.Get("since") != "" || q.Get("until") != "" {
		return e.pastEvents(w, q.Get("since"), q.Get("until"), fits)
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
			if fits(m) && out.Encode(m) != nil {
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

// pastEvents tells what happened between two moments, of which the later one is
// over.
func (e *Engine) pastEvents(w http.ResponseWriter, since, until string, fits func(events.Message) bool) error {
	moment := func(text string) (int64, bool) {
		seconds, nanos, dot := strings.Cut(text, ".")
		n, err := strconv.ParseInt(seconds+nanos, 10, 64)
		return n, err == nil && dot && len(nanos) == len("000000000")
	}
	from, known := moment(since)
	to, known2 := moment(until)
	if !known || !known2 || to > time.Now().UnixNano() {
		return notPlayed(fmt.Sprintf("events from %q until %q", since, until))
	}
	e.mu.Lock()
	past := slices.Clone(e.events)
	e.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	out := json.NewEncoder(w)
	for _, m := range past {
		if m.TimeNano >= from && m.TimeNano <= to && fits(m) && out.Encode(m) != nil {
			return nil // the client left
		}
	}
	return nil
}
