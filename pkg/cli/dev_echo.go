package cli

import (
	"slices"
	"strings"

	"github.com/flisk-go/flisk/pkg/runtime"
)

// devEcho keeps what an agent printed before it failed from being shown twice: as
// its log, and as what the error of the reload quotes of it. Either may come
// first. It is about one reload.
type devEcho struct {
	shown  []string       // of logs
	quoted map[string]int // lines that were shown of an error, and may come as logs
}

// maxShown is how many lines it goes back: more than an error quotes, of
// every replica.
const maxShown = 200

func newDevEcho() devEcho { return devEcho{quoted: map[string]int{}} }

// echoes reports whether a line was shown already, and else notes it.
func (s *devScreen) echoes(l runtime.Line) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.echo.quoted[l.Text] > 0 {
		s.echo.quoted[l.Text]--
		return true
	}
	if len(s.echo.shown) == maxShown {
		s.echo.shown = slices.Delete(s.echo.shown, 0, 1)
	}
	s.echo.shown = append(s.echo.shown, l.Text)
	return false
}

// rest is what of an error's detail was not shown yet. It is shown now.
func (e *devEcho) rest(detail string) string {
	shown := slices.Clone(e.shown)
	var rest []string
	for line := range strings.SplitSeq(strings.Trim(detail, "\n"), "\n") {
		if i := slices.Index(shown, line); i >= 0 {
			shown = slices.Delete(shown, i, i+1)
			continue
		}
		if ours.MatchString(line) {
			continue
		}
		rest = append(rest, line)
		e.quoted[line]++
	}
	return strings.Trim(strings.Join(rest, "\n"), "\n")
}
