package library

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// layers is the module from left to right. A package may import packages of a
// layer further right, and none beside it. A new package needs a place here.
var layers = [][]string{
	{"cmd/flisk"},
	{"pkg/cli"},
	{"pkg/dev", "pkg/verify"},
	{"pkg/scaffold"},
	{"pkg/runtime/docker", "pkg/runtime/process"},
	{"pkg/runtime/claim"}, // gets hold of a port, and of a project to change
	{"pkg/runtime", "pkg/runtime/memory"},
	{"pkg/stack/genfile"}, // what of a stack is in its project
	{"pkg/gateway", "pkg/watch", "pkg/toolchain", "pkg/stack/composefile", "pkg/stack/traefik"},
	{"pkg/stack", "pkg/source"}, // derived from a project
	{"pkg/project"},
	{"pkg/console", "pkg", "templates"},
	{"pkg/agent"},
	{"pkg/checkpoint"},
	{"pkg/internal/durable", "pkg/internal/proc"},
	{"pkg/turn", "pkg/fault"},
}

// libraryHalf is what an agent is compiled with: nothing but the standard
// library and itself, so that a scaffold builds without a network.
var libraryHalf = []string{"pkg/agent", "pkg/checkpoint", "pkg/internal/durable", "pkg/turn"}

// homes are the packages that may import a third-party module, by the longest
// prefix of the import path that is here.
var homes = map[string][]string{
	"github.com/spf13":                             {"pkg/cli"},
	"charm.land":                                   {"pkg/console"},
	"github.com/charmbracelet":                     {"pkg/console"},
	"golang.org/x/term":                            {"pkg/console"},
	"go.yaml.in/yaml":                              {"pkg/project", "pkg/stack/traefik"},
	"github.com/compose-spec/compose-go/v2":        {"pkg/stack/composefile"},
	"github.com/compose-spec/compose-go/v2/dotenv": {"pkg/project"},
	"github.com/fsnotify":                          {"pkg/watch"},
	"github.com/docker":                            {"pkg/runtime/docker"},
	"github.com/distribution/reference":            {"pkg/runtime/docker"},
	"github.com/containerd/errdefs":                {"pkg/runtime/docker"},
	"github.com/moby/patternmatcher":               {"pkg/runtime/docker", "pkg/source"},
	"golang.org/x/mod":                             {"pkg/source"},
	"golang.org/x/crypto/x509roots":                {"pkg/runtime/docker"},
	"golang.org/x/sys":                             {"pkg/internal/proc", "pkg/runtime/docker", "pkg/runtime/process", "pkg/console"},
	"golang.org/x/sync":                            {"pkg/runtime/docker", "pkg/runtime/process", "pkg/gateway", "pkg/verify", "pkg/dev"},
}

// onlyTests may be imported by tests and by the packages that serve them.
var onlyTests = []string{"testing", "net/http/httptest", "github.com/rogpeppe/go-internal", "go.uber.org/goleak"}

// mayExit are the packages with a main of their own.
var mayExit = []string{"cmd/flisk", "pkg/agent"}

// source is what the rules want to know of one Go file.
type source struct {
	path    string // in the module
	imports []string
	exits   []string // "os.Exit" and its like, when called
}

func (s source) pkg() string { return path.Dir(s.path) }

// test reports whether a file belongs to the tests: by its name, or because its
// package serves tests only and says so ("durabletest").
func (s source) test() bool { return strings.HasSuffix(s.path, "_test.go") || testPackage(s.pkg()) }

func testPackage(pkg string) bool { return strings.HasSuffix(pkg, "test") }

// violations lists what breaks a rule.
func violations(sources []source) []string {
	var out []string
	for _, s := range sources {
		wrong := func(format string, args ...any) {
			out = append(out, s.path+": "+fmt.Sprintf(format, args...))
		}
		place := layerOf(s.pkg())
		if place < 0 && !s.test() {
			wrong("package %s has no layer", s.pkg())
		}
		for _, imported := range s.imports {
			inner, ours := strings.CutPrefix(imported, ModulePath+"/")
			switch {
			case ours && s.test():
				if inner == "pkg/agent" && !slices.Contains(libraryHalf, s.pkg()) {
					wrong("the command half imports %s", inner)
				}
			case ours && testPackage(inner):
				wrong("%s is for tests", inner)
			case ours && inner == "pkg/agent":
				wrong("the command half imports %s", inner)
			case ours && slices.Contains(libraryHalf, s.pkg()) && !slices.Contains(libraryHalf, inner):
				wrong("the library half imports %s of the command half", inner)
			case ours && layerOf(inner) <= place:
				wrong("%s is not further right", inner)
			case ours:
			case under(imported, onlyTests) != "":
				if !s.test() {
					wrong("%s is for tests", imported)
				}
			case !strings.Contains(strings.Split(imported, "/")[0], "."): // the standard library
			case slices.Contains(libraryHalf, s.pkg()):
				wrong("the library half imports %s", imported)
			case s.test() && home(imported) != "": // a test may look at what another package makes
			case !slices.Contains(homes[home(imported)], s.pkg()):
				wrong("%s may be imported by %v only", imported, homes[home(imported)])
			}
		}
		if len(s.exits) > 0 && !s.test() && !slices.Contains(mayExit, s.pkg()) {
			wrong("calls %v", s.exits)
		}
	}
	return out
}

func layerOf(pkg string) int {
	return slices.IndexFunc(layers, func(layer []string) bool { return slices.Contains(layer, pkg) })
}

// under returns the prefix of an import path that is in a list.
func under(imported string, prefixes []string) string {
	for _, p := range prefixes {
		if imported == p || strings.HasPrefix(imported, p+"/") {
			return p
		}
	}
	return ""
}

// home is the longest prefix of an import path that homes knows.
func home(imported string) string {
	for p := imported; p != "."; p = path.Dir(p) {
		if _, ok := homes[p]; ok {
			return p
		}
	}
	return ""
}

// parse reads every Go file of the module, whatever its build constraints.
func parse(t *testing.T, root string) []source {
	t.Helper()
	var out []source
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			base := path.Base(name)
			if name != "." && (strings.HasPrefix(base, ".") || base == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, filepath.FromSlash(name)), nil, 0)
		if err != nil {
			return err
		}
		s := source{path: name}
		for _, spec := range file.Imports {
			s.imports = append(s.imports, strings.Trim(spec.Path.Value, `"`))
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := call.X.(*ast.Ident); ok {
					switch name := x.Name + "." + call.Sel.Name; name {
					case "os.Exit", "syscall.Exit", "log.Fatal", "log.Fatalf", "log.Fatalln":
						s.exits = append(s.exits, name)
					}
				}
			}
			return true
		})
		out = append(out, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestImportsPointRight(t *testing.T) {
	t.Parallel()
	sources := parse(t, "..")
	if len(sources) < 50 {
		t.Fatalf("only %d Go files were found", len(sources))
	}
	for _, v := range violations(sources) {
		t.Error(v)
	}
}

// TestRulesCatch adds one made-up file a case to the tree: the checker must be
// able to fail.
func TestRulesCatch(t *testing.T) {
	t.Parallel()
	ours := func(pkg string) []string { return []string{ModulePath + "/" + pkg} }
	for name, c := range map[string]struct {
		add  source
		want string
	}{
		"leftwards":                  {source{path: "pkg/stack/x.go", imports: ours("pkg/runtime")}, "pkg/runtime is not further right"},
		"sideways":                   {source{path: "pkg/runtime/docker/x.go", imports: ours("pkg/runtime/process")}, "not further right"},
		"a leaf that imports":        {source{path: "pkg/fault/x.go", imports: ours("pkg/turn")}, "not further right"},
		"command half, agent":        {source{path: "pkg/cli/x.go", imports: ours("pkg/agent")}, "the command half imports pkg/agent"},
		"command half's test, agent": {source{path: "pkg/gateway/x_test.go", imports: ours("pkg/agent")}, "the command half imports pkg/agent"},
		"library half, command half": {source{path: "pkg/agent/x.go", imports: ours("pkg/fault")}, "imports pkg/fault of the command half"},
		"library half, processes":    {source{path: "pkg/checkpoint/x.go", imports: ours("pkg/internal/proc")}, "imports pkg/internal/proc of the command half"},
		"library half, third party":  {source{path: "pkg/turn/x.go", imports: []string{"golang.org/x/sys/unix"}}, "the library half imports golang.org/x/sys/unix"},
		"another package's module":   {source{path: "pkg/cli/x.go", imports: []string{"charm.land/lipgloss/v2"}}, "may be imported by [pkg/console] only"},
		"YAML elsewhere":             {source{path: "pkg/scaffold/x.go", imports: []string{"go.yaml.in/yaml/v4"}}, "may be imported by [pkg/project pkg/stack/traefik] only"},
		"compose types in project":   {source{path: "pkg/project/x.go", imports: []string{"github.com/compose-spec/compose-go/v2/types"}}, "may be imported by [pkg/stack/composefile] only"},
		"unknown module":             {source{path: "pkg/cli/x.go", imports: []string{"example.com/x"}}, "example.com/x may be imported by [] only"},
		"unknown module in a test":   {source{path: "pkg/cli/x_test.go", imports: []string{"example.com/x"}}, "example.com/x may be imported by [] only"},
		"testing outside a test":     {source{path: "pkg/cli/x.go", imports: []string{"testing"}}, "testing is for tests"},
		"test helper outside a test": {source{path: "pkg/cli/x.go", imports: ours("pkg/internal/durabletest")}, "pkg/internal/durabletest is for tests"},
		"package without a place":    {source{path: "pkg/util/x.go"}, "package pkg/util has no layer"},
		"exit":                       {source{path: "pkg/cli/x.go", exits: []string{"os.Exit"}}, "calls [os.Exit]"},
	} {
		got := violations([]source{c.add})
		if len(got) != 1 || !strings.Contains(got[0], c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	fine := []source{
		{path: "cmd/flisk/main.go", imports: append(ours("pkg/cli"), "os"), exits: []string{"os.Exit"}},
		{path: "pkg/agent/x.go", imports: append(ours("pkg/checkpoint"), "net/http"), exits: []string{"os.Exit"}},
		{path: "pkg/stack/x.go", imports: ours("pkg/project")},
		{path: "pkg/project/x.go", imports: []string{"github.com/compose-spec/compose-go/v2/dotenv", "go.yaml.in/yaml/v4"}},
		{path: "pkg/cli/x_test.go", imports: append(ours("pkg/checkpoint"), "testing", "github.com/rogpeppe/go-internal/testscript")},
		{path: "pkg/agent/x_test.go", imports: append(ours("pkg/agent"), "testing")},
		{path: "pkg/internal/durable/durabletest/x.go", imports: append(ours("pkg/internal/durable"), "testing")},
	}
	if got := violations(fine); got != nil {
		t.Errorf("allowed imports are refused: %q", got)
	}
}

// The scan itself must see a call that ends the process.
func TestScanSeesExits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x.go"), []byte("package x\n\nimport \"os\"\n\nfunc f() { defer os.Exit(1) }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := parse(t, dir); len(got) != 1 || !slices.Equal(got[0].exits, []string{"os.Exit"}) || !slices.Equal(got[0].imports, []string{"os"}) {
		t.Errorf("got %+v", got)
	}
}
