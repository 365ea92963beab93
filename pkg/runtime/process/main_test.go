package process

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/turn"
)

// TestMain makes the test binary its own supervisor and its own agent, so that
// real processes are tested without building anything.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 3 && os.Args[1] == "supervise":
		if err := Supervise(context.Background(), os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case len(os.Args) == 2 && os.Args[1] == "up":
		if err := upFromStdin(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case os.Getenv("FLISK_RUNTIME") == runtimeName:
		testAgent()
	default:
		// The race detector lets a process sleep for a second when it exits.
		if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
			panic(err)
		}
		code := m.Run()
		if err := suiteProgram.Remove(); err != nil {
			panic(err)
		}
		os.Exit(code)
	}
}

// Variables that tell the test agent how to misbehave.
const (
	modeVar = "TEST_AGENT_MODE"
	gateVar = "TEST_AGENT_GATE" // of modeGate: the file that it waits for
)

const (
	modeExit     = "exit"     // says why and exits before it is ready
	modeMute     = "mute"     // never gets ready
	modeStubborn = "stubborn" // serves, and ends by SIGKILL only; so does its child
	modeChatty   = "chatty"   // serves, and writes a lot
	modeGate     = "gate"     // is not ready before a file exists
	modeParent   = "parent"   // serves, and leaves a child behind when it ends
	modeDeaf     = "deaf"     // serves, and does not notice that its supervisor is gone
)

// testAgent is an agent without sessions: it answers each turn with the code it
// runs, its process id, and what was asked of it. The input is how long the turn
// takes.
func testAgent() {
	env, err := turn.ParseEnv(os.LookupEnv)
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	mode := os.Getenv(modeVar)
	fmt.Printf("started %s as %s\n", env.Code, strconv.Itoa(os.Getpid()))
	switch mode {
	case modeExit:
		fmt.Println("the model key is missing")
		os.Exit(7)
	case modeStubborn, modeParent:
		if mode == modeStubborn {
			signal.Ignore(syscall.SIGTERM)
		}
		child, err := os.StartProcess("/bin/sleep", []string{"sleep", "600"}, &os.ProcAttr{})
		if err != nil {
			os.Exit(2)
		}
		fmt.Printf("child %d\n", child.Pid)
	case modeChatty:
		fmt.Println(strings.Repeat("x", 3*maxLogLine) + "end")
	}
	ln, err := net.Listen("unix", strings.TrimPrefix(env.Listen, "unix:"))
	if err != nil {
		fmt.Println(err)
		os.Exit(3)
	}
	var draining atomic.Bool
	mux := http.NewServeMux()
	ready := func(w http.ResponseWriter, _ *http.Request) {
		switch {
		case mode == modeMute:
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"ready":false,"reason":"it never will be"}`)
		case draining.Load(), mode == modeGate && !exists(os.Getenv(gateVar)):
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}
	mux.HandleFunc("GET "+turn.ReadyPath, ready)
	mux.HandleFunc("GET "+turn.AgentReadyPath(env.Agent), ready)
	mux.HandleFunc("GET "+turn.HealthPath, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"draining":%t}`, draining.Load())
	})
	mux.HandleFunc("POST "+turn.TurnPath(env.Agent), func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if pause, err := time.ParseDuration(string(body)); err == nil {
			fmt.Printf("turn of %s begins\n", pause)
			<-time.After(pause)
		}
		_, _ = fmt.Fprintf(w, "%s %d %s", env.Code, os.Getpid(), os.Getenv("FROM_ENV_FILE"))
	})
	server := &http.Server{Handler: mux}
	stop := make(chan os.Signal, 1)
	if mode != modeStubborn {
		signal.Notify(stop, syscall.SIGTERM)
	}
	if mode != modeStubborn && mode != modeDeaf {
		go func() {
			_, _ = io.Copy(io.Discard, os.NewFile(uintptr(env.Lifeline), "lifeline"))
			stop <- syscall.SIGTERM
		}()
	}
	go func() { _ = server.Serve(ln) }()
	<-stop
	draining.Store(true)
	<-time.After(env.Linger)
	_ = server.Shutdown(context.Background())
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
