package source

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestGitignorePatterns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lines, path string // a path that ends in a slash is a directory
		want        bool
	}{
		{"*.log", "a/b.log", true}, {"*.log", "b.log.go", false},
		{"/a", "a", true}, {"/a", "b/a", false}, {"a", "b/a", true},
		{"a/", "a", false}, {"a/", "x/a/", true}, {"a/", "x/a/b", true},
		{"a/b", "a/b", true}, {"a/b", "x/a/b", false},
		{"**/foo", "foo", true}, {"**/foo", "x/y/foo", true}, {"a/**/b", "a/b", true}, {"a/**/b", "a/x/y/b", true}, {"a/**", "a/x", true}, {"a/**", "a/", false},
		{"**", "a/b", true}, {"/**/x", "a/x", true}, {"dir/**/", "dir/x/", true}, {"dir/**/", "dir/x", false}, {"a//b", "a/b", false},
		{`\#x`, "#x", true}, {"#x", "#x", false}, {`\!x`, "!x", true}, {"x  ", "x", true}, {`x\ `, "x ", true}, {`x\\ `, `x\`, true},
		{"[a-c]x", "bx", true}, {"[!a-c]x", "bx", false}, {"[!a-c]x", "dx", true}, {"[^a-c]x", "dx", true}, {"[]-]x", "-x", true}, {"[]-]x", "]x", true},
		{"[[:alpha:]]1", "x1", true}, {"[[:alpha:]]1", "11", false}, {"[a", "[a", false}, {`[\]]`, "]", true},
		{"a*b", "a/b", false}, {"a?b", "a/b", false}, {"a**b", "axxb", true}, {`a\*b`, "a*b", true}, {`a\*b`, "axb", false},
		{"*\n!/a", "a", false}, {"a\n!a\na", "a", true}, {"a/*\n!a/b", "a/b", false}, {"a\n!a/b", "a/b", true}, {"*\n!a/", "a/x", true},
		{"x\r", "x", true}, {"\ufeffx", "x", true}, {"./a", "a", false}, {"ä?", "äö", true}, {"[ä-ü]", "ö", true},
	} {
		if got := ignoredBy(t, map[string]string{"": c.lines}, c.path); got != c.want {
			t.Errorf("%q ignores %q: %t, want %t", c.lines, c.path, got, c.want)
		}
	}
	nested := map[string]string{"": "*.txt\n/sub/keep\n!c.txt", "sub": "!*.txt\nx", "sub/deep": "/b.txt"}
	for rel, want := range map[string]bool{
		"a.txt": true, "c.txt": false, "sub/a.txt": false, "sub/x": true, "x": false, "sub/keep": true, "sub/deep/b.txt": true, "sub/b.txt": false, "sub/deep/er/b.txt": false,
	} {
		if got := ignoredBy(t, nested, rel); got != want {
			t.Errorf("nested: %q is ignored: %t, want %t", rel, got, want)
		}
	}
}

// ignoredBy asks the files of a tree, by directory, the way that the walk does.
func ignoredBy(t *testing.T, files map[string]string, rel string) bool {
	t.Helper()
	const root = "/project"
	var rules *gitRules
	dir := ""
	names := strings.Split(strings.TrimSuffix(rel, "/"), "/")
	for i, name := range names {
		if content, ok := files[dir]; ok {
			rules = &gitRules{above: rules, dir: strings.TrimSuffix(root+"/"+dir, "/"), patterns: parseGitignore(content)}
		}
		dir = strings.TrimPrefix(dir+"/"+name, "/")
		if rules.ignores(root+"/"+dir, i < len(names)-1 || strings.HasSuffix(rel, "/")) {
			return true
		}
	}
	return false
}

// TestGitignoreAgreesWithGit asks git about random patterns.
func TestGitignoreAgreesWithGit(t *testing.T) {
	t.Parallel()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("there is no git to ask")
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	pick := func(from ...string) string { return from[random.IntN(len(from))] }

	dir := t.TempDir()
	run := func(stdin string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), git, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1")
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.Output()
		if err != nil && cmd.ProcessState.ExitCode() != 1 { // 1: none of them is ignored
			t.Fatalf("git %v: %v", args, err)
		}
		return string(out)
	}
	run("", "init", "-q")
	var paths []string
	for _, d := range []string{"", "a/", "a/b/", "b/", "b/a/", "a/b/a/"} {
		for _, f := range []string{"x", "ab", "a-b", "c.go"} {
			paths = append(paths, d+f)
			if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, d, f), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 60 {
		files := map[string]string{}
		for _, d := range []string{"", "a", "b/a"} {
			var lines bytes.Buffer
			for range random.IntN(4) {
				line := pick("", "", "!", "/")
				for i := range 1 + random.IntN(3) {
					if i > 0 {
						line += "/"
					}
					line += pick("a", "b", "x", "ab", "*", "?b", "a*", "[ab]", "[!a]", "**", "*.go", "c.[g-h]o", "[[:lower:]]")
				}
				fmt.Fprintln(&lines, line+pick("", "", "/", " "))
			}
			files[d] = lines.String()
			if err := os.WriteFile(filepath.Join(dir, d, ".gitignore"), lines.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		said := map[string]bool{}
		for _, p := range strings.Split(run(strings.Join(paths, "\x00"), "check-ignore", "--no-index", "-z", "--stdin"), "\x00") {
			said[p] = true
		}
		for _, p := range paths {
			if got := ignoredBy(t, files, p); got != said[p] {
				t.Errorf("%q is ignored: %t, git says %t, of %q", p, got, said[p], files)
			}
		}
	}
}
