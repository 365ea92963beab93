package console

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// keyboard is a person's: what was typed in one go, "" for a pause.
type keyboard struct{ goes []string }

func (k *keyboard) Within(time.Duration) (bool, error) {
	if len(k.goes) > 0 && k.goes[0] == "" {
		k.goes = k.goes[1:]
		return false, nil
	}
	return true, nil
}

func (k *keyboard) Read(p []byte) (int, error) {
	for len(k.goes) > 0 && k.goes[0] == "" {
		k.goes = k.goes[1:]
	}
	if len(k.goes) == 0 {
		return 0, io.EOF
	}
	n := copy(p, k.goes[0])
	if k.goes[0] = k.goes[0][n:]; k.goes[0] == "" {
		k.goes = k.goes[1:]
	}
	return n, nil
}

// What reaches the editor, of keys with pauses between them.
func TestKeysWithPauses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		goes []string
		want string
		err  error
	}{
		{"escape, then a bracket", []string{"\x1b", "", "[A"}, "[A", io.EOF},
		{"a key in two reads", []string{"\x1b", "[A"}, "\x1b[A", io.EOF},
		{"unfinished key", []string{"\x1b[1;", "", "3C"}, "3C", io.EOF},
		{"Ctrl-C after escape", []string{"a\x1b", "\x03b"}, "a", ErrInterrupt},
		{"Ctrl-C in a paste without an end", []string{pasteStart + "abc", "\x03", "", "d"}, pasteStart + "abc", ErrInterrupt},
		{"Ctrl-C behind half an end", []string{pasteStart + "abc\x1b[20", "\x03", ""}, pasteStart + "abc[20", ErrInterrupt},
		{"Ctrl-C that was pasted", []string{pasteStart + "a\x03", "b" + pasteEnd, ""}, pasteStart + "ab" + pasteEnd, io.EOF},
		{"a pause in a paste", []string{pasteStart + "a\x1b", "", "[201~"}, pasteStart + "a" + pasteEnd, io.EOF},
		{"half a character, then Ctrl-C", []string{"\xe6\x97", "", "\x03"}, "", ErrInterrupt},
	} {
		got, err := io.ReadAll(&typed{in: &keyboard{c.goes}})
		if err == nil {
			err = io.EOF // as ReadAll has it
		}
		if string(got) != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: got %q, %v; want %q, %v", c.name, got, err, c.want, c.err)
		}
	}
}

// Nothing that is typed keeps what is typed behind it waiting.
func TestNoKeyBlocksTheNext(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, typed string
		want        []string
		err         error
	}{
		{"escape and Ctrl-D", "\x1b\x04", nil, io.EOF},
		{"escape and Ctrl-C", "one\r\x1b\x03", []string{"one"}, ErrInterrupt},
		{"escape and Enter", "one\x1b\r", []string{"one"}, io.EOF},
		{"two escapes", "on\x1b\x1b[De\r", []string{"oen"}, io.EOF},
		{"escape and a digit", "\x1b1one\r", []string{"one"}, io.EOF},
		{"unfinished key and Ctrl-C", "one\x1b[20\x03", nil, ErrInterrupt},
		{"a key without an end", "\x1b[" + strings.Repeat("1", 600) + "\x15one\r", []string{"one"}, io.EOF},
		{"unfinished paste and Ctrl-C", pasteStart + "abc\x03", nil, ErrInterrupt},
		{"no UTF-8", "o\xffn\xc3e\xe6\x97\r\xf0\x9f\x03", []string{"o\ufffdn\ufffde\ufffd\ufffd"}, ErrInterrupt},
		{"no UTF-8 in a paste", pasteStart + "o\xff\rn\xc3" + pasteEnd + "e\r", []string{"o\ufffd\nn\ufffde"}, io.EOF},
		{"a replacement character", "\ufffdone\r\x1b[A\r", []string{"\ufffdone", "\ufffdone"}, io.EOF},
		{"much that is no UTF-8", strings.Repeat("\xff", 400) + "\r", []string{strings.Repeat("\ufffd", 400)}, io.EOF},
	} {
		for _, slow := range []bool{false, true} {
			out, _ := screen(true)
			var input io.Reader = strings.NewReader(c.typed)
			if slow {
				input = iotest.OneByteReader(input)
			}
			got, err := lines(t, input, out)
			if strings.Join(got, "|") != strings.Join(c.want, "|") || !errors.Is(err, c.err) {
				t.Errorf("%s (slow %v): got %q, %v; want %q, %v", c.name, slow, got, err, c.want, c.err)
			}
		}
	}
}

// An open file that sends no more is left by Ctrl-C and by the context, whatever
// was begun on it.
func TestLineReaderCanBeLeft(t *testing.T) {
	t.Parallel()
	enough := errors.New("enough")
	const rest = pasteEnd + "\x15one\r" // clears what was begun, where it was not read before the context ended
	for _, begun := range []string{"\x1b", "\x1b[20", pasteStart + "abc", "\xff", "\xe6\x97"} {
		for _, ctrlC := range []bool{true, false} {
			in, hand, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			defer hand.Close()
			out, _ := screen(false)
			l := NewLineReader(Input{Reader: in, Terminal: true}, out, "> ")
			ctx, cancel := context.WithCancelCause(t.Context())
			want := enough
			if _, err := hand.WriteString(begun); err != nil {
				t.Fatal(err)
			}
			if ctrlC {
				want = ErrInterrupt
				_, err = hand.WriteString("\x03")
			} else {
				go cancel(enough)
			}
			if line, got := l.Read(ctx); err != nil || line != "" || !errors.Is(got, want) {
				t.Errorf("%q, Ctrl-C %v: got %q, %v (%v)", begun, ctrlC, line, got, err)
			}
			cancel(nil)
			if _, err := hand.WriteString(rest); err != nil {
				t.Fatal(err)
			}
			if line, err := l.Read(t.Context()); line != "one" || err != nil {
				t.Errorf("%q, Ctrl-C %v: the next line is %q (%v)", begun, ctrlC, line, err)
			}
		}
	}
}

func TestPatientWithin(t *testing.T) {
	t.Parallel()
	in, hand, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer hand.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	r := Patient(ctx, in)
	defer r.Close()
	started := time.Now()
	if more, err := r.Within(keyPause); more || err != nil || time.Since(started) < keyPause {
		t.Errorf("of nothing it says %v (%v) after %v", more, err, time.Since(started))
	}
	if _, err := hand.WriteString("x"); err != nil {
		t.Fatal(err)
	}
	if more, err := r.Within(time.Hour); !more || err != nil {
		t.Errorf("of a byte it says %v (%v)", more, err)
	}
	if _, err := r.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	go cancel(enough)
	if more, err := r.Within(time.Hour); more || !errors.Is(err, enough) {
		t.Errorf("when it is left it says %v (%v)", more, err)
	}
}
