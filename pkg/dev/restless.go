package dev

import "slices"

// restless finds out that the stack itself writes files of the project, whose
// change starts it again, which writes them again. The zero value knows of none.
type restless struct {
	inARow int      // reloads, each for what changed during the one before
	paths  []string // what changed
	off    []string // what reloads nothing now; nil for nothing
}

// tooMany reloads in a row, each for what was saved during the one before, are no
// person's doing: nobody saves exactly then again and again.
const tooMany = 8

// reload reports whether a change is a reason to reload. during says that it came
// while the reload before went on.
func (r *restless) reload(paths []string, during bool) bool {
	if r.off != nil && len(without(paths, r.off)) == 0 {
		return false
	}
	if !during || r.off != nil {
		*r = restless{}
		return true
	}
	r.inARow++
	r.paths = append(r.paths, without(paths, r.paths)...)
	if r.inARow < tooMany {
		return true
	}
	slices.Sort(r.paths)
	r.off = r.paths
	return false
}

func without(paths, others []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return slices.Contains(others, p) })
}
