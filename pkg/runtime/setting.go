package runtime

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Setting is one setting that a replica is started with, for the cause of a
// step.
type Setting struct {
	Name   string // as flisk.yaml or an env file has it
	Value  string // for people; of a secret, what tells it from another value and no more
	Secret bool   // Value is never shown
}

// maxChanges bounds how many settings a cause names.
const maxChanges = 3

// changes names the settings that differ: "turn_timeout 1m40s → 30s, MODEL_KEY
// changed"; "" when none does.
func changes(old, now []Setting) string {
	var what []string
	find := func(list []Setting, name string) (Setting, bool) {
		i := slices.IndexFunc(list, func(s Setting) bool { return s.Name == name })
		if i < 0 {
			return Setting{}, false
		}
		return list[i], true
	}
	for _, s := range now {
		before, had := find(old, s.Name)
		switch {
		case !had:
			what = append(what, s.Name+" is new")
		case before == s:
		case s.Secret || before.Secret:
			what = append(what, s.Name+" changed")
		default:
			what = append(what, fmt.Sprintf("%s %s → %s", s.Name, cmp.Or(before.Value, "none"), cmp.Or(s.Value, "none")))
		}
	}
	for _, s := range old {
		if _, has := find(now, s.Name); !has {
			what = append(what, s.Name+" is gone")
		}
	}
	if more := len(what) - maxChanges; more > 0 {
		what = append(what[:maxChanges], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(what, ", ")
}

// WithoutFlisk leaves out of an environment what would tell an agent about other
// surroundings than its own.
func WithoutFlisk(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, "FLISK_") })
}
