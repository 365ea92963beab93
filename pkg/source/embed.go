package source

import (
	"bytes"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// embed is one pattern of a go:embed directive.
type embed struct {
	dir     string // of the Go file
	pattern string
	all     bool // also what begins with "." or "_" below a directory that it matches
}

var embedDirective = []byte("//go:embed")

// embedsOf finds the directives of a Go file. What looks like one and is none,
// in a long string, makes one more file count, and harms nothing.
func embedsOf(dir string, content []byte) []embed {
	var out []embed
	for len(content) > 0 {
		at := bytes.Index(content, embedDirective)
		if at < 0 {
			break
		}
		lineStart := len(bytes.TrimRight(content[:at], " \t")) // in a group it is indented
		line, rest, _ := bytes.Cut(content[at+len(embedDirective):], []byte{'\n'})
		begins := lineStart == 0 || content[lineStart-1] == '\n'
		content = rest
		if !begins || len(line) == 0 || line[0] != ' ' && line[0] != '\t' {
			continue
		}
		for _, pattern := range embedPatterns(string(line)) {
			pattern, all := strings.CutPrefix(pattern, "all:")
			out = append(out, embed{dir, path.Clean(pattern), all})
		}
	}
	return out
}

// embeds are the directives of all Go files of a tree.
type embeds []embed

func (all embeds) cover(file string) bool {
	return slices.ContainsFunc(all, func(e embed) bool { return e.covers(file) })
}

func (all embeds) reach(dir string) bool {
	return slices.ContainsFunc(all, func(e embed) bool { return e.reaches(dir) })
}

// embedPatterns splits a directive: patterns between white space, quoted or not.
func embedPatterns(line string) []string {
	var out []string
	for {
		if line = strings.TrimSpace(line); line == "" {
			return out
		}
		if quoted, err := strconv.QuotedPrefix(line); err == nil {
			if pattern, err := strconv.Unquote(quoted); err == nil {
				out = append(out, pattern)
			}
			line = line[len(quoted):]
			continue
		}
		end := strings.IndexFunc(line, unicode.IsSpace)
		if end < 0 {
			end = len(line)
		}
		out = append(out, line[:end])
		line = line[end:]
	}
}

// covers reports whether a file is one that the directive embeds, or in a
// directory that it embeds.
func (e embed) covers(file string) bool {
	names, ok := e.below(file)
	depth := strings.Count(e.pattern, "/") + 1
	if !ok || len(names) < depth || !match(e.pattern, strings.Join(names[:depth], "/")) {
		return false
	}
	return e.all || !slices.ContainsFunc(names[depth:], func(name string) bool { return name[0] == '.' || name[0] == '_' })
}

// reaches reports whether a file below a directory can be one that the directive
// embeds.
func (e embed) reaches(dir string) bool {
	names, ok := e.below(dir)
	pattern := strings.Split(e.pattern, "/")
	if !ok || len(names) >= len(pattern) {
		return e.covers(dir)
	}
	return match(strings.Join(pattern[:len(names)], "/"), strings.Join(names, "/"))
}

// below are the names of a path that is below the directive's directory.
func (e embed) below(file string) ([]string, bool) {
	rel, below := file, !strings.HasPrefix(file, "../")
	if e.dir != "." {
		rel, below = strings.CutPrefix(file, e.dir+"/")
	}
	return strings.Split(rel, "/"), below
}
