package project

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/flisk-go/flisk/pkg/fault"
)

// decoder walks the tree of one file and collects what is wrong with it. It
// reads the source text of every scalar, so that an id of digits only stays
// what it is.
type decoder struct {
	lines    []string
	problems Problems
	warnings []Warning
}

func (d *decoder) problem(n *yaml.Node, format string, args ...any) {
	d.problems = append(d.problems, d.at(n, format, args...))
}

func (d *decoder) warn(n *yaml.Node, format string, args ...any) {
	d.warnings = append(d.warnings, d.at(n, format, args...))
}

func (d *decoder) at(n *yaml.Node, format string, args ...any) Problem {
	p := Problem{Line: n.Line, Column: n.Column, Message: fmt.Sprintf(format, args...)}
	if n.Line >= 1 && n.Line <= len(d.lines) {
		p.Source = d.lines[n.Line-1]
	}
	return p
}

// field is one known key of a mapping.
type field struct {
	name     string
	required string // what the file lacks without it; "" when there is a default
	read     func(*yaml.Node)
}

// fields reads a mapping whose keys are known. An empty value counts as an empty
// mapping, so that "bot:" is an agent with every default.
func (d *decoder) fields(n *yaml.Node, where string, fields ...field) {
	var known []string
	for _, f := range fields {
		known = append(known, f.name)
	}
	seen := map[string]bool{}
	ok := d.pairs(n, where, func(key, value *yaml.Node) {
		i := slices.Index(known, key.Value)
		if i < 0 {
			d.problem(key, "unknown key %s%s%s", quote(key.Value), in(where), didYouMean(key.Value, known))
			seen[fault.Nearest(key.Value, known)] = true // one slip is one problem: what was meant is not missing, too
			return
		}
		seen[key.Value] = true
		fields[i].read(value)
	})
	if !ok {
		return
	}
	for _, f := range fields {
		if f.required != "" && !seen[f.name] {
			d.problem(n, "key %q is missing%s: %s", f.name, in(where), f.required)
		}
	}
}

// pairs calls each for every key of a mapping, once. It reports false, with a
// problem noted, for anything but a mapping.
func (d *decoder) pairs(n *yaml.Node, where string, each func(key, value *yaml.Node)) bool {
	if !d.plain(n) {
		return false
	}
	if null(n) {
		return true
	}
	if n.Kind != yaml.MappingNode {
		d.problem(n, "%s must hold keys and values, not %s", where, kindOf(n))
		return false
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Kind != yaml.ScalarNode || key.Tag == "!!merge" || key.Tag == "!!null":
			d.problem(key, "a key must be a plain word")
		case !d.plain(key):
		case lines[key.Value] > 0:
			d.problem(key, "key %s is given twice; the first is in line %d", quote(key.Value), lines[key.Value])
		default:
			lines[key.Value] = key.Line
			each(key, value)
		}
	}
	return true
}

// plain refuses what makes YAML hard to read: a value that comes from somewhere
// else, or is not what it looks like.
func (d *decoder) plain(n *yaml.Node) bool {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		d.problem(n, "anchors and aliases are not supported; write the value out")
	case n.Style&yaml.TaggedStyle != 0:
		d.problem(n, "tags are not supported; write the value without %q", n.Tag)
	default:
		return true
	}
	return false
}

// text reads a scalar as it is written: a number stays its digits.
func (d *decoder) text(n *yaml.Node, what string) (string, bool) {
	if !d.plain(n) {
		return "", false
	}
	switch {
	case null(n):
		d.problem(n, "%s is empty", what)
	case n.Kind != yaml.ScalarNode:
		d.problem(n, "%s must be a text, not %s", what, kindOf(n))
	default:
		return n.Value, true
	}
	return "", false
}

// texts reads a list of scalars, and calls each for every one.
func (d *decoder) texts(n *yaml.Node, what string, each func(n *yaml.Node, s string)) bool {
	if !d.plain(n) {
		return false
	}
	if n.Kind != yaml.SequenceNode {
		d.problem(n, "%s must be a list such as [a, b], not %s", what, kindOf(n))
		return false
	}
	for _, item := range n.Content {
		if s, ok := d.text(item, "an entry of "+what); ok {
			each(item, s)
		}
	}
	return true
}

// integer reads a whole number from low to high.
func (d *decoder) integer(n *yaml.Node, what string, low, high int) (int, bool) {
	if !d.plain(n) {
		return 0, false
	}
	v, err := strconv.Atoi(n.Value)
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || err != nil || strconv.Itoa(v) != n.Value {
		d.problem(n, "%s must be a whole number, not %s", what, kindOf(n))
		return 0, false
	}
	if v < low || v > high {
		d.problem(n, "%s must be from %d to %d, not %d", what, low, high, v)
		return 0, false
	}
	return v, true
}

// boolean reads true or false; yes, no, on and off are texts.
func (d *decoder) boolean(n *yaml.Node, what string, into *bool) {
	if !d.plain(n) {
		return
	}
	if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" || n.Value != "true" && n.Value != "false" {
		d.problem(n, "%s must be true or false, not %s", what, kindOf(n))
		return
	}
	*into = n.Value == "true"
}

// choice reads one of a few words.
func (d *decoder) choice(n *yaml.Node, what string, words ...string) (string, bool) {
	s, ok := d.text(n, what)
	if !ok {
		return "", false
	}
	if !slices.Contains(words, s) {
		d.problem(n, "%s cannot be %s%s", what, quote(s), didYouMean(s, words))
		return "", false
	}
	return s, true
}

// maxDuration is far above any sensible budget, and far below what overflows
// when budgets are added up.
const maxDuration = 24 * time.Hour

// duration reads "100s", "1m30s" and the like.
func (d *decoder) duration(n *yaml.Node, what string, into *time.Duration) {
	s, ok := d.text(n, what)
	if !ok {
		return
	}
	v, err := time.ParseDuration(s)
	switch {
	case err != nil && strings.Trim(s, "0123456789") == "" && s != "":
		d.problem(n, "%s needs a unit: %s", what, quote(s+"s"))
	case err != nil:
		d.problem(n, `%s must be a duration such as "100s" or "2m", not %s`, what, quote(s))
	case v <= 0 || v > maxDuration:
		d.problem(n, "%s must be above 0 and at most 24h, not %s", what, quote(s))
	default:
		*into = v
	}
}

type sizeUnit struct {
	name  string
	bytes int64
}

// sizeUnits are what may follow the number of a size.
var sizeUnits = []sizeUnit{
	{"", 1}, {"B", 1},
	{"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9},
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30},
}

// size reads "1MiB", "64 KiB", "500kB" or a plain number of bytes.
func (d *decoder) size(n *yaml.Node, what string, low, high int64, into *int64) {
	s, ok := d.text(n, what)
	if !ok {
		return
	}
	digits := s[:len(s)-len(strings.TrimLeft(s, "0123456789"))]
	unit := strings.TrimLeft(s[len(digits):], " ")
	v, err := strconv.ParseInt(digits, 10, 64)
	i := slices.IndexFunc(sizeUnits, func(u sizeUnit) bool { return u.name == unit })
	switch {
	case i < 0 && digits != "":
		var names []string
		for _, u := range sizeUnits[1:] {
			names = append(names, u.name)
		}
		d.problem(n, "%s has the unknown unit %s%s", what, quote(unit), didYouMean(unit, names))
	case err != nil:
		d.problem(n, `%s must be a size such as "1MiB", not %s`, what, quote(s))
	case v < (low+sizeUnits[i].bytes-1)/sizeUnits[i].bytes || v > high/sizeUnits[i].bytes: // before the product can overflow
		d.problem(n, "%s must be from %d to %d bytes, not %s", what, low, high, quote(s))
	default:
		*into = v * sizeUnits[i].bytes
	}
}

func null(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// kindOf names a value for people, and shows it when it is a scalar.
func kindOf(n *yaml.Node) string {
	switch {
	case null(n):
		return "nothing"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.MappingNode:
		return "keys and values"
	}
	return quote(n.Value)
}

// quote shows a value from the file on one line, of a long one the beginning.
func quote(s string) string {
	const most = 60
	if runes := []rune(s); len(runes) > most {
		return strconv.Quote(string(runes[:most])) + "…"
	}
	return strconv.Quote(s)
}

// in is " in agents.bot", or nothing for the file itself.
func in(where string) string {
	if where == FileName {
		return ""
	}
	return " in " + where
}
