package dockertest

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// readTar reads all regular files of a tar stream.
func readTar(r io.Reader) (map[string][]byte, error) {
	files := map[string][]byte{}
	for reader := tar.NewReader(r); ; {
		h, err := reader.Next()
		if errors.Is(err, io.EOF) {
			_, err := io.Copy(io.Discard, r) // what pads the end
			return files, err
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag == tar.TypeReg {
			if files[path.Clean(h.Name)], err = whole(reader, h.Size); err != nil {
				return nil, err
			}
		}
	}
}

// whole reads a file of which the size is known. A buffer that grows is copied again
// and again, and the race detector looks at every byte of a program each time.
func whole(r io.Reader, size int64) ([]byte, error) {
	content := make([]byte, size)
	_, err := io.ReadFull(r, content)
	return content, err
}

// unpack writes directories and regular files of a tar stream below dir.
func unpack(r io.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // only a handle
	for reader := tar.NewReader(r); ; {
		h, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := filepath.FromSlash(strings.TrimPrefix(path.Clean(h.Name), "/"))
		mode := fs.FileMode(h.Mode).Perm()
		switch h.Typeflag {
		case tar.TypeDir:
			err = root.MkdirAll(name, mode|0o700)
		case tar.TypeReg:
			if err = root.MkdirAll(filepath.Dir(name), 0o755); err == nil {
				err = writeFile(root, name, reader, h.Size, mode)
			}
		default:
			err = errors.New("dockertest unpacks files and directories only")
		}
		if err != nil {
			return err
		}
	}
}

// writeProgram writes a program that was built.
func writeProgram(name string, program []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(name, program, 0o755)
}

// writeFile writes what may be a program. No process is started meanwhile: it
// would hold the file open for writing, and the program could not be started.
func writeFile(root *os.Root, name string, r io.Reader, size int64, mode fs.FileMode) error {
	content, err := whole(r, size)
	if err != nil {
		return err
	}
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	f, err := root.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}
