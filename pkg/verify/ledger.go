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
	turns    int // that the checkpoint had when it was last looked at
	since    int // attempts that were made after that
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
	l.since++
	return a
}

// next is the number of the turn that the next attempt is for, as far as is
// known: one that was killed before its commit leaves its number free.
func (l *ledger) next() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.turns + l.since + 1
}

// lastKey is that of the newest attempt.
func (l *ledger) lastKey() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.attempts[len(l.attempts)-1].key
}

// sawTurns notes how many turns the checkpoint has.
func (l *ledger) sawTurns(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turns, l.since = n, 0
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
