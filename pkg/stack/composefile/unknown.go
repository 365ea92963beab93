package composefile

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/flisk-go/flisk/pkg/fault"
)

// The loader says of a key that Compose does not know where it is and that the
// schema is against it, in one of two ways.
var (
	falseSchema = regexp.MustCompile(`: (\S+) false schema$`)
	additional  = regexp.MustCompile(`: (\S*) ?additional properties '([^']+)'`)
)

// unknownKey is the fault of a key that Compose does not know, in the words of
// flisk.yaml's; ok is false when err is about something else.
func unknownKey(err error, override types.ConfigFile) (_ error, ok bool) {
	if err == nil {
		return nil, false
	}
	var path []string
	if m := falseSchema.FindStringSubmatch(err.Error()); m != nil {
		path = strings.Split(m[1], ".")
	} else if m := additional.FindStringSubmatch(err.Error()); m != nil {
		path = append(strings.FieldsFunc(m[1], func(r rune) bool { return r == '.' }), m[2])
	} else {
		return nil, false
	}
	key := path[len(path)-1]
	known := applied
	for _, part := range path[:len(path)-1] {
		below, found := known[part]
		if !found {
			below = known["*"]
		}
		known = below
	}
	at := filepath.Base(override.Filename)
	if line := onlyLine(string(override.Content), key); line > 0 {
		at += fmt.Sprintf(":%d", line)
	}
	text := fmt.Sprintf("unknown key %q", key)
	if len(path) > 2 {
		text = fmt.Sprintf("%s %q: unknown key %q", strings.TrimSuffix(path[0], "s"), path[1], strings.Join(path[2:], "."))
	}
	if near := fault.Nearest(key, slices.Sorted(maps.Keys(known))); near != "" {
		text += fmt.Sprintf("; did you mean %q?", near)
	}
	return &fault.Fault{Kind: fault.Usage, Message: at + ": " + text, Err: err}, true
}

// onlyLine is the number of the one line that begins with a key; 0 when there are
// none or several, because the loader does not say which one it means.
func onlyLine(content, key string) int {
	at := 0
	for i, line := range strings.Split(content, "\n") {
		rest, found := strings.CutPrefix(strings.TrimLeft(line, " -"), key)
		if !found || !strings.HasPrefix(strings.TrimSpace(rest), ":") {
			continue
		}
		if at > 0 {
			return 0
		}
		at = i + 1
	}
	return at
}
