package project

import (
	"bytes"
	"cmp"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Identify reads a flisk.yaml that [Load] refuses as far as it can be read, so
// that a mistake in the file keeps nobody from looking at what runs, or from
// stopping it. It reports false when not even the project's id can be read.
//
// Dir and ID are what the file says, and so are the names of the agents and of
// the volume and the gateway's address as far as they can be read; a volume that
// cannot is "", agents that cannot are missing. The settings of an agent may be
// defaults: nothing must be started from the result.
func Identify(dir string) (*Project, bool) {
	root, err := Find(dir)
	if err != nil {
		return nil, false
	}
	data, err := read(filepath.Join(root, FileName))
	if err != nil {
		return nil, false
	}
	p := defaults(root)
	d := &decoder{}
	d.project(salvage(data), &p) // its problems are Load's to tell
	p.Name = cmp.Or(p.Name, p.ID)
	return &p, p.ID != ""
}

// salvage parses each top-level section of a file by itself and leaves out those
// that are not YAML: an open bracket in one loses no other.
func salvage(data []byte) *yaml.Node {
	all := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for _, section := range sections(data) {
		var documents []yaml.Node
		if yaml.Load(section, &documents, yaml.WithAllDocuments()) != nil || len(documents) == 0 {
			continue
		}
		if top := documents[0].Content; len(top) == 1 && top[0].Kind == yaml.MappingNode {
			all.Content = append(all.Content, top[0].Content...)
		}
	}
	return all
}

// sections cuts a file before every line that begins in the first column with
// anything but a comment.
func sections(data []byte) [][]byte {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	var all [][]byte
	begin, end := 0, 0
	for line := range bytes.Lines(data) {
		if !strings.ContainsRune(" \t#\r\n", rune(line[0])) && end > begin {
			all = append(all, data[begin:end])
			begin = end
		}
		end += len(line)
	}
	return append(all, data[begin:])
}
