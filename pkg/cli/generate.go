package cli

import (
	"strings"

	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/stack/genfile"
)

// stale is what of a project's generated files is not as its flisk.yaml says,
// whatever runtime it uses: plain Compose, which does not ask, is never to run
// what was said some time ago. A file that a person changed is an error.
//
// The files are those of the project itself. An instance has none of its own.
func stale(p *project.Project) (genfile.Change, error) {
	files, err := genfile.Of(stack.Of(p, ""))
	if err != nil {
		return genfile.Change{}, err
	}
	return genfile.Plan(p.Dir, files)
}

// regenerate writes what is stale, as a step of its own, and reports whether
// there was anything.
func regenerate(p *project.Project, steps runtime.Progress) (bool, error) {
	change, err := stale(p)
	if err != nil {
		return false, err
	}
	if len(change.Stale) == 0 {
		return false, change.Apply() // their permissions may be wrong
	}
	var names []string
	for _, s := range change.Stale {
		names = append(names, s.Path)
	}
	end := steps.Begin("write " + strings.Join(names, ", "))
	err = change.Apply()
	end("", err)
	return err == nil, err
}
