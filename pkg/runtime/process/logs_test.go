package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// lines collects what Logs emits, from any goroutine.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) emit(line runtime.Line) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, line.Replica+" "+line.Text)
	return nil
}

func (l *lines) get() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

func (l *lines) has(text string) func() bool {
	return func() bool {
		return slices.ContainsFunc(l.get(), func(s string) bool { return strings.Contains(s, text) })
	}
}

func TestLogFileIsBoundedAndFollowed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const max, n = 1000, 300
	log, err := openLog(r.place().agentLog("bot"), max)
	if err != nil {
		t.Fatal(err)
	}
	defer log.close()
	say := func(i int) {
		t.Helper()
		if err := log.write("bot-1", fmt.Sprintf("line %04d", i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 {
		say(i)
	}
	ctx, cancel := interruptible(t)
	var followed lines
	ended := make(chan error, 1)
	go func() { ended <- r.driver().Logs(ctx, runtime.LogOptions{Tail: 2, Follow: true}, followed.emit) }()
	eventually(t, "the tail", followed.has("line 0004"))
	for i := 5; i < n; i++ {
		say(i)
		if i%15 == 0 { // never two rotations between two looks
			eventually(t, "what was written", followed.has(fmt.Sprintf("line %04d", i)))
		}
	}
	eventually(t, "the last line", followed.has(fmt.Sprintf("line %04d", n-1)))
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("follow: %v", err)
	}
	got := followed.get()
	if len(got) != n-3 {
		t.Errorf("%d lines were followed, want %d", len(got), n-3)
	}
	for i, line := range got {
		if want := fmt.Sprintf("bot-1 line %04d", i+3); line != want {
			t.Fatalf("line %d is %q, want %q", i, line, want)
		}
	}

	entries, err := os.ReadDir(r.place().logs)
	if err != nil || len(entries) != 2 {
		t.Fatalf("log files: %v, %v", entries, err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Size() > max || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", e.Name(), info, err)
		}
	}
	// All that is kept is a run of lines up to the last.
	var kept lines
	if err := r.driver().Logs(t.Context(), runtime.LogOptions{Tail: -1}, kept.emit); err != nil {
		t.Fatal(err)
	}
	all := kept.get()
	if len(all) < 20 || !slices.IsSorted(all) || !slices.Equal(all, got[len(got)-len(all):]) {
		t.Errorf("kept: %q", all)
	}
}

func TestLogsOfSeveralAgents(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.o.Stack.Agents = append(r.o.Stack.Agents, testAgentSpec(t, "ops"))
	var now time.Time
	for _, agent := range []string{"bot", "ops"} {
		log, err := openLog(r.place().agentLog(agent), maxLogFile)
		if err != nil {
			t.Fatal(err)
		}
		log.now = func() time.Time { return now }
		for i := range 3 {
			now = time.Unix(int64(100*i+len(agent)), 0).Add(time.Duration(agent[0])) // bot before ops
			if err := log.write(agent+"-1", fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := log.close(); err != nil {
			t.Fatal(err)
		}
	}
	read := func(o runtime.LogOptions) []string {
		t.Helper()
		var l lines
		if err := r.driver().Logs(t.Context(), o, l.emit); err != nil {
			t.Fatal(err)
		}
		return l.get()
	}
	if got, want := read(runtime.LogOptions{Tail: 3}), []string{"ops-1 1", "bot-1 2", "ops-1 2"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := read(runtime.LogOptions{Agent: "bot", Tail: -1}), []string{"bot-1 0", "bot-1 1", "bot-1 2"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := read(runtime.LogOptions{Tail: 0}); len(got) > 0 {
		t.Errorf("got %q", got)
	}
	stop := errors.New("enough")
	if err := r.driver().Logs(t.Context(), runtime.LogOptions{Tail: -1}, func(runtime.Line) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("the error of emit became %v", err)
	}
	if err := r.driver().Logs(t.Context(), runtime.LogOptions{Agent: "nobody"}, (&lines{}).emit); fault.KindOf(err) != fault.Usage {
		t.Errorf("logs of nobody: %v", err)
	}
}

// A stack trace stays in one piece, whatever the clock does meanwhile.
func TestMergedLinesKeepTheOrderOfTheirLog(t *testing.T) {
	t.Parallel()
	line := func(second int64, text string) runtime.Line {
		l := runtime.Line{Text: text}
		if second > 0 {
			l.Time = time.Unix(second, 0)
		}
		return l
	}
	got := mergeByTime([][]runtime.Line{
		{line(5, "panic"), line(5, "goroutine 1"), line(0, "rest of a line"), line(2, "main.go:3"), line(9, "next")},
		{line(4, "before"), line(6, "between"), line(10, "after")},
	})
	var texts []string
	for _, l := range got {
		texts = append(texts, l.Text)
	}
	want := []string{"before", "panic", "goroutine 1", "rest of a line", "main.go:3", "between", "next", "after"}
	if !slices.Equal(texts, want) || !got[3].Time.IsZero() {
		t.Errorf("got %q, want %q", texts, want)
	}
}

// With a flisk.yaml that names no agent and no volume, looking and stopping go by
// what is on disk.
func TestLookingAndStoppingWithoutNames(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.o.Stack.Volume.Name = "a-name-of-its-own"
	r.up()
	whole := r.o.Stack
	r.o.Stack.Agents, r.o.Stack.Volume.Name = nil, ""
	if o := r.observe(); !o.Running || len(o.Replicas) != 1 || o.Volume != "a-name-of-its-own" || filepath.Base(o.Place) != o.Volume {
		t.Errorf("observed: %+v", o)
	}
	for _, agent := range []string{"", "bot"} {
		var l lines
		if err := r.driver().Logs(t.Context(), runtime.LogOptions{Agent: agent, Tail: -1}, l.emit); err != nil || !l.has("bot-1 started c1")() {
			t.Errorf("logs of %q: %q, %v", agent, l.get(), err)
		}
	}
	r.down()
	r.o.Stack = whole
}

// What an agent writes is kept across down, and followed across a restart.
func TestC08_LogsReattach(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.mode(modeChatty)
	ctx, cancel := interruptible(t)
	var followed lines
	ended := make(chan error, 1)
	go func() { ended <- r.driver().Logs(ctx, runtime.LogOptions{Agent: "bot", Follow: true}, followed.emit) }()
	r.up()
	first := fmt.Sprintf("bot-1 started c1 as %d", r.replica().PID)
	eventually(t, "the first start", followed.has(first))
	r.change("c2")
	r.up()
	eventually(t, "the replacement", followed.has("started c2"))
	if _, err := r.driver().Kill(t.Context(), "bot"); err != nil {
		t.Fatal(err)
	}
	r.mustTurn("bot", "")
	eventually(t, "the restart", followed.has(fmt.Sprintf("started c2 as %d", r.replica().PID)))
	r.down()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("follow: %v", err)
	}
	var kept lines
	if err := r.driver().Logs(t.Context(), runtime.LogOptions{Tail: -1}, kept.emit); err != nil {
		t.Fatal(err)
	}
	if !kept.has(first)() {
		t.Errorf("down lost the log: %q", kept.get())
	}
	for _, line := range kept.get() {
		if len(line) > maxLogLine+100 {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
	if !kept.has("bot-1 end")() {
		t.Error("the end of a long line is missing")
	}
}

func TestCopyLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("y", 2*maxLogLine+3)
	var got []string
	copyLines(bytes.NewReader([]byte("a\r\n\n"+long+"\nlast")), func(s string) { got = append(got, s) })
	want := []string{"a", "", long[:maxLogLine], long[:maxLogLine], "yyy", "last"}
	if !slices.Equal(got, want) {
		t.Errorf("got %d lines", len(got))
	}
}

func TestParseLine(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 29, 17, 0, 0, 123456000, time.UTC)
	for in, want := range map[string]runtime.Line{
		"2026-11-29T17:00:00.123456Z bot-1 hello  world": {Time: at, Replica: "bot-1", Text: "hello  world"},
		"2026-11-29T17:00:00.123456Z bot-1 ":             {Time: at, Replica: "bot-1"},
		"rest of a line":                                 {Text: "rest of a line"},
		"":                                               {},
	} {
		if got := parseLine(in); got != want {
			t.Errorf("%q: %+v", in, got)
		}
	}
}

// A log that cannot be written loses lines, not the agent.
func TestLogThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	log, err := openLog(filepath.Join(t.TempDir(), "bot.log"), maxLogFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.close(); err != nil {
		t.Fatal(err)
	}
	k := newKeeper(startRequest{}, nil, log, func(string) {}, nil)
	k.output("still here")
	reply, err := k.await(context.Background(), 0, false)
	if err != nil || !slices.Equal(reply.Log, []string{"still here"}) {
		t.Errorf("await: %+v, %v", reply, err)
	}
}

// A rotation that came as far as the new name, and then had no descriptor for a
// new file, is finished by the next line.
func TestLogRotationThatStopsHalfWay(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "bot.log")
	log, err := openLog(path, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer log.close()
	if err := log.write("bot-1", strings.Repeat("x", 90)); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := log.write("bot-1", "after it"); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil || !strings.HasSuffix(string(data), " bot-1 after it\n") {
		t.Errorf("the new file holds %q, %v", data, err)
	}
}
