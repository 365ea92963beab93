package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/mount"

	"github.com/flisk-go/flisk/pkg/fault"
)

func TestLogs(t *testing.T) {
	t.Parallel()
	everywhere(t, func(r *rig) {
		t := r.t
		before := time.Now().Add(-time.Second)
		id, _ := r.run(r.spec("bot", "say", "out \x1b[31m $x", "err"))
		lines := r.lines(id, logOptions{tail: -1})
		slices.SortFunc(lines, func(a, b logLine) int { return strings.Compare(a.text, b.text) })
		if len(lines) != 2 || lines[0].text != "err" || !lines[0].stderr || lines[1].text != "out \x1b[31m $x" || lines[1].stderr {
			t.Fatalf("got %+v", lines)
		}
		for _, l := range lines {
			if l.time.Before(before) || l.time.After(time.Now().Add(time.Second)) {
				t.Errorf("%+v is of another time", l)
			}
		}
		if got := r.lines(id, logOptions{tail: 1}); len(got) != 1 {
			t.Errorf("the last line is %+v", got)
		}
		if got := r.lines(id, logOptions{tail: 0}); len(got) != 0 {
			t.Errorf("no line is %+v", got)
		}
		if got := r.lines(id, logOptions{tail: -1, since: time.Now().Add(time.Minute)}); len(got) != 0 {
			t.Errorf("of the future: %+v", got)
		}
		errEnough := errors.New("enough")
		if err := r.e.logs(t.Context(), id, logOptions{tail: -1}, func(logLine) error { return errEnough }); err != errEnough {
			t.Errorf("an error of emit came back as %v", err)
		}
		if err := r.e.logs(t.Context(), r.name("none"), logOptions{}, nil); !errors.Is(err, errNotFound) {
			t.Errorf("of no container: %v", err)
		}
	})
}

// The engine cuts lines at 16 KiB and puts a time before each piece.
func TestLongLineIsWhole(t *testing.T) {
	t.Parallel()
	everywhere(t, func(r *rig) {
		const n = 100_000
		id, _ := r.run(r.spec("bot", "long", "100000"))
		lines := r.lines(id, logOptions{tail: -1})
		if len(lines) != 2 || lines[0].text != strings.Repeat("x", n) || lines[1].text != "after" {
			var sizes []int
			for _, l := range lines {
				sizes = append(sizes, len(l.text))
			}
			r.t.Errorf("the lines have %d bytes", sizes)
		}
	})
}

func TestFollowedLogs(t *testing.T) {
	t.Parallel()
	everywhere(t, func(r *rig) {
		t := r.t
		id := r.start(r.spec("bot"))
		ctx, cancel := context.WithCancel(t.Context())
		if err := r.e.logs(ctx, id, logOptions{tail: -1, follow: true}, func(l logLine) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("the end of the context: %v", err)
		}
		var texts []string
		err := r.e.logs(t.Context(), id, logOptions{tail: -1, follow: true}, func(l logLine) error {
			if texts = append(texts, l.text); l.text == "ready" {
				_, err := r.e.stopContainer(t.Context(), id, nil)
				return err
			}
			return nil
		})
		if err != nil || strings.Join(texts, " ") != "ready SIGTERM bye" {
			t.Errorf("got %q, %v", texts, err)
		}
	})
}

func TestFramesThatAreNot(t *testing.T) {
	t.Parallel()
	take := func(bool, []byte) error { return nil }
	for name, stream := range map[string]string{
		"text":       "hello, this is not a stream of frames",
		"cut header": "\x01\x00\x00",
		"cut data":   "\x01\x00\x00\x00\x00\x00\x00\x09short",
		"too large":  "\x01\x00\x00\x00\xff\x00\x00\x00",
		"an error":   "\x03\x00\x00\x00\x00\x00\x00\x04oops",
	} {
		if err := frames(strings.NewReader(stream), take); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := frames(strings.NewReader(""), take); err != nil {
		t.Error(err)
	}
}

func TestRawLogs(t *testing.T) {
	t.Parallel()
	var got []string
	l := logLines{emit: func(l logLine) error { got = append(got, l.text); return nil }}
	long := strings.Repeat("y", 10_000)
	if err := l.raw(strings.NewReader("2025-01-02T03:04:05.000000000Z one\r\n2025-01-02T03:04:05.000000000Z " + long + "\r\nthree")); err != nil {
		t.Fatal(err)
	}
	if err := l.flush(); err != nil || !slices.Equal(got, []string{"one", long, "three"}) {
		t.Errorf("%.100q, %v", got, err)
	}
}

func TestExec(t *testing.T) {
	t.Parallel()
	everywhere(t, func(r *rig) {
		t, e := r.t, r.e
		id := r.start(r.spec("bot"))
		got, err := e.exec(t.Context(), id, []string{"/agent", "health"})
		if err != nil || got.code != 0 || got.output != "health: 200 OK\n" {
			t.Errorf("health: %+v, %v", got, err)
		}
		if got, err := e.exec(t.Context(), id, []string{"/agent", "exit", "9"}); err != nil || got.code != 9 {
			t.Errorf("exit: %+v, %v", got, err)
		}
		if got, err := e.exec(t.Context(), id, []string{"/agent", "say", "a", "b"}); err != nil || len(got.output) != 4 {
			t.Errorf("say: %+v, %v", got, err)
		}
		if got, err := e.exec(t.Context(), id, []string{"/nothing"}); err == nil && got.code != 126 && got.code != 127 {
			t.Errorf("no program: %+v, %v", got, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if got, err := e.exec(ctx, id, []string{"/agent", "long", "5000000"}); err == nil && len(got.output) > maxExecOutput {
			t.Errorf("%d bytes of output", len(got.output))
		}
		if _, err := e.stopContainer(t.Context(), id, nil); err != nil {
			t.Fatal(err)
		}
		_, err = e.exec(t.Context(), id, []string{"/agent", "health"})
		mustFault(t, err, fault.Failed, "is not running")
	})
}

// A container that never ran is enough to read and write a volume.
func TestArchiveWithoutAnythingRunning(t *testing.T) {
	t.Parallel()
	everywhere(t, func(r *rig) {
		t, e := r.t, r.e
		if _, err := e.createVolume(t.Context(), r.name("v"), r.labels()); err != nil {
			t.Fatal(err)
		}
		s := r.spec("look")
		s.host.ReadonlyRootfs = false // engines refuse the archive API on a read-only root
		s.host.Mounts = []mount.Mount{{Type: mount.TypeVolume, Source: r.name("v"), Target: "/data"}}
		id := r.create(s)
		var archive bytes.Buffer
		w := tar.NewWriter(&archive)
		put(w, tar.Header{Name: "sessions/", Mode: 0o755, Typeflag: tar.TypeDir, Uid: runUser, Gid: runUser}, nil)
		put(w, tar.Header{Name: "sessions/s1", Mode: 0o600, Uid: runUser, Gid: runUser}, []byte("hello"))
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := e.putArchive(t.Context(), id, "/data", &archive); err != nil {
			t.Fatal(err)
		}
		body, err := e.getArchive(t.Context(), id, "/data/sessions")
		if err != nil {
			t.Fatal(err)
		}
		defer body.Close()
		found := false
		for reader := tar.NewReader(body); ; {
			h, err := reader.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if h.Name == "sessions/s1" {
				data, err := io.ReadAll(reader)
				found = err == nil && string(data) == "hello"
				if r.fake == nil && h.Uid != runUser {
					t.Errorf("it belongs to %d", h.Uid)
				}
			}
		}
		if !found {
			t.Error("what was written was not read")
		}
		if _, err := e.getArchive(t.Context(), id, "/data/none"); !errors.Is(err, errNotFound) {
			t.Errorf("no file: %v", err)
		}
	})
}
