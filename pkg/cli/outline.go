package cli

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/flisk-go/flisk/pkg/turn"
)

// readable is a JSON value as people read it: a string as its text, an object as
// a line a member, a list as a line an element, in their own order. Whoever
// wants JSON asks for it.
func readable(value json.RawMessage) string {
	dec := json.NewDecoder(bytes.NewReader(value))
	dec.UseNumber()
	var lines []string
	if err := outline(dec, "", "", &lines); err != nil {
		return turn.Text(value)
	}
	return strings.Join(lines, "\n")
}

// outline adds the lines of the next value. Its first line begins with lead,
// the others with indent.
func outline(dec *json.Decoder, lead, indent string, lines *[]string) error {
	token, err := dec.Token()
	if err != nil {
		return err
	}
	delim, ok := token.(json.Delim)
	if !ok {
		text, isText := token.(string)
		if !isText {
			b, err := json.Marshal(token)
			if err != nil {
				return err
			}
			text = string(b)
		}
		for line := range strings.SplitSeq(text, "\n") {
			*lines = append(*lines, lead+line)
			lead = indent
		}
		return nil
	}
	switch {
	case !dec.More():
		*lines = append(*lines, lead+"(empty)")
	case strings.HasSuffix(lead, ": "):
		*lines = append(*lines, strings.TrimSuffix(lead, " ")) // what a member holds goes below its name
		lead = indent
	}
	for dec.More() {
		next, deeper := lead+"- ", indent+"  "
		if delim == '{' {
			name, err := dec.Token()
			if err != nil {
				return err
			}
			next = lead + strings.ReplaceAll(name.(string), "\n", " ") + ": " // a member's name is always a string
		}
		if err := outline(dec, next, deeper, lines); err != nil {
			return err
		}
		lead = indent
	}
	_, err = dec.Token()
	return err
}
