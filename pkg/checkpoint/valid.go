package checkpoint

import (
	"bytes"
	"encoding/binary"
)

// validJSON reports whether a value is JSON that is nested at most MaxDepth
// levels deep: what [json.Valid] and [depth] say, of text in a tenth of the time.
// Each turn asks it for all that it brings.
func validJSON(value []byte) bool {
	p := walker{rest: value}
	if !p.value() {
		return false
	}
	p.space()
	return len(p.rest) == 0
}

// walker takes JSON off the front of a text. Its methods report false when what
// they are for does not stand there.
type walker struct {
	rest  []byte
	level int
}

func (p *walker) value() bool {
	p.space()
	if len(p.rest) == 0 {
		return false
	}
	switch p.rest[0] {
	case '"':
		return p.str()
	case '{':
		return p.nested('}', p.member)
	case '[':
		return p.nested(']', p.value)
	case 't':
		return p.word("true")
	case 'f':
		return p.word("false")
	case 'n':
		return p.word("null")
	}
	return p.number()
}

// nested takes an array or an object: its items, up to the closing bracket.
func (p *walker) nested(shut byte, item func() bool) bool {
	if p.level++; p.level > MaxDepth {
		return false
	}
	p.rest = p.rest[1:]
	if p.space(); !p.char(shut) {
		for first := true; first || p.char(','); first = false {
			if !item() {
				return false
			}
			p.space()
		}
		if !p.char(shut) {
			return false
		}
	}
	p.level--
	return true
}

func (p *walker) member() bool {
	p.space()
	if !p.str() {
		return false
	}
	p.space()
	return p.char(':') && p.value()
}

func (p *walker) str() bool {
	if !p.char('"') {
		return false
	}
	b := p.rest
	for {
		b = b[plain(b):]
		switch {
		case len(b) == 0 || b[0] < ' ':
			return false
		case b[0] == '"':
			p.rest = b[1:]
			return true
		}
		n := escape(b)
		if n == 0 {
			return false
		}
		b = b[n:]
	}
}

// plain is how many bytes at the beginning of the rest of a string stand for
// themselves. It looks at eight at once: at each, whether it is below a space,
// a quote, or a backslash, which the borrow of a subtraction tells.
func plain(b []byte) (n int) {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; len(b)-n >= 8; n += 8 {
		w := binary.LittleEndian.Uint64(b[n:])
		quote, slash := w^(ones*'"'), w^(ones*'\\')
		if ((w-ones*' ')&^w|(quote-ones)&^quote|(slash-ones)&^slash)&highs != 0 {
			break
		}
	}
	for n < len(b) && b[n] >= ' ' && b[n] != '"' && b[n] != '\\' {
		n++
	}
	return n
}

// escape is the length of the escape that b begins with, 0 when it is none.
func escape(b []byte) int {
	const short, long = len(`\n`), len(`\u0000`)
	if len(b) < short {
		return 0
	}
	if b[1] != 'u' {
		if bytes.IndexByte([]byte(`"\/bfnrt`), b[1]) < 0 {
			return 0
		}
		return short
	}
	if len(b) < long {
		return 0
	}
	for _, c := range b[short:long] {
		if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'f') {
			return 0
		}
	}
	return long
}

func (p *walker) number() bool {
	p.char('-')
	if !p.char('0') && !p.digits() {
		return false
	}
	if p.char('.') && !p.digits() {
		return false
	}
	if p.char('e') || p.char('E') {
		if !p.char('+') {
			p.char('-')
		}
		return p.digits()
	}
	return true
}

func (p *walker) digits() bool {
	n := 0
	for n < len(p.rest) && p.rest[n] >= '0' && p.rest[n] <= '9' {
		n++
	}
	p.rest = p.rest[n:]
	return n > 0
}

func (p *walker) space() {
	for len(p.rest) > 0 && (p.rest[0] == ' ' || p.rest[0] == '\n' || p.rest[0] == '\t' || p.rest[0] == '\r') {
		p.rest = p.rest[1:]
	}
}

func (p *walker) char(c byte) bool {
	if len(p.rest) == 0 || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

func (p *walker) word(w string) bool {
	found := bytes.HasPrefix(p.rest, []byte(w))
	if found {
		p.rest = p.rest[len(w):]
	}
	return found
}
