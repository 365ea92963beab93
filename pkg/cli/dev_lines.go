package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/dev"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// said is a line, and how it looks: its mark, if it has one, or all of it.
type said struct {
	mark  string
	style console.Style
	text  string
}

// fold fits a line into the columns behind an indent. Styles come last: they have
// no width.
func (l said) fold(columns int, indent string) string {
	if l.mark == "" {
		return l.style.Render(console.Fold(l.text, columns, indent))
	}
	return l.style.Render(l.mark) + strings.TrimPrefix(console.Fold(l.mark+" "+l.text, columns, indent), l.mark)
}

func good(format string, args ...any) []said {
	return []said{{"✓", console.Good, fmt.Sprintf(format, args...)}}
}
func odd(format string, args ...any) []said {
	return []said{{"!", console.Warn, fmt.Sprintf(format, args...)}}
}
func bad(format string, args ...any) []said {
	return []said{{"✗", console.Bad, fmt.Sprintf(format, args...)}}
}
func plain(format string, args ...any) []said {
	return []said{{"", console.Plain, fmt.Sprintf(format, args...)}}
}

func quiet(format string, args ...any) []said {
	return []said{{"", console.Quiet, fmt.Sprintf(format, args...)}}
}

// devLines are what people read of an event, each behind the time. mended says
// that the reload before came to nothing, known that the same was told of e's
// replica already.
func devLines(e dev.Event, mended, known bool) []said {
	switch e.Kind {
	case dev.Reloading:
		return reloadingLines(e)
	case dev.Reloaded:
		return reloadedLines(e, mended)
	case dev.Unchanged:
		switch {
		case len(e.Paths) == 0: // an attempt that nobody saved anything for
			return good("mended; what runs is what is on disk")
		case mended:
			return good("%s: mended; what runs is what is on disk", savedWords(e))
		}
		return quiet("%s; what runs is what is on disk already", savedWords(e))
	case dev.Failed, dev.Lost:
		if e.Known {
			return nil
		}
		return bad("%s", console.Line(asFault(e.Err).Message))
	case dev.Dropped:
		return quiet("given up for a newer change, before anything was replaced")
	case dev.Waiting:
		return odd("%s, and waits: too many old generations still finish their turns", savedWords(e))
	case dev.Drained:
		return drainedLines(e)
	case dev.Back:
		return good("everything runs again")
	case dev.Failing:
		if !known {
			return odd("%s", failingWords(e.Replica))
		}
	case dev.Ready:
		if n := e.Replica.Restarts; n > 1 {
			return good("%s is ready again, after %d restarts", e.Replica.Name, n)
		}
		return good("%s is ready again", e.Replica.Name)
	case dev.Restarted:
		return plain("%s restarted by another command", isOrAre(e.Agents, "was", "were"))
	case dev.Stopped:
		if e.Outcome == dev.Elsewhere {
			return plain("the stack was stopped by another command")
		}
	case dev.Paused:
		if !e.Known {
			return odd("%s", pausedWords(e))
		}
	}
	return nil
}

// isOrAre are names with a verb that agrees with how many they are.
func isOrAre(names []string, one, many string) string {
	verb := one
	if len(names) > 1 {
		verb = many
	}
	return listed(names, 3) + " " + verb
}

// savedWords are "a.go, b.go changed; c.go is new; d.go was removed".
func savedWords(e dev.Event) string {
	const few = 3
	changed := slices.DeleteFunc(slices.Clone(e.Paths), func(p string) bool { return slices.Contains(e.New, p) || slices.Contains(e.Removed, p) })
	var words []string
	if len(changed) > 0 {
		words = append(words, listed(changed, few)+" changed")
	}
	if len(e.New) > 0 {
		words = append(words, listed(e.New, few)+map[bool]string{true: " is new", false: " are new"}[len(e.New) == 1])
	}
	if len(e.Removed) > 0 {
		words = append(words, listed(e.Removed, few)+map[bool]string{true: " was removed", false: " were removed"}[len(e.Removed) == 1])
	}
	return strings.Join(words, "; ")
}

// reloadingLines say what is done, and why where that is not plain.
func reloadingLines(e dev.Event) (lines []said) {
	if e.Reload == 0 && e.Paths == nil {
		return nil // the steps tell
	}
	if len(e.Paths) > 0 {
		lines = plain("%s", savedWords(e))
	}
	type reason struct{ do, cause string }
	objects, order := map[reason][]string{}, []reason{}
	for _, s := range e.Steps {
		because := reason{cause: s.Cause}
		switch s.Do {
		case runtime.Start:
			because.do = "replace "
			if s.Generation <= 1 {
				because.do = "start "
			}
			if s.Cause == "its code changed" {
				continue
			}
		case runtime.SwapGateway, runtime.StopGateway:
			because.do = "move the gateway"
			if s.Do == runtime.SwapGateway && !strings.HasPrefix(s.Cause, "the gateway moves") {
				because.do = "replace the gateway"
			}
		case runtime.StartService, runtime.StopService:
			because.do = string(s.Do) + " "
		default:
			continue
		}
		if _, known := objects[because]; !known {
			order = append(order, because)
		}
		if name := s.Agent + s.Service; !slices.Contains(objects[because], name) {
			objects[because] = append(objects[because], name)
		}
	}
	gateway := slices.IndexFunc(order, func(r reason) bool { return r.do == "move the gateway" })
	for _, because := range order {
		switch {
		case gateway >= 0 && because == order[gateway]:
			lines = append(lines, plain("%s", because.cause)...)
			continue
		case gateway >= 0 && because.cause == order[gateway].cause: // agents that go with it
			continue
		}
		why := ": " + because.cause
		if because.cause == "it does not run" {
			why = "" // it is started, and so much is plain
		}
		lines = append(lines, plain("%s%s%s", because.do, listed(objects[because], 3), why)...)
	}
	return lines
}

func reloadedLines(e dev.Event, mended bool) []said {
	if e.Reload == 0 {
		return nil
	}
	if e.Unsettled {
		return good("reload %d done, after %s; files changed meanwhile, and reload %d follows", e.Reload, console.Span(e.Spans.Total()), e.Reload+1)
	}
	agents := slices.Compact(slices.Sorted(slices.Values(e.Agents)))
	if len(agents) == 0 {
		agents = []string{"the stack"}
	}
	again := ""
	if mended {
		again = "mended; "
	}
	lines := good("reload %d: %s%s what is on disk, after %s", e.Reload, again, isOrAre(agents, "runs", "run"), console.Span(e.Spans.Total()))
	if len(e.Left) > 0 {
		lines = append(lines, plain("%s no longer in flisk.yaml: turns in flight are finished, then it stops", isOrAre(e.Left, "is", "are"))...)
	}
	return lines
}

// drainedLines are told of drains that somebody could have waited for, and of
// those that did not go well.
func drainedLines(e dev.Event) (lines []said) {
	const noticed = time.Second
	if e.Err != nil {
		return odd("the end of an old generation of %s: %s", strings.Join(e.Agents, ", "), console.Line(asFault(e.Err).Message))
	}
	for _, c := range e.Replaced {
		switch {
		case c.Exit != (runtime.Exit{}):
			lines = append(lines, odd("the old %s ended with %s", c.Replica, c.Exit)...)
		case e.Took >= noticed:
			lines = append(lines, quiet("the old %s has finished its turns, after %s", c.Replica, console.Span(e.Took))...)
		}
	}
	return lines
}

// pausedWords say why a change waits, and how to end that for good.
func pausedWords(e dev.Event) string {
	verb, one := "changes", "it is"
	if len(e.Paths) > 1 {
		verb, one = "change", "they are"
	}
	return fmt.Sprintf("%s %s after every reload, as if the agent wrote that: from now on %s reloaded at most every %s, or with what else is saved; if it is no code: watch: {ignore: [%s]} in flisk.yaml",
		listed(e.Paths, 3), verb, one, console.Span(e.Most), strings.Join(e.Paths[:min(len(e.Paths), 3)], ", "))
}

// failingWords say what became of a replica that was fine.
func failingWords(r runtime.Replica) string {
	ended := r.Name + " ended"
	if r.Exit != nil {
		ended += " (" + r.Exit.String() + ")"
	}
	switch {
	case !r.Stopped.IsZero():
		return ended + "; the engine does not start it again"
	case r.State == runtime.Ready:
		return ended + ", and was started again"
	case hasEnded(r):
		return ended + "; it is started again"
	}
	return r.Name + " is not ready"
}

// hasEnded reports whether that is why a replica is not ready.
func hasEnded(r runtime.Replica) bool {
	return r.State == runtime.Failing || r.State == runtime.Starting && (r.Exit != nil || r.Restarts > 0)
}

// spanParts are the parts of a reload that took as long as somebody may notice.
func spanParts(s dev.Spans) (parts []string) {
	const noticed = 10 * time.Millisecond
	for _, p := range []struct {
		name string
		took time.Duration
	}{{"detect", s.Detect}, {"wait", s.Wait}, {"plan", s.Plan}, {"build", s.Build}, {"start", s.Start}, {"switch", s.Switch}} {
		if p.took >= noticed {
			parts = append(parts, p.name+" "+console.Span(p.took))
		}
	}
	return parts
}

// listed names the first few of many.
func listed(names []string, few int) string {
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}
