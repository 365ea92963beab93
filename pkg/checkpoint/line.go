package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// A session file is lines of JSON:
//
//	{"h":"<32 hex>","n":17,"s":15,"k":"commit","ts":"…","d":{…}}
//
// h is the first half of SHA-256(salt ‖ everything behind the h field, without
// the newline). The salt is random, in the file's header, and never leaves the
// volume, so no text of a user passes for a line, and no stale bytes of another
// file do. The header's own salt is the id of the volume.
//
// n counts the lines without a gap and never begins again. s is the n of the
// newest line that was known to be on disk when this one was written.
// ts is for people; nothing depends on it.

const (
	linePrefix = `{"h":"`
	hashHex    = 32                            // characters of h
	hashedFrom = len(linePrefix) + hashHex + 1 // where the hashed bytes begin
	saltSize   = 16
	timeLayout = "2006-01-02T15:04:05.000Z"
)

// writeLimit bounds the begin and commit lines that are written. The rest up to
// MaxLine is room for the longer names that a snapshot gives the same content.
const writeLimit = MaxLine - 1024

// line is one line of a file. d aliases the bytes it was read from.
type line struct {
	n, s       uint64
	kind       kind
	d          []byte
	start, end int // where it is in the file; end is behind the newline
}

// errLine says that bytes are not a line under the given salt: torn, rotten, or
// of another file.
var errLine = errors.New("not a valid line")

// appendLine adds a whole line with one payload.
func appendLine(dst, salt []byte, n, s uint64, at time.Time, p payload) []byte {
	start := len(dst)
	dst = append(dst, linePrefix...)
	dst = append(dst, "00000000000000000000000000000000"[:hashHex]...)
	dst = append(dst, `","n":`...)
	dst = strconv.AppendUint(dst, n, 10)
	dst = append(dst, `,"s":`...)
	dst = strconv.AppendUint(dst, s, 10)
	dst = append(dst, `,"k":"`...)
	dst = append(dst, p.kind()...)
	dst = append(dst, `","ts":"`...)
	dst = at.UTC().AppendFormat(dst, timeLayout)
	dst = append(dst, `","d":`...)
	dst = p.appendJSON(dst)
	dst = append(dst, '}')
	sealLine(dst[start:], salt)
	return append(dst, '\n')
}

// appendResealed adds a copy of a line under another salt.
func appendResealed(dst, salt, raw []byte) []byte {
	start := len(dst)
	dst = append(dst, raw...)
	sealLine(dst[start:len(dst)-1], salt)
	return dst
}

// sealLine fills the hash of a line (without its newline) in.
func sealLine(raw, salt []byte) {
	sum := lineHash(raw, salt)
	hex.Encode(raw[len(linePrefix):], sum[:hashHex/2])
}

func lineHash(raw, salt []byte) (sum [sha256.Size]byte) {
	h := sha256.New()
	h.Write(salt)
	h.Write(raw[hashedFrom:])
	h.Sum(sum[:0])
	return sum
}

// cutLine returns the bytes of the line that begins at off, with its newline.
// Nothing longer than MaxLine is taken for one.
func cutLine(data []byte, off int) ([]byte, bool) {
	rest := data[off:min(len(data), off+MaxLine)]
	nl := bytes.IndexByte(rest, '\n')
	if nl < 0 {
		return nil, false
	}
	return rest[:nl+1], true
}

// decodeLine reads one line with its newline. Its error is errLine when the
// hash does not fit, else it tells what was written by a newer version.
func decodeLine(raw, salt []byte) (line, error) {
	if len(raw) < hashedFrom+1 || !bytes.HasPrefix(raw, []byte(linePrefix)) || raw[hashedFrom-1] != '"' {
		return line{}, errLine
	}
	raw = raw[:len(raw)-1]
	var want [hashHex / 2]byte
	if _, err := hex.Decode(want[:], raw[len(linePrefix):hashedFrom-1]); err != nil {
		return line{}, errLine
	}
	if sum := lineHash(raw, salt); !bytes.Equal(sum[:hashHex/2], want[:]) {
		return line{}, errLine
	}
	// From here on the bytes are as somebody wrote them.
	p := scanner{rest: raw[hashedFrom:]}
	p.literal(`,"n":`)
	l := line{n: p.number()}
	p.literal(`,"s":`)
	l.s = p.number()
	p.literal(`,"k":"`)
	l.kind = kind(p.until('"'))
	p.literal(`,"ts":"`)
	p.until('"')
	p.literal(`,"d":`)
	if p.failed || len(p.rest) < 2 || p.rest[len(p.rest)-1] != '}' {
		return line{}, errors.New("a line has fields that this version does not know")
	}
	l.d = p.rest[:len(p.rest)-1]
	return l, nil
}

// scanner takes a line's fixed parts off its front.
type scanner struct {
	rest   []byte
	failed bool
}

func (p *scanner) literal(s string) {
	if !bytes.HasPrefix(p.rest, []byte(s)) {
		p.failed = true
		return
	}
	p.rest = p.rest[len(s):]
}

func (p *scanner) number() uint64 {
	i := 0
	for i < len(p.rest) && p.rest[i] >= '0' && p.rest[i] <= '9' {
		i++
	}
	n, err := strconv.ParseUint(string(p.rest[:i]), 10, 63)
	p.failed = p.failed || err != nil
	p.rest = p.rest[i:]
	return n
}

func (p *scanner) until(c byte) []byte {
	i := bytes.IndexByte(p.rest, c)
	if i < 0 {
		p.failed = true
		return nil
	}
	found := p.rest[:i]
	p.rest = p.rest[i+1:]
	return found
}

// depth is how deep arrays and objects are nested in a value.
func depth(value []byte) (deepest int) {
	level, quoted := 0, false
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case quoted:
			switch c {
			case '\\':
				i++ // whatever it is, it does not end the string
			case '"':
				quoted = false
			}
		case c == '"':
			quoted = true
		case c == '[' || c == '{':
			level++
			deepest = max(deepest, level)
		case c == ']' || c == '}':
			level--
		}
	}
	return deepest
}

// appendString adds a JSON string.
func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, err := json.Marshal(s)
			if err != nil { // no string fails to marshal
				panic(err)
			}
			return append(dst, quoted...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

// appendField adds `,"name":` (without the comma behind an opening brace).
func appendField(dst []byte, name string) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	dst = append(dst, '"')
	dst = append(dst, name...)
	return append(dst, `":`...)
}

func appendStringField(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	return appendString(appendField(dst, name), value)
}

func appendIntField(dst []byte, name string, value int64) []byte {
	return strconv.AppendInt(appendField(dst, name), value, 10)
}

// oneLine returns a value as it can stand in a line: valid JSON that is not
// nested too deep, the caller's bytes copied, without the line breaks that JSON
// allows between tokens.
func oneLine(what string, value json.RawMessage) (json.RawMessage, error) {
	if !validJSON(value) {
		if d := depth(value); d > MaxDepth {
			return nil, fmt.Errorf("%w: %s is nested %d levels deep, at most %d are allowed", ErrTooLarge, what, d, MaxDepth)
		}
		return nil, fmt.Errorf("%s is not valid JSON", what)
	}
	if bytes.IndexByte(value, '\n') < 0 {
		return bytes.Clone(value), nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, value); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return b.Bytes(), nil
}
