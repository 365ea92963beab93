package console

import "unicode/utf8"

// keyFilter stands between a terminal and the line editor, which waits for the
// rest of whatever it takes for the beginning of a key, and keeps every later key
// waiting with it. So only whole keys and whole characters pass, Ctrl-C is found
// here, and what the editor must not draw stays out: the control characters that
// no key makes and, in a paste, all but line breaks.
type keyFilter struct {
	held        string // the beginning of a key or, in a paste, of the mark that ends it
	partial     string // the beginning of a character
	pasting     bool   // between the marks of a paste
	cr          bool   // the last byte of a paste was a carriage return
	ctrlC       bool   // the last byte of a paste was a Ctrl-C: perhaps typed, for want of the end
	interrupted bool   // Ctrl-C was typed, not pasted; nothing passes any more
}

// What a terminal sends around a paste.
const (
	pasteStart = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
)

const (
	ctrlC  = 0x03
	escape = 0x1b
	del    = 0x7f
)

// replacement stands in the place of what is no UTF-8.
const replacement = "\ufffd"

// pass adds what may pass to dst.
func (f *keyFilter) pass(dst, p []byte) []byte {
	for _, b := range p {
		switch {
		case f.pasting:
			dst = f.pasted(dst, b)
		case b == ctrlC:
			f.interrupted = true
			return dst
		default:
			dst = f.typed(dst, b)
		}
	}
	return dst
}

// unsure reports whether it matters that nothing follows.
func (f *keyFilter) unsure() bool {
	if f.pasting {
		return f.ctrlC
	}
	return f.held != ""
}

// silence says that nothing followed what was passed last. An unfinished key is
// forgotten; a Ctrl-C in a paste was typed, since a paste goes on.
func (f *keyFilter) silence() {
	if f.pasting {
		f.interrupted = f.interrupted || f.ctrlC
		return
	}
	f.held = ""
}

// typed takes a byte outside of a paste. A key is an escape character and
// another one or, when that is a bracket, all up to a letter or a tilde. What
// cannot be in a key ends it, and is not lost with it.
func (f *keyFilter) typed(dst []byte, b byte) []byte {
	const longest = 32 // no key comes near
	switch {
	case b == escape:
		f.held = string(rune(b))
		return f.cut(dst)
	case f.held == "":
		return f.text(dst, b)
	case b < ' ' || b >= del || len(f.held) == longest:
		f.held = ""
		return f.text(dst, b)
	}
	f.held += string(rune(b))
	switch {
	case len(f.held) == 2:
		if b != '[' {
			f.held = "" // the editor knows no such key
		}
	case 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || b == '~':
		f.pasting = f.held == pasteStart
		dst = append(dst, f.held...)
		f.held = ""
	}
	return dst
}

func (f *keyFilter) pasted(dst []byte, b byte) []byte {
	f.ctrlC = b == ctrlC
	if b == pasteEnd[len(f.held)] {
		dst = f.cut(dst)
		if f.held += string(rune(b)); f.held == pasteEnd {
			f.pasting, f.held = false, ""
			dst = append(dst, pasteEnd...)
		}
		return dst
	}
	if f.held != "" { // it was no mark, and goes without the escape character
		dst, f.held = append(dst, f.held[1:]...), ""
		return f.pasted(dst, b)
	}
	cr := f.cr
	f.cr = b == '\r'
	if b < ' ' && b != '\r' && b != '\n' || b == del || b == '\n' && cr {
		return dst
	}
	return f.text(dst, b)
}

// text takes a byte of a character. C1 control characters do not pass.
func (f *keyFilter) text(dst []byte, b byte) []byte {
	f.partial += string([]byte{b})
	for f.partial != "" && utf8.FullRuneInString(f.partial) {
		r, size := utf8.DecodeRuneInString(f.partial)
		switch {
		case r == utf8.RuneError:
			dst = append(dst, replacement...)
		case r < 0x80 || r >= 0xa0:
			dst = append(dst, f.partial[:size]...)
		}
		f.partial = f.partial[size:]
	}
	return dst
}

// cut ends a character that an escape character follows.
func (f *keyFilter) cut(dst []byte) []byte {
	for range len(f.partial) {
		dst = append(dst, replacement...)
	}
	f.partial = ""
	return dst
}
