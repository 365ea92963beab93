package agent

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
func inputHash(input json.RawMessage) (string, error) {
	dec := json.NewDecoder(bytes.NewReader(input))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return "", err
	}
	canonical, err := encodeJSON(v) // maps are written with sorted keys
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
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
