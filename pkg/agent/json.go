package agent

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

var errNotUTF8 = errors.New("it is not valid UTF-8")

// encodeJSON is json.Marshal without the escaping of <, > and &: what is stored
// is what a reader sees.
func encodeJSON(v any) (json.RawMessage, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	if !utf8.Valid(buf.Bytes()) { // only a json.RawMessage or a Marshaler can smuggle such bytes in
		return nil, errNotUTF8
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// compactJSON checks that raw is one JSON value in UTF-8 and returns it without
// insignificant space. The bytes of strings and numbers stay as they are.
func compactJSON(raw []byte) (json.RawMessage, error) {
	if !utf8.Valid(raw) {
		return nil, errNotUTF8
	}
	var buf bytes.Buffer
	buf.Grow(len(raw))
	if err := json.Compact(&buf, raw); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// inputHash is equal for inputs that mean the same JSON: space, the order of
// keys and the way that a string is escaped do not count. Numbers keep their
// text, because 1 and 1.0 may differ to the agent, and large ones must not be
// rounded into each other.
//
// input is one valid JSON value without insignificant space.
func inputHash(input json.RawMessage) (string, error) {
	canonical := input
	if !plainString(input) {
		var err error
		if canonical, err = canonicalJSON(input); err != nil {
			return "", err
		}
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}

// canonicalJSON is the same for all ways to write a value: its strings are
// escaped in one way, and its keys are sorted.
func canonicalJSON(raw json.RawMessage) (json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	return encodeJSON(v)
}

// plainString reports whether a valid JSON value is a string that can be written
// in one way only. It may say no of one that is: most inputs are plain text, and
// for them alone is it worth to ask.
func plainString(raw []byte) bool {
	// encoding/json escapes the line separators U+2028 and U+2029, which begin so.
	return raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0 && bytes.IndexByte(raw, 0xE2) < 0
}

// checkUnambiguous refuses JSON that two readers can take for two values: an
// object with a key twice, and one half of a surrogate pair, which decoders
// replace. Inputs that differ must have hashes that differ. raw is valid JSON.
func checkUnambiguous(raw json.RawMessage) error {
	if plainString(raw) {
		return nil
	}
	if i := loneSurrogate(raw); i >= 0 {
		return fmt.Errorf("the escape at byte %d is one half of a surrogate pair", i)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()            // 1e400 is JSON, and no float64
	var open []map[string]bool // of each enclosing object its keys so far; nil for an array
	key := false               // a key comes next, if an object is open
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('{'):
			open, key = append(open, map[string]bool{}), true
			continue
		case json.Delim('['):
			open = append(open, nil)
			continue
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
			key = true // in the object around it, if it is one
			continue
		}
		if len(open) == 0 || open[len(open)-1] == nil {
			continue
		}
		if name, isString := token.(string); key && isString {
			if open[len(open)-1][name] {
				return fmt.Errorf("an object has the key %q twice", clip(name))
			}
			open[len(open)-1][name] = true
		}
		key = !key
	}
}

// loneSurrogate finds an escape of one half of a surrogate pair, or returns -1.
func loneSurrogate(raw []byte) int {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++
		if raw[i] != 'u' {
			continue
		}
		switch r := escaped(raw[i-1:]); {
		case utf16.IsSurrogate(r) && utf16.DecodeRune(r, escaped(raw[i+5:])) != unicode.ReplacementChar:
			i += 10 // both halves
		case utf16.IsSurrogate(r):
			return i - 1
		}
	}
	return -1
}

// escaped is the code of the \u escape that b begins with, or 0.
func escaped(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0
	}
	r, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return 0
	}
	return rune(r)
}

// decodeStrict stores the JSON in v. Unknown fields, and anything behind the
// value, are errors.
func decodeStrict(raw json.RawMessage, v any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("something follows the value")
	}
	return nil
}
