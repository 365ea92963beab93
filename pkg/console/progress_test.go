package console

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestProgressOnATerminal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, buf := screen(false)
		p := NewProgress(o, "")

		end := p.Begin("load")
		end("", nil)
		if got := buf.String(); got != "✓ load\n" {
			t.Errorf("a short step drew %q", got)
		}
		buf.Reset()

		end = p.Begin("build bot")
		time.Sleep(950 * time.Millisecond)
		synctest.Wait()
		if buf.String() != "" {
			t.Errorf("a spinner came early: %q", buf)
		}
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if got := buf.String(); got != "⠋ build bot  1.0 s\n" {
			t.Errorf("the spinner is %q", got)
		}
		buf.Reset()
		fmt.Fprint(p.Output(), "go: downloading\nhalf")
		if got := buf.String(); got != "\r\x1b[1A\x1b[J  go: downloading\n⠋ build bot  1.0 s\n" {
			t.Errorf("tool output drew %q", got)
		}
		buf.Reset()
		p.Note("warning", Warn, "look\x1b[2J")
		if got := buf.String(); got != "\r\x1b[1A\x1b[Jwarning: look\\x1b[2J\n⠋ build bot  1.0 s\n" {
			t.Errorf("a note drew %q", got)
		}
		buf.Reset()
		end("", nil)
		if got := buf.String(); got != "\r\x1b[1A\x1b[J  half\n✓ build bot  1.0 s\n" {
			t.Errorf("the end drew %q", got)
		}
		buf.Reset()

		p.Begin("start")("", errors.New("exit status 1"))
		p.Begin("ready")("", fmt.Errorf("stopped: %w", context.Canceled))
		p.Begin("stop")("was idle", nil)
		if got := buf.String(); got != "✗ start\n✗ ready  interrupted\n✓ stop  was idle\n" {
			t.Errorf("got %q", got)
		}
		buf.Reset()

		done := p.Wait("thinking")
		time.Sleep(1050 * time.Millisecond)
		synctest.Wait()
		done()
		if got := buf.String(); !strings.HasSuffix(got, "thinking  1.0 s\n\r\x1b[1A\x1b[J") {
			t.Errorf("a transient step left %q", got)
		}
	})
}

func TestStatusStaysBelow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, buf := screen(false)
		p := NewProgress(o, "")
		p.SetStatus("bot  ready", "cat  ready")
		if got := buf.String(); got != "bot  ready\ncat  ready\n" {
			t.Errorf("the status is %q", got)
		}
		buf.Reset()
		end := p.Begin("build bot")
		time.Sleep(1050 * time.Millisecond)
		synctest.Wait()
		if got := buf.String(); !strings.HasSuffix(got, "\r\x1b[2A\x1b[J⠋ build bot  1.0 s\nbot  ready\ncat  ready\n") {
			t.Errorf("a step drew %q", got)
		}
		buf.Reset()
		p.Print("a line")
		if got := buf.String(); got != "\r\x1b[3A\x1b[Ja line\n⠋ build bot  1.0 s\nbot  ready\ncat  ready\n" {
			t.Errorf("a line drew %q", got)
		}
		buf.Reset()
		end("", nil)
		if got := buf.String(); got != "\r\x1b[3A\x1b[J✓ build bot  1.0 s\nbot  ready\ncat  ready\n" {
			t.Errorf("the end drew %q", got)
		}
		buf.Reset()
		p.SetStatus()
		if got := buf.String(); got != "\r\x1b[2A\x1b[J" {
			t.Errorf("no status drew %q", got)
		}

		o, buf = pipe()
		p = NewProgress(o, "")
		p.SetStatus("bot  ready")
		p.Print("a line")
		if got := buf.String(); got != "a line\n" {
			t.Errorf("a pipe got %q", got)
		}
	})
}

func TestProgressOnAPipe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, buf := pipe()
		p := NewProgress(o, "")
		end := p.Begin("build bot")
		time.Sleep(12 * time.Second)
		end("", nil)
		if got := buf.String(); got != "… build bot\n✓ build bot  12 s\n" {
			t.Errorf("got %q", got)
		}
	})
}

func TestProgressKeepsSpinnersOnOneLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, buf := screen(true)
		p := NewProgress(o, "")
		end := p.Begin("build " + strings.Repeat("x", 100) + "\x1b[2J\n")
		time.Sleep(1050 * time.Millisecond)
		synctest.Wait()
		line := strings.TrimSuffix(buf.String(), "\n")
		if strings.Contains(line, "\n") || Width(line) > 79 || !strings.Contains(line, "…") || !strings.Contains(line, "1.0 s") || strings.Contains(line, "\x1b[2J") {
			t.Errorf("the spinner is %q", line)
		}
		end("", nil)
	})
}

func TestSilentProgress(t *testing.T) {
	t.Parallel()
	p := Silent()
	end := p.Begin("x")
	if n, err := p.Output().Write([]byte("y")); n != 1 || err != nil {
		t.Errorf("Write = %d, %v", n, err)
	}
	end("", nil)
}

// Steps begin and end on many goroutines; the goroutine that draws is joined
// whenever the last one ends (synctest fails on one that is left).
func TestProgressFromManyGoroutines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, buf := pipe()
		p := NewProgress(o, "")
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				end := p.Begin(fmt.Sprintf("step %d", i))
				time.Sleep(time.Duration(i%7) * 100 * time.Millisecond)
				end("", nil)
				end("twice", nil)
			})
		}
		wg.Wait()
		if n := strings.Count(buf.String(), "✓"); n != 50 {
			t.Errorf("%d steps left a line, want 50", n)
		}
	})
}
