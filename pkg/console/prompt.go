package console

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNoTerminal says that there is nobody to ask: a question needs a terminal to
// be read on and one to be answered from.
var ErrNoTerminal = errors.New("there is no terminal to ask on")

// Confirm asks a question, on stderr, that can be answered with yes or no.
// Anything but a clear yes is a no: an empty line, any other word, the end of
// the input.
//
// Errors: [ErrNoTerminal]; ctx's cause, also while it waits for the answer.
func (s *Streams) Confirm(ctx context.Context, question string) (bool, error) {
	if !s.In.Terminal || !s.Err.Terminal {
		return false, ErrNoTerminal
	}
	text := Fold(Line(question), s.Err.Columns(), "  ")
	if _, err := s.Err.Write([]byte(Strong.Render(text) + Quiet.Render(" [y/N] "))); err != nil {
		return false, err
	}
	in := Patient(ctx, s.In.Reader)
	defer in.Close()
	line, err := readTypedLine(in)
	if err != nil && err != io.EOF {
		return false, err
	}
	if err == io.EOF {
		_, _ = io.WriteString(s.Err, "\n") // nobody typed one
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return true, nil
	}
	return false, nil
}

// readTypedLine reads up to a line break and not a byte behind it: what follows
// is for whoever reads next. Of what no person types it takes the beginning.
func readTypedLine(in io.Reader) (string, error) {
	const limit = 1 << 20
	var line []byte
	for one := make([]byte, 1); len(line) < limit; {
		n, err := in.Read(one)
		if n == 1 && one[0] == '\n' {
			return strings.TrimSuffix(string(line), "\r"), nil
		}
		line = append(line, one[:n]...)
		if err != nil {
			return string(line), err
		}
	}
	return string(line), nil
}

// Patient reads from in, and ends a wait for something to read when ctx does: a
// read of a terminal or a pipe cannot be cancelled. What is no file is read as it
// is. Close does not close in.
//
// The error of a wait that was ended is ctx's cause.
func Patient(ctx context.Context, in io.Reader) *PatientReader {
	r := &PatientReader{ctx: ctx, in: in}
	file, ok := in.(*os.File)
	if !ok {
		return r
	}
	wake, alarm, err := os.Pipe()
	if err != nil {
		return r // out of files: the wait cannot be ended, but the answer can be read
	}
	r.file, r.wake, r.alarm = file, wake, alarm
	r.woken.Add(1)
	r.stop = context.AfterFunc(ctx, func() {
		defer r.woken.Done()
		_, _ = alarm.Write([]byte{0})
	})
	return r
}

// PatientReader is what [Patient] returns. It is for one goroutine.
type PatientReader struct {
	ctx  context.Context
	in   io.Reader
	file *os.File // nil when there is nothing to wait for

	wake, alarm *os.File // a pipe: a byte from alarm ends a wait
	stop        func() bool
	woken       sync.WaitGroup
}

// Close is [io.Closer].
func (r *PatientReader) Close() error {
	if r.file == nil {
		return nil
	}
	if !r.stop() {
		r.woken.Wait()
	}
	return errors.Join(r.wake.Close(), r.alarm.Close())
}

// Read is [io.Reader].
func (r *PatientReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	if r.file != nil {
		if _, err := r.wait(nil); err != nil {
			return 0, err
		}
	}
	return r.in.Read(p)
}

// Within waits at most so long for something to read, the end of the file among
// it, and reports whether there is. Of what is no file it says so without a wait.
//
// Errors: ctx's cause.
func (r *PatientReader) Within(limit time.Duration) (bool, error) {
	if r.ctx.Err() != nil {
		return false, context.Cause(r.ctx)
	}
	if r.file == nil {
		return true, nil
	}
	return r.wait(new(time.Now().Add(limit)))
}

// wait returns true when there is something to read, the end of the file among
// it, and false when the deadline, if there is one, has passed.
// Not poll: that of macOS knows no terminals.
func (r *PatientReader) wait(deadline *time.Time) (bool, error) {
	in, wake := int(r.file.Fd()), int(r.wake.Fd())
	for {
		var readable unix.FdSet
		readable.Set(in)
		readable.Set(wake)
		var limit *unix.Timeval // of its own for each call: Linux counts it down
		if deadline != nil {
			limit = new(unix.NsecToTimeval(max(0, time.Until(*deadline)).Nanoseconds()))
		}
		n, err := unix.Select(max(in, wake)+1, &readable, nil, nil, limit)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return false, os.NewSyscallError("select", err)
		case n == 0:
			return false, nil
		case readable.IsSet(wake):
			return false, context.Cause(r.ctx)
		default:
			return true, nil
		}
	}
}
