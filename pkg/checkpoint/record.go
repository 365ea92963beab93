package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// kind is what a line is about.
type kind string

const (
	kindHeader    kind = "header"
	kindSnapshot  kind = "snapshot"
	kindBegin     kind = "begin"
	kindAttempt   kind = "attempt"
	kindCommit    kind = "commit"
	kindFailed    kind = "failed"
	kindReleased  kind = "released"
	kindParked    kind = "parked"
	kindMark      kind = "mark"
	kindDelivered kind = "delivered"
)

// payload is the d of a line.
type payload interface {
	kind() kind
	appendJSON(dst []byte) []byte
}

// formatVersion is the version in the header. A file with a higher one is left
// alone.
const formatVersion = 1

// header is the first line. Len is the size of what was synced before the
// rename that put the file in its place: everything in it is on disk.
type header struct {
	V       int    `json:"v"`
	Volume  string `json:"volume"`
	Agent   string `json:"agent"`
	Session string `json:"session"`
	Salt    string `json:"salt"`
	Len     int64  `json:"len"`
}

// begin is written before a turn runs.
type begin struct {
	Turn   int             `json:"turn"`
	TurnID string          `json:"turn_id"`
	Key    string          `json:"key"`
	Hash   string          `json:"hash"`
	Input  json.RawMessage `json:"input"`
}

// attempt names the process that takes a begun turn up.
type attempt struct {
	Replica string `json:"replica"`
	Number  int    `json:"number"`
}

// commit is a turn. The conversation after it is the first Keep messages of the
// one before it, then Add. State is absent when the turn left it as it was.
type commit struct {
	Turn   int             `json:"turn"`
	TurnID string          `json:"turn_id"`
	Key    string          `json:"key"`
	Hash   string          `json:"hash"`
	Reply  json.RawMessage `json:"reply"`
	Keep   int             `json:"keep"`
	Add    []stored        `json:"add"`
	State  json.RawMessage `json:"state"`
}

// ended says how a turn ended that was not committed: failed or parked. With
// released it has not ended: a drain gave it back.
type ended struct {
	as     kind
	TurnID string `json:"turn_id"`
	Reason string `json:"reason"`
}

// note is a line that says all by its kind and its s: mark or delivered.
type note struct{ as kind }

// snapshot is what all lines up to its n add up to. One that does not fit into
// a line goes on in the next, with More in all parts but the last.
type snapshot struct {
	Turn     int             `json:"turn"`
	Turns    []storedTurn    `json:"turns"`
	Messages []stored        `json:"messages"`
	State    json.RawMessage `json:"state"`
	More     bool            `json:"more"`
}

// storedTurn is one turn in a snapshot. End is "" for a committed one.
type storedTurn struct {
	Turn      int             `json:"turn"`
	TurnID    string          `json:"turn_id"`
	Key       string          `json:"key"`
	Hash      string          `json:"hash"`
	Reply     json.RawMessage `json:"reply"`
	End       kind            `json:"end"`
	Reason    string          `json:"reason"`
	Delivered bool            `json:"delivered"`
}

// stored is a message, or what stands for messages that are already elsewhere
// in the file.
type stored struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	Ref     string          `json:"ref"`
	Turn    int             `json:"turn"`  // refReply in a snapshot: whose
	From    int             `json:"from"`  // refOld: the first one
	Count   int             `json:"count"` // refOld: how many
}

// What a stored message may refer to.
const (
	refInput = "input" // the input in the begin of this turn
	refReply = "reply" // the reply of this commit, or in a snapshot of turn Turn
	refOld   = "old"   // Count messages of the conversation before this turn
)

func (header) kind() kind   { return kindHeader }
func (snapshot) kind() kind { return kindSnapshot }
func (begin) kind() kind    { return kindBegin }
func (attempt) kind() kind  { return kindAttempt }
func (commit) kind() kind   { return kindCommit }
func (e ended) kind() kind  { return e.as }
func (n note) kind() kind   { return n.as }

func (h header) appendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = appendIntField(dst, "v", int64(h.V))
	dst = appendStringField(dst, "volume", h.Volume)
	dst = appendStringField(dst, "agent", h.Agent)
	dst = appendStringField(dst, "session", h.Session)
	dst = appendStringField(dst, "salt", h.Salt)
	dst = appendIntField(dst, "len", h.Len)
	return append(dst, '}')
}

// appendTurn adds what begin, commit and storedTurn have in common.
func appendTurn(dst []byte, number int, id, key, hash string) []byte {
	dst = append(dst, '{')
	dst = appendIntField(dst, "turn", int64(number))
	dst = appendStringField(dst, "turn_id", id)
	dst = appendStringField(dst, "key", key)
	return appendStringField(dst, "hash", hash)
}

func (b begin) appendJSON(dst []byte) []byte {
	dst = appendTurn(dst, b.Turn, b.TurnID, b.Key, b.Hash)
	dst = append(appendField(dst, "input"), b.Input...)
	return append(dst, '}')
}

func (a attempt) appendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = appendStringField(dst, "replica", a.Replica)
	dst = appendIntField(dst, "number", int64(a.Number))
	return append(dst, '}')
}

func (c commit) appendJSON(dst []byte) []byte {
	dst = appendTurn(dst, c.Turn, c.TurnID, c.Key, c.Hash)
	dst = append(appendField(dst, "reply"), c.Reply...)
	dst = appendIntField(dst, "keep", int64(c.Keep))
	dst = append(appendField(dst, "add"), '[')
	for i, m := range c.Add {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = m.appendJSON(dst)
	}
	dst = append(dst, ']')
	if c.State != nil {
		dst = append(appendField(dst, "state"), c.State...)
	}
	return append(dst, '}')
}

func (m stored) appendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	if m.Ref == refOld {
		dst = appendStringField(dst, "ref", m.Ref)
		dst = appendIntField(dst, "from", int64(m.From))
		dst = appendIntField(dst, "count", int64(m.Count))
		return append(dst, '}')
	}
	dst = appendString(appendField(dst, "role"), m.Role)
	if m.Ref == "" {
		dst = append(appendField(dst, "content"), m.Content...)
	} else {
		dst = appendStringField(dst, "ref", m.Ref)
		if m.Turn != 0 {
			dst = appendIntField(dst, "turn", int64(m.Turn))
		}
	}
	return append(dst, '}')
}

func (e ended) appendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = appendStringField(dst, "turn_id", e.TurnID)
	dst = appendStringField(dst, "reason", e.Reason)
	return append(dst, '}')
}

func (note) appendJSON(dst []byte) []byte { return append(dst, "{}"...) }

func (t storedTurn) appendJSON(dst []byte) []byte {
	dst = appendTurn(dst, t.Turn, t.TurnID, t.Key, t.Hash)
	if t.Reply != nil {
		dst = append(appendField(dst, "reply"), t.Reply...)
	}
	dst = appendStringField(dst, "end", string(t.End))
	dst = appendStringField(dst, "reason", t.Reason)
	if t.Delivered {
		dst = append(appendField(dst, "delivered"), "true"...)
	}
	return append(dst, '}')
}

func (s snapshot) appendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = appendIntField(dst, "turn", int64(s.Turn))
	if len(s.Turns) > 0 {
		dst = append(appendField(dst, "turns"), '[')
		for i, t := range s.Turns {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = t.appendJSON(dst)
		}
		dst = append(dst, ']')
	}
	if len(s.Messages) > 0 {
		dst = append(appendField(dst, "messages"), '[')
		for i, m := range s.Messages {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = m.appendJSON(dst)
		}
		dst = append(dst, ']')
	}
	if s.State != nil {
		dst = append(appendField(dst, "state"), s.State...)
	}
	if s.More {
		dst = append(appendField(dst, "more"), "true"...)
	}
	return append(dst, '}')
}

// decodePayload reads the d of a line. Its errors mean a newer version: the
// bytes are as they were written.
func decodePayload(k kind, d []byte) (payload, error) {
	switch k {
	case kindHeader:
		return decode[header](d)
	case kindSnapshot:
		return decode[snapshot](d)
	case kindBegin:
		return decode[begin](d)
	case kindAttempt:
		return decode[attempt](d)
	case kindCommit:
		return decode[commit](d)
	case kindFailed, kindReleased, kindParked:
		e, err := decode[ended](d)
		e.as = k
		return e, err
	case kindMark, kindDelivered:
		if string(d) != "{}" {
			return nil, fmt.Errorf("a %s line has fields that this version does not know", k)
		}
		return note{k}, nil
	}
	return nil, fmt.Errorf("a line is of the unknown kind %q", k)
}

// decode is strict: a field that this version does not know would be lost when
// the file is rewritten.
func decode[T any](d []byte) (v T, err error) {
	dec := json.NewDecoder(bytes.NewReader(d))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		return v, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return v, errors.New("something follows the value")
	}
	return v, nil
}
