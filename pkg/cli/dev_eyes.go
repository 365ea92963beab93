package cli

import (
	"context"
	"errors"
	"maps"
	"path"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/flisk-go/flisk/pkg/dev"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/source"
	"github.com/flisk-go/flisk/pkg/watch"
)

// eyes watch the files of a project whose flisk.yaml, which says what counts, may
// change. One reload at a time reads; next is not called meanwhile.
type eyes struct {
	poll  bool
	warn  func(error) // of what is odd, once
	alarm func(error) // of what keeps the files from being read, each time that it begins

	project *project.Project // that the watcher goes by
	watcher *watch.Watcher
	seen    *source.Tree // what the last reload read
	lone    lone

	mu      sync.Mutex
	planned map[string]*source.Tree // by agent: what the driver was told of last
}

// open watches a project; in place of what was watched before, which goes on when
// that fails.
func (e *eyes) open(ctx context.Context, p *project.Project) error {
	watcher, err := watch.New(ctx, watch.Options{Project: p, Poll: e.poll, Warn: e.warn})
	if err != nil {
		return err
	}
	tree, err := watcher.Tree(ctx)
	if err != nil {
		return errors.Join(err, watcher.Close())
	}
	before := e.watcher
	e.project, e.watcher, e.seen = p, watcher, tree
	if before != nil {
		return before.Close()
	}
	return nil
}

func (e *eyes) close() error {
	if e.watcher == nil {
		return nil
	}
	return e.watcher.Close()
}

// maxLoads bounds how often settings are loaded again that are saved meanwhile.
const maxLoads = 5

// read loads the project, and reads the files that count by it. It returns both as
// they were at one moment, and what of the files differs from the reading before.
func (e *eyes) read(ctx context.Context, load func() (*project.Project, error)) (p *project.Project, c dev.Change, err error) {
	var files []source.Change
	for range maxLoads {
		tree, err := e.watcher.Tree(ctx)
		if err != nil {
			return nil, dev.Change{}, err
		}
		files = append(files, source.Diff(e.seen, tree)...)
		e.seen = tree
		if p, err = load(); err != nil {
			return nil, dev.Change{}, err
		}
		if reflect.DeepEqual(p, e.project) {
			if name := e.lone.saved(files); name != "" {
				e.warn(writtenByAgent(name))
			}
			return p, changeOf(files), nil
		}
		if err := e.open(ctx, p); err != nil {
			return nil, dev.Change{}, err
		}
		// What only one of the two knows has not changed, but counts from now on, or no
		// more. What load read of the settings may be older than the new watcher's first
		// reading, which is why it has to load again.
		files = append(files, slices.DeleteFunc(source.Diff(tree, e.seen), func(f source.Change) bool { return f.Op != source.Modified })...)
	}
	return nil, dev.Change{}, fault.New(fault.Environment, "what writes them has to rest for a moment", "the project's settings change faster than they can be read")
}

// changeOf sorts files by what became of them.
func changeOf(files []source.Change) (c dev.Change) {
	last := map[string]source.Change{} // of what was read more than once
	for _, f := range files {
		last[f.Path] = f
	}
	for _, name := range slices.Sorted(maps.Keys(last)) {
		f := last[name]
		c.Paths = append(c.Paths, f.Path)
		c.Agents = append(c.Agents, f.Agents...)
		if byHand(f) {
			c.ByHand = append(c.ByHand, f.Path)
		}
		switch f.Op {
		case source.Added:
			c.New = append(c.New, f.Path)
		case source.Removed:
			c.Removed = append(c.Removed, f.Path)
		}
	}
	slices.Sort(c.Agents)
	c.Agents = slices.Compact(c.Agents)
	return c
}

// byHand reports whether a file is one that people write, and agents do not: a
// setting, or what the go command reads.
func byHand(f source.Change) bool {
	switch path.Base(f.Path) {
	case "go.mod", "go.sum", "go.work", "go.work.sum":
		return true
	}
	return f.Kind != source.Code || path.Ext(f.Path) == ".go"
}

// forDriver is how a driver asks for the source: at first it is told what was read,
// so that what differs from that is seen by next; when it has to plan anew, what is
// there then. still is asked when it has built.
func (e *eyes) forDriver(ctx context.Context) (hash func(agent string) (string, error), still func(agent, code string) (bool, error)) {
	ctx = context.WithoutCancel(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.planned = map[string]*source.Tree{}
	hash = func(agent string) (string, error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		tree := e.seen
		if e.planned[agent] != nil {
			var err error
			if tree, err = e.watcher.Tree(ctx); err != nil {
				return "", err
			}
		}
		e.planned[agent] = tree
		return tree.Hash(agent)
	}
	still = func(agent, code string) (bool, error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		now, err := e.watcher.Tree(ctx)
		if err != nil {
			return false, err
		}
		hash, err := now.Hash(agent)
		return err == nil && hash == code && now.Rested(e.planned[agent], agent), err
	}
	return hash, still
}

// fresh implements dev.Stack.
func (e *eyes) fresh() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for agent, tree := range e.planned {
		planned, err := tree.Hash(agent)
		read, err2 := e.seen.Hash(agent)
		if errors.Join(err, err2) != nil || planned != read {
			return false
		}
	}
	return true
}

// next implements dev.Options.
func (e *eyes) next(ctx context.Context, until dev.Until) (dev.Change, error) {
	wait, diff := e.watcher.Next, source.Diff
	if until.Touched {
		wait, diff = e.watcher.NextTouch, source.Touched
	}
	for base := e.seen; ; {
		c, err := wait(ctx, base)
		switch {
		case ctx.Err() != nil || errors.Is(err, watch.ErrClosed):
			return dev.Change{}, err
		case err != nil: // told once for as long as it lasts, and waited out
			e.alarm(err)
			continue
		}
		files := diff(e.seen, c.Tree)
		if until.But != nil && !slices.ContainsFunc(files, func(f source.Change) bool { return !until.But(f.Path) }) {
			base = c.Tree
			continue
		}
		change := changeOf(files)
		change.First, change.Told = c.First, time.Now()
		return change, nil
	}
}
