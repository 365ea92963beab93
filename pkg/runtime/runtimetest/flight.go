package runtimetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/flisk-go/flisk/pkg/runtime"
)

// InFlight sends a turn that takes a while, and returns when its agent has begun
// it. key is its idempotency key; "" is none.
func (p *Project) InFlight(session, key string, takes time.Duration) <-chan Answer {
	p.T.Helper()
	answer := make(chan Answer, 1)
	go func() { answer <- p.Turn("bot", session, key, takes.String()) }()
	Eventually(p.T, "the turn to begin", func() bool { return p.Logged(1, fmt.Sprintf("a turn of %s begins", takes)) })
	return answer
}

// Logged reports whether one of the last lines that the agents wrote has a text.
func (p *Project) Logged(lines int, text string) bool {
	p.T.Helper()
	found := false
	err := p.Driver().Logs(p.T.Context(), runtime.LogOptions{Tail: lines}, func(l runtime.Line) error {
		found = found || strings.Contains(l.Text, text)
		return nil
	})
	if err != nil {
		p.T.Error(err)
	}
	return found
}
