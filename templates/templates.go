// Package templates holds the files that a new project begins with. Each has
// ".tmpl" behind its name, also those in which nothing is filled in: an embed
// leaves out a directory that holds a go.mod, and a Go file here would be
// compiled.
package templates

import (
	"embed"
	"io/fs"
)

// "all:" because most files that begin with a dot would be left out.
//
//go:embed all:project
var files embed.FS

// Suffix is behind the name of every file.
const Suffix = ".tmpl"

// Project is the tree of a project, as text/template source.
func Project() fs.FS {
	tree, err := fs.Sub(files, "project")
	if err != nil { // the directory is part of this program
		panic(err)
	}
	return tree
}

// Data is what the templates may use.
type Data struct {
	Name    string // of the project
	ID      string // of the project
	Agent   string // name of the one agent that a project begins with
	Volume  string // name of the volume
	Port    int    // of the gateway
	Library string // module path of the library
	Go      string // version for the go directive: the library's
}
