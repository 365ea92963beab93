package docker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/docker/docker/api/types/container"
)

// logOptions select what a container wrote.
type logOptions struct {
	tail   int // the last lines; negative is all that is kept
	follow bool
	since  time.Time // zero is the beginning
}

// logLine is one line of a container's output.
type logLine struct {
	time   time.Time
	stderr bool
	text   string // as written, without the line's end
}

// maxLogLine bounds one line: a longer one is handed on in pieces.
const maxLogLine = 1 << 20

// engineTime is a time as the engine reads one of its options: seconds, and nine
// digits of their parts.
func engineTime(t time.Time) string { return fmt.Sprintf("%d.%09d", t.Unix(), t.Nanosecond()) }

// logs hands on the lines that a container wrote, in the order of the engine.
// With follow it goes on until the container ends or ctx does, and the end of
// ctx is its error. An error of emit ends it and is returned as it is.
func (e *engine) logs(ctx context.Context, id string, o logOptions, emit func(logLine) error) error {
	what := "read the logs of the container " + e.called(id)
	c, err := e.inspectContainer(ctx, id)
	if err != nil {
		return err
	}
	options := container.LogsOptions{ShowStdout: true, ShowStderr: true, Timestamps: true, Follow: o.follow, Tail: "all"}
	if o.tail >= 0 {
		options.Tail = strconv.Itoa(o.tail)
	}
	if !o.since.IsZero() {
		options.Since = engineTime(o.since)
	}
	body, err := e.api.ContainerLogs(ctx, id, options)
	if err != nil {
		return e.failed(what, err)
	}
	defer func() { _ = body.Close() }() // it is only read
	lines := logLines{emit: emit}
	if c.Config.Tty {
		err = lines.raw(body)
	} else {
		err = frames(body, lines.frame)
	}
	if err == nil {
		err = lines.flush()
	}
	if stopped, ok := errors.AsType[stopped](err); ok {
		return stopped.err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return e.failed(what, err)
	}
	return nil
}

// stopped is an error of the one who takes the lines.
type stopped struct{ err error }

func (s stopped) Error() string { return s.err.Error() }

// logLines puts lines together. The engine cuts a long line into frames, each
// with a time of its own in front.
type logLines struct {
	emit    func(logLine) error
	pending [2]logLine // by stream; a line that has not ended
	open    [2]bool
}

func (l *logLines) frame(stderr bool, data []byte) error {
	i := 0
	if stderr {
		i = 1
	}
	for len(data) > 0 {
		piece, ended := data, false
		if n := bytes.IndexByte(data, '\n'); n >= 0 {
			piece, ended = data[:n], true
			data = data[n+1:]
		} else {
			data = nil
		}
		at, text := splitTime(piece)
		if !l.open[i] {
			l.pending[i], l.open[i] = logLine{time: at, stderr: stderr}, true
		}
		l.pending[i].text += text
		if ended || len(l.pending[i].text) >= maxLogLine {
			if err := l.end(i); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *logLines) end(i int) error {
	line := l.pending[i]
	l.pending[i], l.open[i] = logLine{}, false
	if err := l.emit(line); err != nil {
		return stopped{err}
	}
	return nil
}

func (l *logLines) flush() error {
	for i, open := range l.open {
		if open {
			if err := l.end(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// raw reads the output of a container with a terminal: lines, no frames.
func (l *logLines) raw(r io.Reader) error {
	for buffered := bufio.NewReader(r); ; {
		piece, err := buffered.ReadSlice('\n')
		if text, ended := bytes.CutSuffix(piece, []byte("\r\n")); ended {
			piece = append(text, '\n')
		}
		if err := l.frame(false, piece); err != nil {
			return err
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

// splitTime takes the engine's time off; a piece without one is text.
func splitTime(piece []byte) (time.Time, string) {
	stamp, text, _ := bytes.Cut(piece, []byte(" "))
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	if err != nil {
		return time.Time{}, string(piece)
	}
	return at, string(text)
}

// maxFrame bounds one frame: an engine sends 16 KiB and a time.
const maxFrame = 16 << 20

// frames takes the engine's multiplexed stream apart: a header of 8 bytes (which
// stream, how long), then the data. The data is valid during the call only.
func frames(r io.Reader, take func(stderr bool, data []byte) error) error {
	buffered := bufio.NewReader(r)
	var header [8]byte
	var data []byte
	for {
		switch _, err := io.ReadFull(buffered, header[:]); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		size := binary.BigEndian.Uint32(header[4:])
		if header[0] > 3 || size > maxFrame {
			return errors.New("the engine's stream is not multiplexed as it should be")
		}
		if uint32(cap(data)) < size {
			data = make([]byte, size)
		}
		data = data[:size]
		if _, err := io.ReadFull(buffered, data); err != nil {
			return err
		}
		if header[0] == 3 { // the engine's own trouble, in the middle of the stream
			return errors.New(string(bytes.TrimSpace(data)))
		}
		if err := take(header[0] == 2, data); err != nil {
			return err
		}
	}
}

// execResult is what a command in a container came to.
type execResult struct {
	code   int
	output string // both streams, as they came
}

// maxExecOutput bounds what is kept of a command's output.
const maxExecOutput = 1 << 20

// exec runs a command in a running container and waits for its end. A command
// that fails is no error: its code says so.
func (e *engine) exec(ctx context.Context, id string, command []string) (execResult, error) {
	what := fmt.Sprintf("run %q in the container %s", command[0], e.called(id))
	made, err := e.api.ContainerExecCreate(ctx, id, container.ExecOptions{Cmd: command, AttachStdout: true, AttachStderr: true})
	if err != nil {
		return execResult{}, e.failed(what, err)
	}
	conn, err := e.api.ContainerExecAttach(ctx, made.ID, container.ExecAttachOptions{})
	if err != nil {
		return execResult{}, e.failed(what, err)
	}
	// The connection is not the client's any more: nothing else ends it.
	defer context.AfterFunc(ctx, conn.Close)()
	defer conn.Close()
	var output bytes.Buffer
	err = frames(conn.Reader, func(_ bool, data []byte) error {
		output.Write(data[:min(len(data), maxExecOutput-output.Len())])
		return nil
	})
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return execResult{}, e.failed(what, err)
	}
	code, err := e.execCode(ctx, made.ID)
	if err != nil {
		return execResult{}, e.failed(what, err)
	}
	return execResult{code, output.String()}, nil
}

// execCode waits for the exit code: the output may end a moment before it is
// known.
func (e *engine) execCode(ctx context.Context, id string) (int, error) {
	ctx, cancel := lookContext(ctx)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		state, err := e.api.ContainerExecInspect(ctx, id)
		if err != nil {
			return 0, err
		}
		if !state.Running {
			return state.ExitCode, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// getArchive reads a file or a directory of a container, also of one that never
// ran, as a tar stream. The caller closes it; ctx ends it.
func (e *engine) getArchive(ctx context.Context, id, path string) (io.ReadCloser, error) {
	body, _, err := e.api.CopyFromContainer(ctx, id, path)
	if err != nil {
		return nil, e.failed(fmt.Sprintf("read %q in the container %s", path, e.called(id)), err)
	}
	return body, nil
}

// putArchive unpacks a tar stream in a directory of a container, which must
// exist. The files belong to whom the stream says: the engine's "CopyUIDGID" is
// about the container's user instead, and needs a passwd file with its name.
func (e *engine) putArchive(ctx context.Context, id, dir string, archive io.Reader) error {
	err := e.api.CopyToContainer(ctx, id, dir, archive, container.CopyToContainerOptions{})
	if err != nil {
		return e.failed(fmt.Sprintf("write to %q in the container %s", dir, e.called(id)), err)
	}
	return nil
}
