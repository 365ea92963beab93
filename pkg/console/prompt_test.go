package console

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
)

func asking(input io.Reader) (*Streams, *buffer) {
	err, buf := screen(false)
	return &Streams{In: Input{Reader: input, Terminal: true}, Out: err, Err: err}, buf
}

func TestConfirmTakesOnlyAClearYes(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]bool{
		"y\n": true, "Y\n": true, "yes\r\n": true, " YES \n": true, "y": true,
		"\n": false, "n\n": false, "no\n": false, "yep\n": false, "": false, "x y\n": false, "ny\n": false,
	} {
		s, buf := asking(strings.NewReader(answer + "left"))
		if !strings.HasSuffix(answer, "\n") {
			s.In.Reader = strings.NewReader(answer)
		}
		got, err := s.Confirm(t.Context(), "remove 2 sessions\x1b[2J?")
		if err != nil || got != want {
			t.Errorf("%q is %v (%v), want %v", answer, got, err, want)
		}
		if !strings.HasPrefix(buf.String(), `remove 2 sessions\x1b[2J? [y/N] `) {
			t.Errorf("%q: the question was %q", answer, buf)
		}
		if rest, _ := io.ReadAll(s.In.Reader); strings.HasSuffix(answer, "\n") && string(rest) != "left" {
			t.Errorf("%q: %q is left for the next reader", answer, rest)
		}
	}
}

func TestConfirmAsksOnATerminalOnly(t *testing.T) {
	t.Parallel()
	for _, off := range []func(*Streams){
		func(s *Streams) { s.In.Terminal = false },
		func(s *Streams) { s.Err, _ = pipe() },
	} {
		s, buf := asking(strings.NewReader("y\n"))
		off(s)
		if got, err := s.Confirm(t.Context(), "really?"); got || !errors.Is(err, ErrNoTerminal) || buf.String() != "" {
			t.Errorf("it said %v (%v) and printed %q", got, err, buf)
		}
	}
}

// A question that nobody answers can be left, by whatever ends the context.
func TestConfirmCanBeLeft(t *testing.T) {
	t.Parallel()
	in, hand, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer hand.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	s, _ := asking(in)
	enough := errors.New("enough")
	go cancel(enough)
	if got, err := s.Confirm(ctx, "really?"); got || !errors.Is(err, enough) {
		t.Errorf("it said %v (%v)", got, err)
	}
	if _, err := s.Confirm(ctx, "really?"); !errors.Is(err, enough) {
		t.Errorf("asked again: %v", err)
	}
	if _, err := hand.WriteString("yes\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Confirm(t.Context(), "really?"); !got || err != nil {
		t.Errorf("a pipe's answer is %v (%v)", got, err)
	}
}

// lines reads until an error.
func lines(t *testing.T, input io.Reader, out *Output) (got []string, err error) {
	t.Helper()
	l := NewLineReader(Input{Reader: input, Terminal: true}, out, "> ")
	for {
		line, err := l.Read(t.Context())
		if err != nil {
			return got, err
		}
		got = append(got, line)
	}
}

func TestLineReader(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, typed string
		want        []string
		err         error
	}{
		{"lines", "one\rtwo\r", []string{"one", "two"}, io.EOF},
		{"backspace", "onf\x7fe\r", []string{"one"}, io.EOF},
		{"arrows", "ne\x1b[D\x1b[Do\r", []string{"one"}, io.EOF},
		{"history", "one\rtwo\r\x1b[A\x1b[A\r", []string{"one", "two", "one"}, io.EOF},
		{"unicode", "zwölf ¢ 日本 👩‍👩‍👧\r", []string{"zwölf ¢ 日本 👩‍👩‍👧"}, io.EOF},
		{"Ctrl-D", "one\r\x04two\r", []string{"one"}, io.EOF},
		{"Ctrl-C", "one\rtwo\x03", []string{"one"}, ErrInterrupt},
		{"paste", pasteStart + "one\rtwo" + pasteEnd + " three\r", []string{"one\ntwo three"}, io.EOF},
		{"paste that ends with a line", pasteStart + "one\r\ntwo\r\n" + pasteEnd + "\r", []string{"one\ntwo\n"}, io.EOF},
		{"paste of escapes", pasteStart + "\x1b[31mred\x07\u009b\x03" + pasteEnd + "\r", []string{"[31mred"}, io.EOF},
		{"escape before the end of a paste", pasteStart + "one\x1b" + pasteEnd + "\rtwo\r", []string{"one", "two"}, io.EOF},
		{"half an end of a paste", pasteStart + "one\x1b[20x" + pasteEnd + "\r", []string{"one[20x"}, io.EOF},
	} {
		for _, slow := range []bool{false, true} {
			out, buf := screen(true)
			var input io.Reader = strings.NewReader(c.typed)
			if slow {
				input = iotest.OneByteReader(input)
			}
			got, err := lines(t, input, out)
			if strings.Join(got, "|") != strings.Join(c.want, "|") || !errors.Is(err, c.err) {
				t.Errorf("%s (slow %v): got %q, %v; want %q, %v", c.name, slow, got, err, c.want, c.err)
			}
			for _, bad := range []string{"\x1b[31m", "\x07", "\u009b"} {
				if strings.Contains(buf.String(), bad) {
					t.Errorf("%s: %q was drawn: %q", c.name, bad, buf)
				}
			}
		}
	}
}

// After a Ctrl-C the line is gone, and the history is not.
func TestLineReaderGoesOnAfterCtrlC(t *testing.T) {
	t.Parallel()
	out, _ := screen(false)
	in := new(bytes.Buffer)
	l := NewLineReader(Input{Reader: in, Terminal: true}, out, "> ")
	for _, c := range []struct {
		typed, want string
		err         error
	}{
		{"one\r", "one", nil},
		{"two\x03", "", ErrInterrupt},
		{"\x1b[A\r", "one", nil},
	} {
		in.WriteString(c.typed)
		if got, err := l.Read(t.Context()); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%q is %q (%v), want %q (%v)", c.typed, got, err, c.want, c.err)
		}
	}
}

func TestLineReaderOnADumbTerminal(t *testing.T) {
	t.Parallel()
	var buf buffer
	out := NewOutput(&buf, OutputOptions{Terminal: true})
	got, err := lines(t, strings.NewReader("one\ntwo\n"), out)
	if strings.Join(got, "|") != "one|two" || err != io.EOF || buf.String() != "> > > " {
		t.Errorf("got %q, %v, and it printed %q", got, err, &buf)
	}
}

// A long line that is pasted does not take longer for each character.
func TestLineReaderTakesALongPaste(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("日本 text ", 20_000)
	out, _ := screen(true)
	got, err := lines(t, strings.NewReader(pasteStart+long+pasteEnd+"\r"), out)
	if err != io.EOF || len(got) != 1 || got[0] != long {
		t.Errorf("%d lines, %v", len(got), err)
	}
}
