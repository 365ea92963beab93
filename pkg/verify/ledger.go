package verify

import (
	"encoding/json"
	"sync"

	"github.com/flisk-go/flisk/pkg/turn"
)

// ledger is what a client knows of one session: the turns that it sent and what
// it was told. It is safe for concurrent use.
type ledger struct {
	session string

	mu       sync.Mutex
	attempts []*attempt
}

// attempt is one turn under its key, however often it was sent.
type attempt struct {
	message
	ledger *ledger

	// Guarded by ledger.mu.
	results []turn.Result // every answer of 200
	open    bool          // some answer left open what became of it
}

// add notes a turn before it is sent.
func (l *ledger) add(key string, input json.RawMessage, hold string) *attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := &attempt{message: message{l.session, key, input, hold}, ledger: l}
	l.attempts = append(l.attempts, a)
	return a
}

// told notes what came back.
func (a *attempt) told(got answer) {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	switch {
	case got.ok():
		a.results = append(a.results, got.result)
	case got.lost(), got.problem == turn.Draining: // given back, and free to be resumed
		a.open = true
	}
}

// byKey returns the attempts by their keys, and copies them: they may change.
func (l *ledger) byKey() map[string]attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := map[string]attempt{}
	for _, a := range l.attempts {
		m[a.key] = *a
	}
	return m
}

// acknowledged is the number of turns that were answered.
func (l *ledger) acknowledged() int {
	n := 0
	for _, a := range l.byKey() {
		if len(a.results) > 0 {
			n++
		}
	}
	return n
}
