package source

import (
	"bytes"
	"path"
	"slices"
	"strconv"
	"strings"
)

// embed is one pattern of a go:embed directive.
type embed struct {
	dir     string // of the Go file
	pattern string
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
		lineStart := at == 0 || content[at-1] == '\n'
		line, rest, _ := bytes.Cut(content[at+len(embedDirective):], []byte{'\n'})
		content = rest
		if lineStart {
			for _, pattern := range embedPatterns(string(line)) {
				out = append(out, embed{dir, path.Clean(strings.TrimPrefix(pattern, "all:"))})
			}
		}
	}
	return out
}

// embeds are the directives of all Go files of a tree.
type embeds []embed

func (all embeds) cover(file string) bool {
	return slices.ContainsFunc(all, func(e embed) bool { return e.covers(file) })
}

// embedPatterns splits a directive: patterns between spaces, quoted or not.
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
		word, rest, _ := strings.Cut(line, " ")
		out = append(out, word)
		line = rest
	}
}

// covers reports whether a file is one that the directive embeds, or in a
// directory that it embeds.
func (e embed) covers(file string) bool {
	rel, below := file, !strings.HasPrefix(file, "../")
	if e.dir != "." {
		rel, below = strings.CutPrefix(file, e.dir+"/")
	}
	if !below {
		return false
	}
	depth := strings.Count(e.pattern, "/") + 1
	names := strings.SplitN(rel, "/", depth+1)
	return len(names) >= depth && match(e.pattern, strings.Join(names[:depth], "/"))
}
