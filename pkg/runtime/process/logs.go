package process

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// How long a follow waits between two looks: the less is written, the longer. At
// the pace of a busy log, a silent one would be half of what an idle flisk dev
// costs.
const (
	followBusy   = 100 * time.Millisecond
	followSilent = 500 * time.Millisecond
)

// Logs reads the log files, so it works whether anything runs or not. Several
// agents' lines are merged by time for the tail, and come as they are written
// afterwards. It returns nil when a follow ends with the context.
func (d *Driver) Logs(ctx context.Context, o runtime.LogOptions, emit func(runtime.Line) error) error {
	tails, err := d.openTails(o.Agent)
	if err != nil {
		return err
	}
	defer func() {
		for _, t := range tails {
			t.close()
		}
	}()
	var pasts [][]runtime.Line
	for _, t := range tails {
		lines, err := t.past()
		if err != nil {
			return err
		}
		pasts = append(pasts, lines)
	}
	past := mergeByTime(pasts)
	if o.Tail >= 0 && len(past) > o.Tail {
		past = past[len(past)-o.Tail:]
	}
	for _, line := range past {
		if err := emit(line); err != nil {
			return err
		}
	}
	if !o.Follow {
		return nil
	}
	pause := followBusy
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		silent := true
		for _, t := range tails {
			if err := t.more(func(l runtime.Line) error { silent = false; return emit(l) }); err != nil {
				return err
			}
		}
		if pause = min(pause+pause/10, followSilent); !silent {
			pause = followBusy
		}
		timer.Reset(pause)
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
	}
}

// mergeByTime keeps the lines of one log in their order, whatever their times
// say: a clock may be set back, and what is left of a cut line has none.
func mergeByTime(logs [][]runtime.Line) []runtime.Line {
	type dated struct {
		at time.Time
		runtime.Line
	}
	var all []dated
	for _, lines := range logs {
		latest := time.Time{}
		for _, line := range lines {
			if line.Time.After(latest) {
				latest = line.Time
			}
			all = append(all, dated{latest, line})
		}
	}
	slices.SortStableFunc(all, func(a, b dated) int { return a.at.Compare(b.at) })
	merged := make([]runtime.Line, len(all))
	for i, d := range all {
		merged[i] = d.Line
	}
	return merged
}

func (d *Driver) openTails(agent string) ([]*tail, error) {
	var names []string
	for _, a := range d.o.Stack.Agents {
		names = append(names, a.Name)
	}
	if len(names) == 0 { // flisk.yaml could not be read so far
		var err error
		if names, err = d.place.loggedAgents(); err != nil {
			return nil, err
		}
	}
	var tails []*tail
	for _, name := range names {
		if agent == "" || agent == name {
			tails = append(tails, &tail{path: d.place.agentLog(name)})
		}
	}
	if len(tails) == 0 && agent != "" {
		return nil, fault.New(fault.Usage, "see flisk status for the names", "the project has no agent %q", agent)
	}
	return tails, nil
}

// tail reads one agent's log to its end, and then what is appended, across
// rotations: a file that was renamed away is read to its end before its
// successor is opened.
type tail struct {
	path string
	f    *os.File
	in   *bufio.Reader
	part []byte // a line that is not whole yet
}

func (t *tail) close() {
	if t.f != nil {
		_ = t.f.Close() // only read
	}
}

// past returns everything that is kept, and leaves the tail at its end.
func (t *tail) past() ([]runtime.Line, error) {
	var lines []runtime.Line
	collect := func(l runtime.Line) error { lines = append(lines, l); return nil }
	// The present file is opened first: should it be rotated meanwhile, it is
	// found again as its own predecessor, and not missed.
	if err := t.open(); err != nil {
		return nil, err
	}
	old, err := os.Open(t.path + ".1")
	switch {
	case err == nil:
		before := &tail{f: old, in: bufio.NewReader(old)}
		if !sameFile(old, t.f) {
			err = before.drain(collect)
		}
		before.close()
		if err != nil {
			return nil, err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	return lines, t.more(collect)
}

func sameFile(a, b *os.File) bool {
	if b == nil {
		return false
	}
	first, err1 := a.Stat()
	second, err2 := b.Stat()
	return err1 == nil && err2 == nil && os.SameFile(first, second)
}

// open opens the present file, unless it is open. That there is none is not an
// error: nothing was written yet, or it is just being rotated.
func (t *tail) open() error {
	if t.f != nil {
		return nil
	}
	f, err := os.Open(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	t.f, t.in = f, bufio.NewReader(f)
	return nil
}

// more emits the lines that were added since the last call.
func (t *tail) more(emit func(runtime.Line) error) error {
	for {
		if err := t.open(); err != nil || t.f == nil {
			return err
		}
		// Look at the name first: what is added between a last read and a
		// rotation would be missed the other way round.
		rotated, err := t.rotated()
		if err != nil {
			return err
		}
		if err := t.drain(emit); err != nil {
			return err
		}
		if !rotated {
			return nil
		}
		t.close()
		t.f = nil
	}
}

func (t *tail) rotated() (bool, error) {
	mine, err := t.f.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Stat(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return err == nil && !os.SameFile(mine, there), err
}

// drain reads to the present end of the open file.
func (t *tail) drain(emit func(runtime.Line) error) error {
	for {
		piece, err := t.in.ReadBytes('\n')
		t.part = append(t.part, piece...)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		line := parseLine(strings.TrimSuffix(string(t.part), "\n"))
		t.part = t.part[:0]
		if err := emit(line); err != nil {
			return err
		}
	}
}
