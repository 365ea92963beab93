package runtimetest

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Progress writes down what it is told.
type Progress struct {
	mu    sync.Mutex
	began time.Time
	lines strings.Builder
}

// Begin implements runtime.Progress.
func (p *Progress) Begin(step string) func(string, error) {
	p.say("begin " + step)
	return func(detail string, err error) { p.say(fmt.Sprintf("end %s: %s %v", step, detail, err)) }
}

// Output implements runtime.Progress.
func (p *Progress) Output() io.Writer { return sayWriter{p} }

type sayWriter struct{ p *Progress }

func (w sayWriter) Write(b []byte) (int, error) {
	w.p.say(strings.TrimSuffix(string(b), "\n"))
	return len(b), nil
}

func (p *Progress) say(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.began.IsZero() {
		p.began = time.Now()
	}
	fmt.Fprintf(&p.lines, "%6d ms  %s\n", time.Since(p.began).Milliseconds(), line)
}

func (p *Progress) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lines.String()
}
