package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/turn"
)

// What is kept of the logs of containers that are removed: the engine forgets a
// log with its container, and why an agent ended is asked afterwards.
const (
	keptLines = 2000      // the last ones of each container
	keptBytes = 512 << 10 // of each container
	keptLogs  = 16        // of each agent, the newest
)

// stampLayout is fixed width and always UTC, so that names and lines sort as text.
const stampLayout = "2006-01-02T15:04:05.000000000Z"

// keptSuffix ends the name of a file with what one container wrote: lines of
// "time replica text".
const keptSuffix = ".log"

// remove removes a container that does not run. What an agent's wrote is kept;
// where that fails, it is said, and removed nevertheless.
func (d *Driver) remove(ctx context.Context, e *engine, c seen) error {
	if c.Agent != "" {
		if err := d.keepLog(ctx, e, c); err != nil {
			d.warn(fmt.Sprintf("the last lines of %s are lost with its container: %v", c.Replica, err))
		}
	}
	return e.removeContainer(ctx, c.ID)
}

// keepLog may be done again for the same container.
func (d *Driver) keepLog(ctx context.Context, e *engine, c seen) error {
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	var out bytes.Buffer
	err := e.logs(ctx, c.ID, logOptions{tail: keptLines}, func(l logLine) error {
		fmt.Fprintf(&out, "%s %s %s\n", l.time.UTC().Format(stampLayout), c.Replica, l.text)
		return nil
	})
	if errors.Is(err, errNotFound) || err == nil && out.Len() == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	content := out.Bytes()
	if over := len(content) - keptBytes; over > 0 {
		_, content, _ = bytes.Cut(content[over:], []byte("\n")) // the first is not whole
	}
	dir := d.place.keptLogs(c.Agent)
	if err := os.MkdirAll(dir, userOnly); err != nil {
		return err
	}
	made, _ := time.Parse(time.RFC3339Nano, c.Created) // the engine wrote it
	name := made.UTC().Format(stampLayout) + "-" + c.ID + keptSuffix
	if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
		return err
	}
	files, err := os.ReadDir(dir) // by name: the oldest first
	for i := range max(0, len(files)-keptLogs) {
		if gone := os.Remove(filepath.Join(dir, files[i].Name())); !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

// keptAgents are the agents of which something is kept.
func (p place) keptAgents() ([]string, error) {
	entries, err := os.ReadDir(p.logs)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() && turn.ValidAgent(entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// keptLines are the lines of an agent's containers that are gone, the oldest
// container first. Those of one that is there, known by its id, are left out: it
// has them itself.
func (p place) keptLines(agent string, there func(id string) bool) ([]runtime.Line, error) {
	files, err := os.ReadDir(p.keptLogs(agent))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var lines []runtime.Line
	for _, file := range files {
		name, ok := strings.CutSuffix(file.Name(), keptSuffix)
		if !ok || there(name[strings.LastIndex(name, "-")+1:]) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(p.keptLogs(agent), file.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was one too many just now
		}
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(content)) {
			lines = append(lines, parseKept(strings.TrimSuffix(line, "\n")))
		}
	}
	return lines, nil
}

// parseKept reads what keepLog wrote. Anything else, such as the rest of a line
// that a full disk cut, is a line without time and replica.
func parseKept(s string) runtime.Line {
	stamp, rest, ok := strings.Cut(s, " ")
	if at, err := time.Parse(stampLayout, stamp); ok && err == nil {
		replica, text, _ := strings.Cut(rest, " ")
		return runtime.Line{Time: at, Replica: replica, Text: text}
	}
	return runtime.Line{Text: s}
}

// past is all that is kept of the logs of an agent, of all when it is "", in the
// order of time; latest is the time of the last line of each container that is
// there.
func (d *Driver) past(ctx context.Context, l look, o runtime.LogOptions) (past []runtime.Line, latest map[string]time.Time, err error) {
	agents := []string{o.Agent}
	if o.Agent == "" {
		if agents, err = d.place.keptAgents(); err != nil {
			return nil, nil, err
		}
	}
	for _, agent := range agents {
		lines, err := d.place.keptLines(agent, func(id string) bool {
			return slices.ContainsFunc(l.agents, func(c seen) bool { return c.ID == id })
		})
		if err != nil {
			return nil, nil, err
		}
		past = append(past, lines...)
	}
	latest = map[string]time.Time{}
	for _, c := range l.ofAgent(o.Agent) {
		err := l.e.logs(ctx, c.ID, logOptions{tail: o.Tail}, func(line logLine) error {
			past = append(past, runtime.Line{Time: line.time, Replica: c.Replica, Text: line.text})
			latest[c.ID] = line.time
			return nil
		})
		if err != nil && !errors.Is(err, errNotFound) {
			return nil, nil, err
		}
	}
	slices.SortStableFunc(past, func(a, b runtime.Line) int { return a.Time.Compare(b.Time) })
	if o.Tail >= 0 && len(past) > o.Tail {
		past = past[len(past)-o.Tail:]
	}
	return past, latest, nil
}
