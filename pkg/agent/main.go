package agent

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/turn"
)

// Exit codes of Main, those of the flisk command.
const (
	exitDone  = 0
	exitFail  = 1
	exitUsage = 2 // a FLISK_ variable has a bad value
	exitEnv   = 3 // the volume or the address cannot be used
)

// Main serves run as the environment says (see [turn.Env]) until it is told to
// stop, and exits the process: 0 after a drain, 1 when serving failed, 2 when a
// variable has a bad value, 3 when the volume or the address cannot be used.
//
// SIGTERM, SIGINT and the end of file on FLISK_LIFELINE begin a drain ([Server.Serve]
// tells its steps). SIGINT during it cuts it short; one more exits at once with 1.
// SIGTERM during it changes nothing.
//
// With "health" as the only argument it asks the agent that listens at
// FLISK_LISTEN how it is and exits 0 or 1: a health check for an image without
// a shell. flisk itself knows a few more (command.go); any other argument is
// refused with 2.
func Main[S any](run Func[S]) {
	p := process{args: os.Args[1:], lookup: os.LookupEnv, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	os.Exit(p.main(func(store checkpoint.Store, env turn.Env, log *slog.Logger) *Server {
		return NewServer(run, store, env, log)
	}))
}

// process is what Main takes from the operating system.
type process struct {
	args           []string
	lookup         func(string) (string, bool)
	stdin          io.Reader
	stdout, stderr io.Writer
}

func (p process) main(newServer func(checkpoint.Store, turn.Env, *slog.Logger) *Server) int {
	env, err := turn.ParseEnv(p.lookup)
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			p.complain(errors.New(strings.TrimSuffix(line, "\n")))
		}
		return exitUsage
	}
	byHand := env.Listen == ""
	if _, set := p.lookup("FLISK_LINGER"); byHand && !set {
		env.Linger = 0 // no gateway looks at /ready
	}
	if env.Data == "" {
		env.Data = filepath.Join(".flisk", "data")
	}
	if len(p.args) > 0 {
		return p.command(env)
	}
	if _, set := p.lookup("GOMAXPROCS"); !set {
		runtime.GOMAXPROCS(processors())
	}

	log := newLog(p.stderr, env.Runtime)
	stop, err := watchForStop(env.Lifeline)
	if err != nil {
		p.complain(err)
		return exitUsage
	}
	defer stop.close()
	store, err := checkpoint.Open(env.Data, storeOptions(env, log))
	if err != nil {
		p.complain(fmt.Errorf("cannot keep conversations in %q: %w", env.Data, err))
		return exitEnv
	}
	for _, w := range store.Info().Warnings {
		log.Warn("volume", "warning", w)
	}
	server := newServer(store, env, log)
	code := p.serve(server, stop, byHand)
	if server.engine.flights.count() > 0 {
		return code // runTurn still runs; the end of the process unlocks its session
	}
	if err := store.Close(); err != nil {
		log.Warn("volume", "warning", err)
	}
	return code
}

// processors is how many goroutines may run at once: more than there are cores.
// At every commit one waits in the kernel for the disk, and the Go runtime takes
// a while to notice and to give its processor to another. With one a core,
// sixteen sessions on two cores took half as many turns a second.
func processors() int { return 4 * runtime.GOMAXPROCS(0) }

// storeOptions says what the volume must be. On Docker a container's own layer
// is a volume that somebody forgot to mount, and goes with the next restart;
// elsewhere it may be all that there is, and is only warned of.
func storeOptions(env turn.Env, log *slog.Logger) checkpoint.Options {
	return checkpoint.Options{
		Agent:         env.Agent,
		ExpectVolume:  env.Volume,
		RefuseOverlay: env.Runtime == "docker",
		Log:           log,
	}
}

// newLog writes records as text. A runtime keeps the time of each line itself.
func newLog(w io.Writer, runtime string) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if runtime != "" && len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
}

// serve listens and serves until stop says so, and returns the exit code.
func (p process) serve(s *Server, stop *stopWatch, byHand bool) int {
	ln, err := listen(s.env.Listen)
	if err != nil {
		p.complain(fmt.Errorf("cannot listen: %w", err))
		return exitEnv
	}
	s.log.Info("started", "agent", s.env.Agent, "address", ln.Addr(), "code", s.env.Code)
	if byHand {
		p.greet(s.env, ln.Addr())
	}
	if err := s.serve(stop.first, stop.alone, stop.hurry, ln); err != nil {
		p.complain(err)
		return exitFail
	}
	return exitDone
}

// greet tells somebody who started the agent by hand how to talk to it.
func (p process) greet(env turn.Env, addr net.Addr) {
	base := "http://" + addr.String()
	_, _ = fmt.Fprintf(p.stdout, "%s serves at %s, conversations are in %s\n\n  curl -s %s -H 'Content-Type: %s' -H 'X-Session-Id: me' -d '{\"input\": \"hello\"}'\n\n",
		env.Agent, base, env.Data, base+turn.TurnPath(env.Agent), turn.JSONType)
}

func (p process) complain(err error) { _, _ = fmt.Fprintln(p.stderr, err) }
