package source

import (
	"path"
	"strings"
)

// gitPattern is one line of a .gitignore. There is no library for it: those
// that are kept up read some patterns otherwise than git does, and the others
// are not kept up. The test asks git itself.
type gitPattern struct {
	segments []string // between the slashes, each a glob of path.Match, or "**"
	negated  bool     // "!": takes back what an earlier line said
	dirsOnly bool     // "/" at the end
	anchored bool     // "/" elsewhere: for the path below the file's directory, not for the name
}

// parseGitignore reads the content of a .gitignore, as gitignore(5) has it.
func parseGitignore(content string) []gitPattern {
	var out []gitPattern
	for line := range strings.Lines(strings.TrimPrefix(content, "\ufeff")) {
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		if strings.HasPrefix(line, "#") {
			continue
		}
		p := gitPattern{}
		line, p.negated = strings.CutPrefix(trimSpaces(line), "!")
		line, p.dirsOnly = strings.CutSuffix(line, "/")
		p.anchored = strings.Contains(line, "/")
		if line = strings.TrimPrefix(line, "/"); line == "" {
			continue
		}
		for segment := range strings.SplitSeq(line, "/") {
			p.segments = append(p.segments, globOf(segment))
		}
		out = append(out, p)
	}
	return out
}

// trimSpaces takes off the spaces at the end of a line, up to an escaped one.
func trimSpaces(line string) string {
	trimmed := strings.TrimRight(line, " ")
	escapes := len(trimmed) - len(strings.TrimRight(trimmed, `\`))
	if escapes%2 == 1 && len(trimmed) < len(line) {
		return trimmed + " "
	}
	return trimmed
}

// globOf turns a glob of git into one of path.Match, which differ in what is
// between "[" and "]".
func globOf(glob string) string {
	var out strings.Builder
	for i := 0; i < len(glob); i++ {
		switch glob[i] {
		case '\\':
			out.WriteByte('\\')
			if i++; i < len(glob) {
				out.WriteByte(glob[i])
			}
		case '[':
			class, length := classOf(glob[i:])
			out.WriteString(class)
			i += length - 1
		default:
			out.WriteByte(glob[i])
		}
	}
	return out.String()
}

// namedClasses are those that occur in practice, as ranges.
var namedClasses = map[string]string{
	"alnum": "0-9A-Za-z", "alpha": "A-Za-z", "digit": "0-9", "lower": "a-z", "upper": "A-Z", "xdigit": "0-9A-Fa-f", "space": "\t-\r ",
}

// classOf turns the class at the beginning of a glob, and tells how long it is.
// One without an end becomes a lone "[", which matches nothing.
func classOf(glob string) (class string, length int) {
	var out strings.Builder
	out.WriteByte('[')
	i := 1
	if i < len(glob) && (glob[i] == '!' || glob[i] == '^') {
		out.WriteByte('^')
		i++
	}
	for first := true; i < len(glob); first = false {
		name, _, named := strings.Cut(strings.TrimPrefix(glob[i:], "[:"), ":]")
		switch {
		case glob[i] == ']' && !first:
			out.WriteByte(']')
			return out.String(), i + 1
		case strings.HasPrefix(glob[i:], "[:") && named:
			ranges, known := namedClasses[name]
			if !known {
				return "[", len(glob)
			}
			out.WriteString(ranges)
			i += len("[:") + len(name) + len(":]")
		default:
			low, n := classByte(glob[i:])
			i += n
			high := low
			if i+1 < len(glob) && glob[i] == '-' && glob[i+1] != ']' {
				high, n = classByte(glob[i+1:])
				i += 1 + n
			}
			out.WriteString("\\" + low)
			if high != low {
				out.WriteString("-\\" + high)
			}
		}
	}
	return "[", len(glob)
}

// classByte is one character of a class, without its escape, and how many bytes
// of the glob it takes.
func classByte(glob string) (string, int) {
	escape := 0
	if glob[0] == '\\' && len(glob) > 1 {
		escape = 1
	}
	for i := range glob[escape:] {
		if i > 0 {
			return glob[escape : escape+i], escape + i
		}
	}
	return glob[escape:], len(glob)
}

// matches reports whether the pattern is one for a path relative to its file's
// directory.
func (p gitPattern) matches(rel string) bool {
	if !p.anchored {
		return match(p.segments[0], path.Base(rel))
	}
	return matchSegments(p.segments, strings.Split(rel, "/"))
}

func matchSegments(pattern, names []string) bool {
	for i, segment := range pattern {
		if segment == "**" {
			if i == len(pattern)-1 {
				return i < len(names)
			}
			for from := i; from <= len(names); from++ {
				if matchSegments(pattern[i+1:], names[from:]) {
					return true
				}
			}
			return false
		}
		if i >= len(names) || !match(segment, names[i]) {
			return false
		}
	}
	return len(pattern) == len(names)
}

// match is path.Match, where a pattern that is none matches nothing.
func match(glob, name string) bool {
	ok, err := path.Match(glob, name)
	return ok && err == nil
}

// gitRules are the patterns of one .gitignore, with those of the directories
// above it.
type gitRules struct {
	above    *gitRules
	dir      string // absolute, without a slash at the end
	patterns []gitPattern
}

// ignores reports what the rules say of a path that is not below an ignored
// directory: a file nearer to it wins over one above, a later line over an
// earlier one.
func (r *gitRules) ignores(abs string, isDir bool) bool {
	for ; r != nil; r = r.above {
		rel := strings.TrimPrefix(abs, r.dir+"/")
		for i := len(r.patterns) - 1; i >= 0; i-- {
			if p := r.patterns[i]; (isDir || !p.dirsOnly) && p.matches(rel) {
				return !p.negated
			}
		}
	}
	return false
}
