package process

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/flisk-go/flisk/pkg/runtime"
)

const (
	maxLogFile = 8 << 20  // bytes of one log file; one predecessor is kept besides
	maxLogLine = 16 << 10 // bytes of one line; what is longer is cut into several
)

// stampLayout is fixed width and always UTC, so that lines sort as text.
const stampLayout = "2006-01-02T15:04:05.000000Z"

// logFile is the bounded log of one agent: lines of "time replica text". When
// it is full it becomes path.1, and what was path.1 is gone. It has one writing
// process, the supervisor; its methods may be called at once.
type logFile struct {
	path string
	max  int64
	now  func() time.Time

	mu   sync.Mutex
	f    *os.File
	size int64
}

func openLog(path string, max int64) (*logFile, error) {
	if err := os.MkdirAll(filepath.Dir(path), userOnly); err != nil {
		return nil, err
	}
	l := &logFile{path: path, max: max, now: time.Now}
	return l, l.open()
}

func (l *logFile) open() error {
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.f, l.size = f, info.Size()
	return nil
}

// write appends one line in one system call. A log that cannot be written must
// not stop an agent, so an error loses the line and nothing else.
func (l *logFile) write(replica, text string) error {
	line := []byte(l.now().UTC().Format(stampLayout) + " " + replica + " " + text + "\n")
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > 0 && l.size+int64(len(line)) > l.max {
		if err := l.rotate(); err != nil {
			return err
		}
	}
	n, err := l.f.Write(line)
	l.size += int64(n)
	return err
}

// rotate begins a new file. There may be nothing to rename: an earlier rotation
// came that far, and could not make the new file.
func (l *logFile) rotate() error {
	if err := os.Rename(l.path, l.path+".1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	old := l.f
	if err := l.open(); err != nil {
		return err
	}
	return old.Close()
}

func (l *logFile) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.f.Close()
}

// copyLines calls emit for each line of r until it ends. Memory is bounded: a
// line without an end is cut into pieces.
func copyLines(r io.Reader, emit func(string)) {
	in := bufio.NewReaderSize(r, maxLogLine)
	for {
		piece, err := in.ReadSlice('\n')
		if len(piece) > 0 {
			emit(strings.TrimRight(string(piece), "\r\n"))
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// parseLine reads what write wrote. Anything else, such as the rest of a line
// that a full disk cut, is a line without time and replica.
func parseLine(s string) runtime.Line {
	stamp, rest, ok := strings.Cut(s, " ")
	if at, err := time.Parse(stampLayout, stamp); ok && err == nil {
		replica, text, _ := strings.Cut(rest, " ")
		return runtime.Line{Time: at, Replica: replica, Text: text}
	}
	return runtime.Line{Text: s}
}
