package process

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/gateway"
	"github.com/flisk-go/flisk/pkg/internal/proc"
	"github.com/flisk-go/flisk/pkg/runtime/claim"
)

// socketCheck is how often the supervisor looks whether it can be reached.
const socketCheck = time.Second

// readyFD is where the supervisor finds the pipe on which up waits, and ownerFD
// the one with whose other end it lives, if it has an owner.
const (
	readyFD = 3
	ownerFD = 4
)

// startReport is the one message on that pipe.
type startReport struct{ Fault *wireFault }

// Supervise runs the supervisor of a run directory until it is told to shut
// down or gets SIGTERM or SIGINT, or ctx ends; a second signal, or one while it
// drains, ends the agents without a drain. It must be started by [Driver.Up],
// which waits on descriptor 3 for the outcome of the start.
func Supervise(ctx context.Context, runDir string) error {
	pipe, err := readyPipe()
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)

	s, err := newSupervisor(runDir)
	report := startReport{}
	if err != nil {
		report.Fault = toWire(err)
	}
	// The driver may have been killed meanwhile. Then nobody reads this, and the
	// next command finds a supervisor without replicas and goes on from there.
	err = errors.Join(err, json.NewEncoder(pipe).Encode(report), pipe.Close())
	if s == nil {
		return err
	}
	if s.settings.Owned {
		stop, err := watchOwner(signals)
		if err != nil {
			return errors.Join(err, s.close())
		}
		defer stop()
	}
	return s.run(ctx, signals)
}

// watchOwner asks for an end without a drain when the pipe ends whose other end
// the owner has: nobody is left who would wait for one. stop must be called in
// the end.
func watchOwner(signals chan<- os.Signal) (stop func(), err error) {
	syscall.CloseOnExec(ownerFD)
	if err := syscall.SetNonblock(ownerFD, true); err != nil { // so that Close ends a Read
		return nil, err
	}
	pipe := os.NewFile(ownerFD, "owner")
	ending := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		if _, err := pipe.Read(make([]byte, 1)); err != io.EOF {
			return // stop was called: nothing is ever written
		}
		for range 2 {
			select {
			case signals <- syscall.SIGTERM:
			case <-ending:
				return
			}
		}
	})
	return func() {
		close(ending)
		_ = pipe.Close()
		watch.Wait()
	}, nil
}

func readyPipe() (*os.File, error) {
	var stat syscall.Stat_t
	if err := syscall.Fstat(readyFD, &stat); err != nil || stat.Mode&syscall.S_IFMT != syscall.S_IFIFO {
		return nil, fault.New(fault.Usage, "flisk up starts it", "the supervisor is not started by hand")
	}
	syscall.CloseOnExec(readyFD)
	return os.NewFile(readyFD, "ready"), nil
}

// supervisor owns the gateway and the keepers of one run directory.
type supervisor struct {
	settings settings
	place    place
	lock     *os.File // on the run directory, held for its whole life
	dir      *os.Root // the same directory, whatever its path names by now
	log      *logFile
	tcp      net.Listener
	control  net.Listener
	socket   fs.FileInfo // of control
	gateway  *gateway.Gateway

	ending  chan struct{} // closed by shutdown
	endOnce sync.Once
	keeping sync.WaitGroup // keepers

	mu      sync.Mutex
	keepers []*keeper
	logs    map[string]*logFile // by agent
	serve   switchRequest       // the last one
	routes  string              // hash of the present table
}

func newSupervisor(runDir string) (_ *supervisor, err error) {
	s := &supervisor{ending: make(chan struct{}), logs: map[string]*logFile{}}
	if err := readFile(filepath.Join(runDir, settingsFile), &s.settings); err != nil {
		return nil, err
	}
	s.place, s.serve = s.settings.place(), s.settings.Serve

	var opened []func() error
	defer func() {
		if err != nil {
			for _, undo := range opened {
				err = errors.Join(err, undo())
			}
		}
	}()
	if s.lock, err = claim.Dir(s.place.run); err != nil {
		return nil, fmt.Errorf("there is a supervisor already: %w", err)
	}
	opened = append(opened, s.lock.Close)
	if s.dir, err = os.OpenRoot(s.place.run); err != nil {
		return nil, err
	}
	opened = append(opened, s.dir.Close)
	if s.log, err = openLog(s.place.supervisorLog(), maxLogFile); err != nil {
		return nil, err
	}
	opened = append(opened, s.log.close)
	if s.tcp, err = claim.Listen(s.settings.Gateway); err != nil {
		return nil, err
	}
	opened = append(opened, s.tcp.Close)
	// Whoever holds the lock owns the name: what is there is dead.
	if err := os.Remove(s.place.control()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	control, err := net.ListenUnix("unix", &net.UnixAddr{Name: s.place.control(), Net: "unix"})
	if err != nil {
		return nil, err
	}
	control.SetUnlinkOnClose(false) // the name may be another's by then
	s.control = control
	opened = append(opened, s.control.Close)
	if err := os.Chmod(s.place.control(), 0o600); err != nil {
		return nil, err
	}
	if s.socket, err = os.Lstat(s.place.control()); err != nil {
		return nil, err
	}
	id, err := proc.Identify(os.Getpid())
	if err != nil {
		return nil, err
	}
	if err := writeFile(filepath.Join(s.place.run, supervisorFile), id); err != nil {
		return nil, err
	}
	s.gateway = gateway.New(gateway.Options{Grace: copyGrace, Log: slog.New(slog.NewTextHandler(sayWriter{s.say}, nil))})
	s.changed()
	return s, nil
}

// run serves until the end and returns when everything has stopped and the run
// directory is gone.
func (s *supervisor) run(ctx context.Context, signals <-chan os.Signal) error {
	s.say("supervisor " + strconv.Itoa(os.Getpid()) + " listens on " + s.settings.Gateway.URL())
	gatewayCtx, stopGateway := context.WithCancel(context.WithoutCancel(ctx))
	defer stopGateway()
	gatewayEnd := make(chan error, 1)
	go func() {
		defer close(gatewayEnd)
		gatewayEnd <- s.gateway.Serve(gatewayCtx, s.tcp)
	}()

	server := &http.Server{Handler: s.handler(), ErrorLog: slog.NewLogLogger(slog.NewTextHandler(sayWriter{s.say}, nil), slog.LevelWarn)}
	controlEnd := make(chan error, 1)
	go func() { controlEnd <- server.Serve(s.control) }()

	broken := s.waitForEnd(ctx, signals, gatewayEnd)
	s.shutdown(false)
	s.drain(signals)
	stopGateway()
	broken = errors.Join(broken, <-gatewayEnd)

	settle, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	if server.Shutdown(settle) != nil {
		_ = server.Close() // a client that does not read its answer
	}
	if err := <-controlEnd; !errors.Is(err, http.ErrServerClosed) {
		broken = errors.Join(broken, err)
	}
	if broken != nil {
		s.say("stopped with an error: " + broken.Error())
	}
	s.say("stopped")
	return errors.Join(broken, s.close())
}

// waitForEnd returns when there is a reason to stop: it was asked for, or nobody
// could ask for it any more, or the gateway failed, which is the error.
func (s *supervisor) waitForEnd(ctx context.Context, signals <-chan os.Signal, gatewayEnd <-chan error) error {
	tick := time.NewTicker(socketCheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case sig := <-signals:
			s.say("got " + sig.String())
			return nil
		case <-s.ending:
			return nil
		case err := <-gatewayEnd:
			return err
		case <-tick.C:
			there, err := os.Lstat(s.place.control())
			if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(there, s.socket) {
				s.say("the control socket was removed or replaced: nobody can reach this supervisor any more")
				return nil
			}
		}
	}
}

// drain waits for all keepers; a signal meanwhile makes it short.
func (s *supervisor) drain(signals <-chan os.Signal) {
	idle := make(chan struct{})
	go func() { s.keeping.Wait(); close(idle) }()
	for {
		select {
		case <-idle:
			return
		case sig := <-signals:
			s.say("got " + sig.String() + " while draining: killing what is left")
			s.shutdown(true)
		}
	}
}

// shutdown begins the end: no keeper is added any more, and all of them stop.
func (s *supervisor) shutdown(force bool) {
	s.endOnce.Do(func() { close(s.ending) })
	for _, k := range s.all() {
		if force {
			k.force()
		} else {
			k.stop(0)
		}
	}
}

// close removes the run directory while the lock is still held, so that nobody
// can start another supervisor in it before it is gone. One that was removed
// already may have a successor by the same name, which is not touched.
func (s *supervisor) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	mine, err := s.lock.Stat()
	errs := []error{err, s.log.close(), s.dir.Close()}
	if there, err := os.Lstat(s.place.run); err == nil && os.SameFile(mine, there) {
		errs = append(errs, s.place.removeRunDir())
	}
	for _, l := range s.logs {
		errs = append(errs, l.close())
	}
	return errors.Join(append(errs, s.lock.Close())...)
}

// say writes a line to the supervisor's own log. The replicas' output is in the
// logs of their agents.
func (s *supervisor) say(line string) {
	_ = s.log.write("supervisor", line) // there is nowhere else to say it
}

// sayWriter makes a log line of each write.
type sayWriter struct{ say func(string) }

func (w sayWriter) Write(p []byte) (int, error) {
	copyLines(bytes.NewReader(p), w.say)
	return len(p), nil
}
