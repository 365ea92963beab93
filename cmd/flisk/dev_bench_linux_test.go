package main_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/flisk-go/flisk/pkg/runtime/claim/porttest"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
	"github.com/flisk-go/flisk/pkg/turn"
)

// BenchmarkSave measures from a save of one changed line in the scaffolded agent
// to the first reply of the new code, without the time that a watcher is set to
// wait for more. Who takes part has a project of its own, and they save in turns;
// every line is a new one, so that no build is in the cache already.
//
//   - floor: go build as flisk does it, and the program alone.
//   - process, docker: flisk dev, through its gateway.
//   - air, where FLISK_BENCH_AIR names one: the same build. It has no gateway: the
//     old program ends before the new one starts.
//   - compose-watch, where FLISK_TEST_COMPOSE names a Compose: its rebuild. The
//     program is built beside it, which is counted: no base image can be pulled
//     where this runs.
func BenchmarkSave(b *testing.B) {
	all := []*contestant{
		{name: "floor", reloader: newFloor(b)},
		{name: "process", quiet: shortQuiet, reloader: newFlisk(newWorld(b).project(filepath.Join(b.TempDir(), "bot")), "process")},
	}
	lacks := dockerLacks()
	switch {
	case lacks == nil:
		p := newDockerWorld(b).dockerProject(filepath.Join(b.TempDir(), "bot"))
		all = append(all, &contestant{name: "docker", quiet: shortQuiet, reloader: newFlisk(p, "docker")})
	case os.Getenv("FLISK_TEST_DOCKER") == "1":
		dockertest.Missing(b, lacks)
	default:
		b.Logf("without Docker: %v", lacks)
	}
	if path := os.Getenv("FLISK_BENCH_AIR"); path != "" {
		all = append(all, &contestant{name: "air", quiet: shortQuiet, reloader: newAir(b, path)})
	}
	if path := os.Getenv("FLISK_TEST_COMPOSE"); path != "" && lacks == nil {
		all = append(all, &contestant{name: "compose-watch", quiet: composeQuiet, reloader: newComposeWatch(b, path)})
	}
	for _, c := range all { // the first save fills caches
		c.save1(b)
		c.took = nil
	}
	for b.Loop() {
		for _, c := range all {
			c.save1(b)
		}
	}
	report(b, all)
}

// What a watcher waits for after a change.
const (
	shortQuiet   = 100 * time.Millisecond // flisk's; air is told the same
	composeQuiet = 500 * time.Millisecond // Compose cannot be told
)

// contestant is one way from a save to new code.
type contestant struct {
	name  string
	quiet time.Duration // is taken off
	reloader

	saves int
	took  []time.Duration
}

type reloader interface {
	// save puts down turn.go, and does what a person has to do besides.
	save(code string)

	// changed returns when it may be another program that answers.
	changed()

	// ask sends a turn and returns its reply.
	ask(session string) (string, error)

	// settle returns when nothing is left to do for the last save.
	settle()

	// written is turn.go as it was scaffolded.
	written() string
}

// askEvery is the pause between two questions whether the new program is there.
const askEvery = 5 * time.Millisecond

// save1 is one save, from the file to the reply.
func (c *contestant) save1(b *testing.B) {
	b.Helper()
	const line = `fmt.Sprintf("turn %d: you said`
	if strings.Count(c.written(), line) != 1 {
		b.Fatalf("the scaffolded agent has no line with %s", line)
	}
	c.saves++
	mark := fmt.Sprintf("%s-%d-%d", c.name, c.saves, time.Now().UnixNano())
	code := strings.Replace(c.written(), line, strings.Replace(line, "turn", mark+" turn", 1), 1)
	idle(b)
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	began := time.Now()
	c.save(code)
	c.changed()
	for {
		reply, err := c.ask(fmt.Sprintf("s%d", c.saves))
		if err == nil && strings.HasPrefix(reply, mark+" ") {
			break
		}
		if time.Since(began) > time.Minute {
			b.Fatalf("%s: a minute after a save the reply is %q, %v", c.name, reply, err)
		}
		<-tick.C
	}
	c.took = append(c.took, time.Since(began)-c.quiet)
	c.settle()
}

// idle waits until this machine has little to do, whoever has it do it; or for a
// while, on a machine that is always busy.
func idle(b *testing.B) {
	b.Helper()
	const little = 0.2 // of all processors
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	busy, all := processorTicks(b)
	for range 30 {
		<-tick.C
		busyNow, allNow := processorTicks(b)
		if busyNow-busy < little*(allNow-all) {
			return
		}
		busy, all = busyNow, allNow
	}
}

// processorTicks is what all processors did since the machine was started.
func processorTicks(b *testing.B) (busy, all float64) {
	b.Helper()
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		b.Fatal(err)
	}
	var user, nice, system, idle, wait, irq, softirq, steal float64
	if _, err := fmt.Sscanf(string(stat), "cpu %g %g %g %g %g %g %g %g", &user, &nice, &system, &idle, &wait, &irq, &softirq, &steal); err != nil {
		b.Fatal(err)
	}
	busy = user + nice + system + irq + softirq + steal
	return busy, busy + idle + wait
}

// report prints the table, and what flisk says of its own parts.
func report(b *testing.B, all []*contestant) {
	b.Helper()
	floor := slices.Clone(all[0].took)
	ms := func(took time.Duration) float64 { return float64(took) / float64(time.Millisecond) }
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) } // into memory
	row("%d rounds\tlowest\tmedian\thighest\tof the floor\t\n", len(floor))
	for _, c := range all {
		ratios := make([]float64, len(floor))
		for i, took := range c.took {
			ratios[i] = float64(took) / float64(floor[i])
		}
		slices.Sort(ratios)
		slices.Sort(c.took)
		middle := len(ratios) / 2
		row("%s\t%.0f ms\t%.0f ms\t%.0f ms\t%.2f\t\n", c.name, ms(c.took[0]), ms(c.took[middle]), ms(c.took[len(c.took)-1]), ratios[middle])
		b.ReportMetric(ms(c.took[middle]), c.name+"-ms")
		b.ReportMetric(ratios[middle], c.name+"/floor")
	}
	for _, c := range all {
		f, ok := c.reloader.(*flisk)
		if !ok {
			continue
		}
		spans := map[string][]int64{}
		for _, e := range f.events {
			if e.Event == "reloaded" && e.Reload > 1 {
				for name, took := range e.Spans {
					spans[name] = append(spans[name], took)
				}
			}
		}
		row("of %s:", c.name)
		for _, name := range []string{"detect", "plan", "build", "start", "switch"} {
			slices.Sort(spans[name])
			if n := len(spans[name]); n > 0 {
				row("\t%s %d ms", name, spans[name][n/2])
			}
		}
		row("\t\n")
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	b.Log("\n" + strings.TrimRight(text.String(), "\n"))
}

// place is a scaffolded project with somebody who asks its agent.
type place struct {
	*project
	code string // turn.go, as it was scaffolded
}

// newPlace is a project that flisk does not run.
func newPlace(b *testing.B) place {
	b.Helper()
	w, dir := newWorld(b), b.TempDir()
	w.flisk(dir, "init", "bot")
	p := &project{world: w, dir: filepath.Join(dir, "bot"), port: porttest.Free(b)}
	return place{p, p.readFile("turn.go")}
}

func (p place) save(code string) { p.project.save("turn.go", code) }

func (p place) written() string { return p.code }

func (p place) ask(session string) (string, error) {
	a, err := p.post(p.t.Context(), "bot", `"hi"`, http.Header{turn.HeaderSession: {session}})
	if err != nil {
		return "", err
	}
	return string(bytes.Trim(a.result.Reply, `"`)), nil
}

// buildArgs are those of flisk's own build; its environment says CGO_ENABLED=0.
func buildArgs(out string) []string {
	return []string{"build", "-trimpath", "-buildvcs=false", "-o", out, "."}
}

// build makes the project's program, as flisk does.
func (p place) build(out string) {
	p.t.Helper()
	cmd := exec.Command("go", buildArgs(out+".new")...)
	cmd.Dir, cmd.Env = p.dir, append(p.env, "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		p.t.Fatalf("%v\n%s", err, said)
	}
	if err := os.Rename(out+".new", out); err != nil {
		p.t.Fatal(err)
	}
}

// surroundings are an agent's that has no gateway.
func (p place) surroundings() []string {
	env := turn.Env{Agent: "bot", Data: filepath.Join(p.home, "data"), Listen: fmt.Sprintf("127.0.0.1:%d", p.port)}
	return append(append(p.env, env.Encode()...), "FLISK_LINGER=0s")
}

// floor builds and starts.
type floor struct {
	place
	cmd *exec.Cmd
}

func newFloor(b *testing.B) *floor {
	b.Helper()
	f := &floor{place: newPlace(b)}
	b.Cleanup(f.settle)
	return f
}

func (f *floor) save(code string) {
	f.t.Helper()
	f.place.save(code)
	program := filepath.Join(f.home, "program")
	f.build(program)
	f.cmd = exec.Command(program)
	f.cmd.Env = f.surroundings()
	if err := f.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
}

func (f *floor) changed() {}

func (f *floor) settle() {
	if f.cmd == nil {
		return
	}
	f.t.Helper()
	if err := f.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		f.t.Error(err)
	}
	if err := f.cmd.Wait(); err != nil {
		f.t.Error(err)
	}
	f.cmd = nil
}

// flisk is flisk dev.
type flisk struct {
	place
	*devLoop
	saves int
}

func newFlisk(p *project, runtime string) *flisk {
	p.t.Helper()
	code := p.readFile("turn.go")
	f := &flisk{place: place{p, code}, devLoop: p.dev("--runtime", runtime)}
	f.await("reloaded", 1)
	return f
}

func (f *flisk) save(code string) {
	f.saves++
	f.place.save(code)
}

// changed waits until the loop says so, after new turns run on the new code: no
// question slows the build down.
func (f *flisk) changed() {
	f.place.t.Helper()
	f.await("reloaded", f.saves+1)
}

func (f *flisk) settle() {
	f.place.t.Helper()
	f.await("drained", f.saves)
}

// held is a place whose program is known to have ended when it closes a connection
// that nothing is asked on: no question slows the build down.
type held struct {
	place
	conn net.Conn
}

// hold opens a connection, and waits until somebody answers there.
func (h *held) hold() {
	h.t.Helper()
	h.release()
	eventually(h.t, time.Minute, "it answers", func() bool {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", h.port))
		if err != nil {
			return false
		}
		_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", turn.ReadyPath, conn.RemoteAddr())
		if err == nil {
			var resp *http.Response
			if resp, err = http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
			}
		}
		if err != nil {
			_ = conn.Close() // tried again
			return false
		}
		h.conn = conn
		return true
	})
}

func (h *held) release() {
	if h.conn != nil {
		_ = h.conn.Close() // the other side has done so already
		h.conn = nil
	}
}

func (h *held) changed() {
	h.t.Helper()
	if err := h.conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		h.t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, h.conn) // until its end, however that comes
}

func (h *held) settle() { h.hold() }

// start runs a watcher until the benchmark ends.
func (h *held) start(cmd *exec.Cmd, ready string) {
	h.t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	var said bytes.Buffer
	seen := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		told := false
		for lines := bufio.NewScanner(out); lines.Scan(); {
			said.Write(append(lines.Bytes(), '\n'))
			if !told && strings.Contains(lines.Text(), ready) {
				told = true
				close(seen)
			}
		}
	})
	h.t.Cleanup(func() {
		h.release()
		_ = cmd.Process.Signal(syscall.SIGINT) // it may have ended
		kill := time.AfterFunc(20*time.Second, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		reading.Wait()
		_ = cmd.Wait() // it was interrupted
		kill.Stop()
		if h.t.Failed() {
			h.t.Logf("%s said:\n%s", cmd.Path, &said)
		}
	})
	select {
	case <-seen:
	case <-time.After(time.Minute):
		h.t.Fatalf("%s does not say %q", cmd.Path, ready)
	}
}

// newAir is air, which is told to build as flisk does, to wait as long, and to let
// the program end by itself.
func newAir(b *testing.B, path string) *held {
	b.Helper()
	h := &held{place: newPlace(b)}
	h.write(".air.toml", fmt.Sprintf(`root = "."
tmp_dir = "tmp"
[build]
cmd = "go %s"
entrypoint = ["./tmp/program"]
delay = %d
send_interrupt = true
kill_delay = "10s"
include_ext = ["go"]
exclude_dir = ["tmp"]
`, strings.Join(buildArgs("./tmp/program"), " "), shortQuiet.Milliseconds()))
	cmd := exec.Command(path, "-c", ".air.toml")
	cmd.Dir, cmd.Env = h.dir, append(h.surroundings(), "CGO_ENABLED=0")
	h.start(cmd, "running")
	h.hold()
	return h
}

// composeWatch is Compose's watch on a directory with nothing but the program.
type composeWatch struct{ held }

func newComposeWatch(b *testing.B, path string) *composeWatch {
	b.Helper()
	c := &composeWatch{held{place: newPlace(b)}}
	if err := os.Mkdir(filepath.Join(c.dir, "image"), 0o755); err != nil {
		b.Fatal(err)
	}
	c.write("image/Dockerfile", "FROM scratch\nCOPY program /agent\nENTRYPOINT [\"/agent\"]\n")
	c.write("watch.yaml", fmt.Sprintf(`services:
  bot:
    build: image
    ports: ["127.0.0.1:%d:8080"]
    volumes: ["data:/data"]
    environment: {FLISK_AGENT: bot, FLISK_DATA: /data, FLISK_LISTEN: ":8080", FLISK_HOSTS: "127.0.0.1:%[1]d", FLISK_LINGER: 0s}
    develop: {watch: [{action: rebuild, path: image}]}
volumes: {data: {}}
`, c.port))
	c.build(filepath.Join(c.dir, "image", "program"))
	compose := func(args ...string) *exec.Cmd {
		cmd := exec.Command(path, append([]string{"-p", fmt.Sprintf("save-%d", os.Getpid()), "-f", "watch.yaml"}, args...)...)
		cmd.Dir, cmd.Env = c.dir, c.env
		return cmd
	}
	b.Cleanup(func() {
		if out, err := compose("down", "--volumes", "--rmi", "local").CombinedOutput(); err != nil {
			b.Errorf("compose down: %v\n%s", err, out)
		}
	})
	if out, err := compose("up", "-d", "--build").CombinedOutput(); err != nil {
		b.Fatalf("compose up: %v\n%s", err, out)
	}
	c.start(compose("watch", "--no-up"), "atch enabled")
	c.hold()
	return c
}

func (c *composeWatch) save(code string) {
	c.held.save(code)
	program := filepath.Join(c.home, "program")
	c.build(program)
	if err := os.Rename(program, filepath.Join(c.dir, "image", "program")); err != nil {
		c.t.Fatal(err)
	}
}
