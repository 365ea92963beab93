package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// TestDevEndsWhenNobodyReads: as with | head. Everything is stopped through its
// drain, and nobody is told of it.
func TestDevEndsWhenNobodyReads(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args  []string
		downs int32
	}{
		{[]string{"dev"}, 1}, {[]string{"dev", "--json"}, 1}, {[]string{"dev", "--keep"}, 0},
	} {
		for _, left := range []int{0, 30} { // it ends at an event, and at a line of an agent's
			d := observing(runtime.Observed{Running: true, Gateway: "127.0.0.1:8080", Replicas: []runtime.Replica{{Agent: "bot", Name: "bot-1", Serving: true, State: runtime.Ready}}})
			var downs atomic.Int32
			up := make(chan struct{})
			d.up = func(context.Context, runtime.Progress) (runtime.Report, error) {
				close(up)
				return runtime.Report{Changed: true, URL: "http://127.0.0.1:8080"}, nil
			}
			d.down = func(context.Context, runtime.Progress) (runtime.Report, error) {
				downs.Add(1)
				return runtime.Report{}, nil
			}
			d.logs = func(ctx context.Context, _ runtime.LogOptions, emit func(runtime.Line) error) error {
				select {
				case <-up:
				case <-ctx.Done():
				}
				for left > 0 && ctx.Err() == nil {
					if err := emit(runtime.Line{Replica: "bot-1", Text: "thinking"}); err != nil {
						return err
					}
				}
				<-ctx.Done()
				return nil
			}
			var stderr bytes.Buffer
			a := &app{
				streams: &console.Streams{Out: console.NewOutput(&gonePipe{left: left}, console.OutputOptions{}), Err: console.NewOutput(&stderr, console.OutputOptions{})},
				environ: []string{"FLISK_HOME=" + t.TempDir()}, askEngine: answering(false),
				newDriver: func(*app, project.Runtime, *project.Project, <-chan struct{}) (runtime.Driver, error) { return d, nil },
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			code := a.run(ctx, append(c.args, "-C", projectDir(t, false)))
			if ctx.Err() != nil || code != exitReaderGone || downs.Load() != c.downs || stderr.Len() > 0 {
				t.Errorf("%q after %d writes: exit code %d, %d downs, %v\n%s", c.args, left, code, downs.Load(), ctx.Err(), stderr.String())
			}
			cancel()
		}
	}
}

// begun is a run of flisk dev on a project, and what it says.
func begun(t *testing.T, dir string) (*devRun, *bytes.Buffer) {
	t.Helper()
	p, _, err := project.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := &bytes.Buffer{}
	a := &app{streams: &console.Streams{Out: console.NewOutput(out, console.OutputOptions{})}}
	a.global.dir = dir
	progress := console.NewProgress(a.streams.Out, "")
	d := &devRun{app: a, progress: progress, screen: newDevScreen(a, progress), choice: choice{on: project.Process}, began: p}
	t.Cleanup(d.screen.close)
	return d, out
}

// TestDevGoesByThePath of its project, also when the directory that it was begun in
// is another one by now.
func TestDevGoesByThePath(t *testing.T) {
	s := &sighted{T: t, dir: projectDir(t, false)}
	t.Chdir(s.dir)
	d, _ := begun(t, ".")
	content, err := os.ReadFile(project.FileName)
	if err != nil {
		t.Fatal(err)
	}
	old := s.dir + ".old"
	if err := os.Rename(s.dir, old); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(old) }) // the other one is removed, too
	s.save(project.FileName, strings.Replace(string(content), "port: 8080", "port: 8081", 1))
	p, err := d.settings()
	if err != nil || p.Gateway.Port != 8081 || p.Dir != d.began.Dir {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestDevSaysThatALinkWasTurned: whoever saves behind it would wait for ever, also in
// a directory of the project.
func TestDevSaysThatALinkWasTurned(t *testing.T) {
	for _, inside := range []string{"", "shop"} {
		t.Run("in "+inside, func(t *testing.T) { testTurnedLink(t, inside) })
	}
}

func testTurnedLink(t *testing.T, inside string) {
	one, other, link := projectDir(t, false), projectDir(t, false), filepath.Join(t.TempDir(), "bot")
	for _, dir := range []string{one, other} {
		if err := os.MkdirAll(filepath.Join(dir, inside), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	turn := func(to string) {
		t.Helper()
		if err := errors.Join(os.RemoveAll(link), os.Symlink(to, link)); err != nil {
			t.Fatal(err)
		}
	}
	turn(one)
	synctest.Test(t, func(t *testing.T) {
		d, out := begun(t, filepath.Join(link, inside))
		said := make(chan struct{})
		go func() {
			defer close(said)
			d.watchPlace(t.Context())
		}()
		time.Sleep(10 * placeEvery)
		select {
		case <-said:
			t.Errorf("said at first: %s", out)
		default:
		}
		turn(other)
		<-said
		if got := out.String(); strings.Count(got, "leads to") != 1 || !strings.Contains(got, filepath.Base(other)) {
			t.Errorf("said: %q", got)
		}
	})
}

// TestDevStaysOnItsRuntime, and says so when flisk.yaml has another one.
func TestDevStaysOnItsRuntime(t *testing.T) {
	t.Parallel()
	for to, says := range map[string]bool{"docker": true, "process": false, "auto": false} {
		s := &sighted{T: t, dir: projectDir(t, false)}
		d, out := begun(t, s.dir)
		s.more("runtime: " + to + "\n")
		for range 2 {
			if _, err := d.settings(); err != nil {
				t.Fatal(err)
			}
		}
		if got := strings.Count(out.String(), "stays on process"); (got == 1) != says || got > 1 {
			t.Errorf("runtime: %s: it says %q", to, out)
		}
	}
}

// TestDevAlarms: what keeps it from reading files is said each time that it begins,
// what is odd once.
func TestDevAlarms(t *testing.T) {
	t.Parallel()
	d, out := begun(t, projectDir(t, false))
	unreadable := errors.New("cannot read the project's files")
	for range 2 {
		d.screen.alarm(unreadable)
		d.screen.warn(errDeclined)
	}
	if got := out.String(); strings.Count(got, unreadable.Error()) != 2 || strings.Count(got, errDeclined.Error()) != 1 {
		t.Errorf("said: %s", got)
	}
}
