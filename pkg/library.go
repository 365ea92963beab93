// Package library carries the source of the library half of flisk: what an
// agent is compiled with. A scaffold gets a copy of it, so that an agent builds
// without a network, and by the library of the very flisk that made it.
package library

import (
	"embed"
	"io/fs"
	"path"
	"strings"
)

// A pattern a package, because an embed would leave out a directory with a
// go.mod and take test data along. A test holds the list against what pkg/agent
// imports.
//
//go:embed agent/*.go checkpoint/*.go turn/*.go internal/durable/*.go
var sources embed.FS

// ModulePath is the module that the sources belong to.
const ModulePath = "github.com/flisk-go/flisk"

// Source is one file of the library.
type Source struct {
	Path    string // in the module, with slashes: "pkg/agent/agent.go"
	Content []byte
}

// Sources returns the library without its tests, in the order of the paths.
func Sources() []Source {
	var out []Source
	err := fs.WalkDir(sources, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(name, "_test.go") {
			return err
		}
		content, err := sources.ReadFile(name)
		out = append(out, Source{path.Join("pkg", name), content})
		return err
	})
	if err != nil { // the files are part of this program
		panic(err)
	}
	return out
}
