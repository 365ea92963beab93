package source

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// Kind says what a file is to a project.
type Kind int

// The kinds. A change of a file of any kind but Code changes how an agent is
// run or built, and is for whoever brings the project up to decide about.
const (
	Code     Kind = iota // of an agent: what it can be built from
	Settings             // flisk.yaml
	EnvFile              // an agent's env file
	Override             // Compose's override file
	Image                // a Dockerfile or an ignore file of one; counts as code, too, unless it is ignored
)

func (k Kind) String() string {
	return [...]string{"code", "settings", "env file", "override", "image"}[k]
}

// File is a file that counts, as it was when it was read.
type File struct {
	Kind Kind
	Size int64  // bytes; of a link to anything but a file 0
	Exec bool   // somebody may execute it
	Link string // where a symbolic link points; "" for any other file

	sum    [sha256.Size]byte // of the content; zero for a link to anything but a file
	code   bool              // it has a part in the hash of agents
	embeds []embed
	needs  []string // import paths
	stamp  stamp
	steady bool // nothing can have written to it under this stamp after it was read
}

// Same reports whether two files have the same content, or links the same
// target: times and permissions aside.
func (f File) Same(other File) bool {
	return f.sum == other.sum && f.Link == other.Link && f.Size == other.Size
}

// line is what a file adds to an agent's hash. No two trees write the same lines.
func (f File) line(rel string) string {
	return fmt.Sprintf("%q %t %q %x\n", rel, f.Exec, f.Link, f.sum)
}

// stamp tells whether a file can have changed. The inode and the time of the
// last change of either content or status are in it because programs set the
// time of modification as they like.
type stamp struct {
	size              int64
	mode              fs.FileMode
	device, inode     uint64
	modified, changed time.Time
}

func (s stamp) equal(other stamp) bool {
	return s.size == other.size && s.mode == other.mode && s.device == other.device && s.inode == other.inode &&
		s.modified.Equal(other.modified) && s.changed.Equal(other.changed)
}

// unsteady is how long a stamp may stay the same over a second write: the
// coarsest clock of a file system in use has steps of two seconds.
const unsteady = 2 * time.Second

var errNotAFile = errors.New("neither a file nor a link")

// readFile reads one file, or takes what is known of it when its stamp shows
// that nothing has changed. A link to a file counts with what it leads to, as it
// does for a build. What is no file and no link is errNotAFile: a pipe is not opened, and
// a running agent's socket is nothing that it is built from.
func readFile(ctx context.Context, full, dir string, known File, isKnown bool) (File, error) {
	info, err := os.Lstat(full)
	if err != nil {
		return File{}, err
	}
	f := File{}
	if info.Mode()&fs.ModeSymlink != 0 {
		if f.Link, err = os.Readlink(full); err != nil {
			return File{}, err
		}
		if info, err = os.Stat(full); err != nil || !info.Mode().IsRegular() {
			return f, nil
		}
	}
	if !info.Mode().IsRegular() {
		return File{}, errNotAFile
	}
	f.stamp = stampOf(info)
	f.Size, f.Exec = info.Size(), info.Mode()&0o111 != 0
	if isKnown && known.steady && known.stamp.equal(f.stamp) && known.Link == f.Link {
		f.sum, f.embeds, f.needs, f.steady = known.sum, known.embeds, known.needs, true
		return f, nil
	}
	began := time.Now()
	f.steady = began.Sub(f.stamp.changed) > unsteady && began.Sub(f.stamp.modified) > unsteady
	err = f.read(ctx, full, dir)
	return f, err
}

func (f *File) read(ctx context.Context, full, dir string) error {
	file, err := os.Open(full)
	if err != nil {
		return err
	}
	defer file.Close()
	sum := sha256.New()
	if isGo(full) {
		content, err := io.ReadAll(file)
		if err != nil {
			return err
		}
		f.Size = int64(len(content))
		f.embeds, f.needs = embedsOf(dir, content), importsOf(content)
		_, _ = sum.Write(content) // a hash never fails
	} else if f.Size, err = io.Copy(sum, cancelled{ctx, file}); err != nil {
		return err
	}
	sum.Sum(f.sum[:0])
	return nil
}

// cancelled ends the reading of a long file with its context.
type cancelled struct {
	ctx  context.Context
	file io.Reader
}

func (c cancelled) Read(b []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.file.Read(b)
}
