package dev

import (
	"path"
	"slices"
	"strings"
	"time"
)

// restless finds out that the stack itself writes a file of the project, whose
// change starts it again, which writes the file. The zero value knows of none.
type restless struct {
	suspects []string    // what changed each time
	since    []time.Time // when
	off      []string    // what reloads nothing now
	told     bool
}

// So many reloads for the same files within such a time are no person's doing.
const (
	tooMany = 5
	tooFast = 10 * time.Second
)

// filter is what of the changed paths is a reason to reload; nil when nothing is.
func (r *restless) filter(paths []string, now time.Time) []string {
	if r.off != nil && len(without(paths, r.off)) == 0 {
		return nil
	}
	if slices.ContainsFunc(paths, isCode) || !slices.Equal(paths, r.suspects) {
		*r = restless{suspects: paths}
	}
	r.since = slices.DeleteFunc(r.since, func(t time.Time) bool { return now.Sub(t) > tooFast })
	if r.since = append(r.since, now); len(r.since) > tooMany && !slices.ContainsFunc(paths, isCode) {
		r.off = r.suspects
	}
	return paths
}

// paused are the files that reload nothing any more, the first time that it is
// asked for.
func (r *restless) paused() []string {
	if r.off == nil || r.told {
		return nil
	}
	r.told = true
	return r.off
}

// isCode reports whether a file is one that people write and programs do not.
func isCode(name string) bool {
	base := path.Base(name)
	return path.Ext(name) == ".go" || base == "go.mod" || base == "go.sum" || base == "flisk.yaml" ||
		strings.HasPrefix(base, ".env") || strings.HasPrefix(base, "compose.")
}

func without(paths, others []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return slices.Contains(others, p) })
}
