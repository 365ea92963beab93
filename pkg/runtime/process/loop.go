package process

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxLastLine bounds what is quoted of a line, in bytes.
const maxLastLine = 200

// loop is a replica that ends again and again before it is ready. The zero value
// is none.
type loop struct {
	failures int      // starts in a row that came to nothing
	exit     string   // how the last one ended
	tail     []string // the last lines that it wrote
	said     string   // the exit that the log was told of
}

func (l *loop) failed(exit string, tail []string) {
	l.failures++
	l.exit, l.tail = exit, slices.Clone(tail)
}

// lastLine is the last that it wrote, shortened; "" when it wrote nothing.
func (l loop) lastLine() string {
	last := ""
	for _, line := range l.tail {
		last = cmp.Or(strings.TrimSpace(line), last)
	}
	if len(last) > maxLastLine {
		last = strings.ToValidUTF8(last[:maxLastLine], "") + "…"
	}
	return last
}

// String says it in one line, for people.
func (l loop) String() string {
	times := "once"
	if l.failures > 1 {
		times = fmt.Sprintf("%d times in a row", l.failures)
	}
	text := "it ended before it was ready (" + l.exit + "), " + times
	if line := l.lastLine(); line != "" {
		text += "; the last that it wrote: " + strconv.Quote(line)
	}
	return text
}

// noteLoop tells the log of a loop once, and again when it ends in another way:
// a line a restart would drown what the agent says. That it goes on is said at
// the second end: after the first one, a command that waits for it gives up and
// stops it.
func (k *keeper) noteLoop() {
	k.mu.Lock()
	exit, news, goesOn := k.loop.exit, k.loop.said != k.loop.exit, k.loop.failures == 2
	k.loop.said = exit
	k.mu.Unlock()
	if news {
		k.note("ended before it was ready (" + exit + ")")
	}
	if goesOn {
		k.note("does not get ready; it is started again and again, with pauses of up to " + lastBackoff.String())
	}
}

// noteReady ends a loop.
func (k *keeper) noteReady() {
	k.mu.Lock()
	failures := k.loop.failures
	k.loop = loop{}
	k.mu.Unlock()
	if failures > 0 {
		k.note(fmt.Sprintf("is ready, after %d starts that came to nothing", failures))
	}
}
