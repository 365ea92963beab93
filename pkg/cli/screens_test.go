package cli

import (
	"context"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// TestScreensAt80Columns shows every command that prints something on a
// terminal, with colour and without: run.do fails on a line of more than 80
// columns, no JSON is shown that nobody asked for, and without colour there is
// not one escape sequence.
func TestScreensAt80Columns(t *testing.T) {
	t.Parallel()
	two := projectDir(t, true)
	escape := regexp.MustCompile("\x1b\\[[0-9;]*m")
	failing := upDriver(true, true)
	failing.up = func(_ context.Context, p runtime.Progress) (runtime.Report, error) {
		p.Begin("build bot")("", context.Canceled)
		return runtime.Report{}, &fault.Fault{Kind: fault.Failed, Message: `the agent in "` + two + `" does not build`,
			Hint: "correct it and try again; what ran before still runs", Detail: "./turn.go:12:2: undefined: " + strings.Repeat("x", 120)}
	}
	observed := observing(running(time.Now()))
	screens := map[string]struct {
		r    run
		args []string
		code int
	}{
		"init":           {run{}, []string{"init", "DIR"}, 0},
		"version":        {run{}, []string{"version"}, 0},
		"help":           {run{}, []string{"help"}, 0},
		"help up":        {run{}, []string{"up", "--help"}, 0},
		"up":             {run{driver: upDriver(true, true)}, []string{"-C", two, "up"}, 0},
		"up fails":       {run{driver: failing}, []string{"-C", two, "up"}, 1},
		"status":         {run{driver: observed}, []string{"-C", two, "status"}, 0},
		"logs":           {run{driver: logDriver()}, []string{"-C", two, "logs"}, 0},
		"sessions list":  {run{driver: volume(t)}, []string{"-C", two, "sessions", "list"}, 0},
		"sessions show":  {run{driver: volume(t)}, []string{"-C", two, "sessions", "show", "s1", "--agent", "bot"}, 0},
		"no project":     {run{}, []string{"-C", t.TempDir(), "up"}, 2},
		"unknown":        {run{}, []string{"sesions"}, 2},
		"unknown flag":   {run{}, []string{"up", "--jsn"}, 2},
		"no such folder": {run{}, []string{"-C", filepath.Join(two, strings.Repeat("long/", 30)), "up"}, 2},
	}
	for name, s := range screens {
		for _, colour := range []bool{false, true} {
			s.r.terminal, s.r.colour = true, colour
			args := append([]string{}, s.args...)
			for i, arg := range args {
				if arg == "DIR" {
					args[i] = filepath.Join(t.TempDir(), "bot")
				}
			}
			got := s.r.do(t, args...)
			if got.code != s.code {
				t.Errorf("%s: exit code %d, want %d\n%s%s", name, got.code, s.code, got.out, got.err)
			}
			screen := got.out + got.err
			if coloured := escape.MatchString(screen); coloured && !colour {
				t.Errorf("%s: an escape sequence without colour: %q", name, screen)
			} else if !coloured && colour && name != "version" {
				t.Errorf("%s: nothing is coloured: %q", name, screen)
			}
			if strings.Contains(screen, `":`) {
				t.Errorf("%s: JSON that nobody asked for:\n%s", name, screen)
			}
		}
	}
}
