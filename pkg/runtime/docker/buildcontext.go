package docker

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

// neverSent are names that stay on this machine at any depth, whatever a
// .dockerignore says: secrets, and what only costs time.
var neverSent = []string{".env", ".git", ".venv", "node_modules"}

// largeContext is where a build says that something may have been forgotten in
// .dockerignore, in bytes.
const largeContext = 50e6

// buildContext is what a build sends to the engine.
type buildContext struct {
	dir   string
	files []contextFile
	bytes int64

	mu     sync.Mutex
	failed error // why the stream broke off
}

type contextFile struct {
	name string // relative, with slashes
	info fs.FileInfo
}

// collectContext lists what a build may see: everything in dir that neither
// .dockerignore (or <dockerfile>.dockerignore) nor neverSent keeps back. The
// Dockerfile itself is always in it. Ignored directories are not entered unless
// a "!" pattern reaches into them.
func collectContext(dir, dockerfile string) (*buildContext, error) {
	dockerfile = path.Clean(filepath.ToSlash(dockerfile))
	if !filepath.IsLocal(filepath.FromSlash(dockerfile)) {
		return nil, fmt.Errorf("the Dockerfile %q is not in the directory %q", dockerfile, dir)
	}
	if info, err := os.Stat(filepath.Join(dir, dockerfile)); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("the Dockerfile %q is not a file", dockerfile)
	}
	ignored, err := readIgnore(dir, dockerfile)
	if err != nil {
		return nil, err
	}
	c := &buildContext{dir: dir}
	parents := map[string]patternmatcher.MatchInfo{}
	err = filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, file)
		if err != nil || rel == "." {
			return err
		}
		name := filepath.ToSlash(rel)
		if slices.Contains(neverSent, d.Name()) {
			return skip(d)
		}
		matched, info, err := ignored.MatchesUsingParentResults(name, parents[path.Dir(name)])
		if err != nil {
			return err
		}
		if d.IsDir() {
			parents[name] = info
		}
		if matched && name != dockerfile && !(d.IsDir() && leadsTo(dockerfile, name)) {
			if d.IsDir() && mayHoldException(ignored, name) {
				return nil // looked into, and made by the engine if something in it is sent
			}
			return skip(d)
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		switch fi.Mode().Type() {
		case 0:
			c.bytes += fi.Size()
		case fs.ModeDir, fs.ModeSymlink:
		default:
			return nil // sockets and devices have no place in an image
		}
		if d.IsDir() && matched {
			return nil
		}
		c.files = append(c.files, contextFile{name, fi})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

func skip(d fs.DirEntry) error {
	if d.IsDir() {
		return fs.SkipDir
	}
	return nil
}

func leadsTo(file, dir string) bool { return strings.HasPrefix(file, dir+"/") }

// mayHoldException reports whether a "!" pattern could match below dir.
func mayHoldException(m *patternmatcher.PatternMatcher, dir string) bool {
	if !m.Exclusions() {
		return false
	}
	for _, p := range m.Patterns() {
		if !p.Exclusion() {
			continue
		}
		// A pattern with wildcards may begin anywhere.
		fixed, _, wild := strings.Cut(filepath.ToSlash(p.String()), "*")
		if strings.HasPrefix(fixed+"/", dir+"/") || wild && strings.HasPrefix(dir+"/", fixed) {
			return true
		}
	}
	return false
}

// readIgnore reads the ignore file of a Dockerfile.
func readIgnore(dir, dockerfile string) (*patternmatcher.PatternMatcher, error) {
	for _, name := range []string{dockerfile + ".dockerignore", ".dockerignore"} {
		f, err := os.Open(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		patterns, err := ignorefile.ReadAll(f)
		_ = f.Close() // it was only read
		if err != nil {
			return nil, fmt.Errorf("%q: %w", name, err)
		}
		m, err := patternmatcher.New(patterns)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", name, err)
		}
		return m, nil
	}
	return patternmatcher.New(nil)
}

// announce tells how much is sent.
func (c *buildContext) announce(w io.Writer) error {
	text := fmt.Sprintf("sending %s (%d files) to the engine\n", size(c.bytes), len(c.files))
	if c.bytes > largeContext {
		text += fmt.Sprintf("warning: that is more than %s: name in .dockerignore what the image does not need\n", size(largeContext))
	}
	_, err := io.WriteString(w, text)
	return err
}

// stream is the context as a tar stream. stop ends it and waits until nothing
// reads the files any more.
func (c *buildContext) stream() (body io.Reader, stop func()) {
	r, w := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := c.write(w)
		c.mu.Lock()
		if !errors.Is(err, io.ErrClosedPipe) { // the reader left: the engine had its reasons
			c.failed = err
		}
		c.mu.Unlock()
		_ = w.CloseWithError(err) // never fails
	}()
	return r, func() {
		_ = r.Close() // never fails
		<-done
	}
}

// err is why the stream broke off, nil when it did not.
func (c *buildContext) err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

func (c *buildContext) write(out io.Writer) error {
	w := tar.NewWriter(out)
	for _, f := range c.files {
		if err := c.add(w, f); err != nil {
			return err
		}
	}
	return w.Close()
}

// add writes one file, owned by root: who owns it here means nothing there.
func (c *buildContext) add(w *tar.Writer, f contextFile) error {
	file := filepath.Join(c.dir, filepath.FromSlash(f.name))
	link := ""
	if f.info.Mode().Type() == fs.ModeSymlink {
		var err error
		if link, err = os.Readlink(file); err != nil {
			return err
		}
	}
	header, err := tar.FileInfoHeader(f.info, link)
	if err != nil {
		return err
	}
	header.Name = f.name
	if f.info.IsDir() {
		header.Name += "/"
	}
	header.Uid, header.Gid, header.Uname, header.Gname = 0, 0, "", ""
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	if !f.info.Mode().IsRegular() {
		return nil
	}
	r, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // it is only read
	switch n, err := io.Copy(w, io.LimitReader(r, header.Size)); {
	case err != nil:
		return err
	case n < header.Size:
		return fmt.Errorf("%q became shorter while it was sent", f.name)
	}
	return nil
}
