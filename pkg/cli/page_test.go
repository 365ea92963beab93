package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// shape is one JSON value that a command prints.
type shape struct {
	when  string // "" is always
	value any
	lines bool // one such value a line
}

// shapes are what each command prints with --json.
var shapes = map[string][]shape{
	"flisk chat":            {{value: TurnJSON{}, lines: true}},
	"flisk config":          {{value: ConfigJSON{}}},
	"flisk demo":            {{value: DemoJSON{}}},
	"flisk dev":             {{value: DevJSON{}, lines: true}},
	"flisk doctor":          {{value: DoctorJSON{}}},
	"flisk down":            {{value: DownJSON{}}, {when: "with `--dry-run`", value: PlanJSON{}}},
	"flisk init":            {{value: InitJSON{}}, {when: "with `--update-library`", value: LibraryJSON{}}},
	"flisk kill":            {{value: KillJSON{}}},
	"flisk logs":            {{value: LogsJSON{}}, {when: "with `--follow`", value: LogLineJSON{}, lines: true}},
	"flisk restart":         {{value: RestartJSON{}}, {when: "with `--dry-run`", value: PlanJSON{}}},
	"flisk sessions export": {{when: "with `--output FILE`", value: ExportJSON{}}},
	"flisk sessions import": {{value: ImportJSON{}}},
	"flisk sessions list":   {{value: SessionsJSON{}}},
	"flisk sessions rm":     {{value: RemovedJSON{}}},
	"flisk sessions show":   {{value: SessionJSON{}}},
	"flisk status":          {{value: StatusJSON{}}},
	"flisk turn":            {{value: TurnJSON{}}},
	"flisk up":              {{value: UpJSON{}}, {when: "with `--dry-run`", value: PlanJSON{}}},
	"flisk verify":          {{value: VerifyJSON{}}, {when: "with `--list`", value: []CheckJSON{}}},
	"flisk version":         {{value: VersionJSON{}}},
}

// textOnly are commands whose product is text for another program or a person.
var textOnly = []string{"flisk completion", "flisk help"}

// TestCLIPage keeps docs/CLI.md equal to the command tree and to the types that
// are printed.
func TestCLIPage(t *testing.T) {
	t.Parallel()
	const path = "../../docs/CLI.md"
	p := page{t: t, words: readComments(t, ".", "../turn", "../verify", "../runtime"), seen: map[string]bool{}}
	p.write()
	p.checkAllShown()
	if *update {
		if err := os.WriteFile(path, p.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, p.Bytes()) {
		t.Errorf("%s is out of date: run go test ./pkg/cli -run TestCLIPage -update", path)
	}
}

type page struct {
	bytes.Buffer
	t     *testing.T
	words comments
	seen  map[string]bool // types of this package
}

func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

func (p *page) write() {
	root := tree()
	root.InitDefaultHelpFlag()
	p.line("# Commands\n")
	p.line("<!-- Generated from pkg/cli by `go test ./pkg/cli -run TestCLIPage -update`. Do not edit. -->\n")
	p.line("%s\n", root.Long)
	for _, c := range leaves(root) {
		p.line("- [`%s`](#%s): %s", c.CommandPath(), strings.ReplaceAll(c.CommandPath(), " ", "-"), cell(c.Short))
	}
	p.line("\n## Flags of every command\n")
	p.line("Each can also come from the environment: `FLISK_CHDIR` is `--chdir`. A flag wins over the environment, and that over flisk.yaml.\n")
	p.flags(root.PersistentFlags())
	p.line("\n## Exit status\n\n| code | means |\n|---|---|")
	for _, row := range exitStatus {
		p.line("| %d | %s |", row.code, cell(row.meaning))
	}
	p.line("\n## JSON\n")
	p.line("With `--json` a command prints one JSON value on stdout, and nothing else there. Fields may be added; those that " +
		"are here keep their names and meanings. A time is RFC 3339. Where a field may be missing it says so. " +
		"`flisk help` and `flisk completion` print text and refuse it (exit code 2). When a command fails, stderr holds one line:\n")
	p.table(reflect.TypeFor[ErrorJSON]())
	for _, c := range leaves(root) {
		p.command(c)
	}
}

// leaves are the commands that do something. The shells of completion are one.
func leaves(root *cobra.Command) (found []*cobra.Command) {
	walk(root, func(c *cobra.Command) {
		group := c.HasAvailableSubCommands() && c.Name() != "completion"
		if !group && c.Parent().Name() != "completion" {
			found = append(found, c)
		}
	})
	return found
}

func (p *page) command(c *cobra.Command) {
	p.line("\n## %s\n", c.CommandPath())
	about := c.Long
	if about == "" {
		about = sentence(c.Short)
	}
	p.line("%s\n", strings.TrimSpace(about))
	usage := c.CommandPath()
	if _, arguments, ok := strings.Cut(c.Use, " "); ok {
		usage += " " + arguments
	}
	p.line("    %s [FLAGS]", usage)
	if c.LocalNonPersistentFlags().HasAvailableFlags() {
		p.line("")
		p.flags(c.LocalNonPersistentFlags())
	}
	if c.Example != "" {
		p.line("\n```sh")
		pairs := strings.Split(c.Example, "\n")
		for i := 0; i+1 < len(pairs); i += 2 {
			p.line("%s  # %s", pairs[i], pairs[i+1])
		}
		p.line("```")
	}
	printed := shapes[c.CommandPath()]
	if printed == nil && !slices.Contains(textOnly, c.CommandPath()) {
		p.t.Errorf("%s prints JSON that is not in shapes", c.CommandPath())
	}
	for _, s := range printed {
		p.line("")
		p.shape(s)
	}
}

func (p *page) flags(flags *pflag.FlagSet) {
	p.line("| flag | meaning |\n|---|---|")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name, usage := pflag.UnquoteUsage(f)
		term := "--" + f.Name
		if f.Value.Type() != "bool" {
			term += " " + name
			if f.DefValue != "" && f.DefValue != "0" && f.DefValue != "[]" {
				usage += " (default " + f.DefValue + ")"
			}
		}
		term = "`" + term + "`"
		if f.Shorthand != "" {
			term = "`-" + f.Shorthand + "`, " + term
		}
		p.line("| %s | %s |", term, cell(usage))
	})
}

// cell makes text fit into a cell of a table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "\n", " ").Replace(text)
}

// shape describes a value: a table of its fields, nested ones by their paths.
func (p *page) shape(s shape) {
	of := reflect.TypeOf(s.value)
	what := "prints"
	if s.lines {
		what = "prints, a line each,"
	}
	if s.when != "" {
		what = s.when + " " + what
	}
	p.line("`--json` %s %s:\n", what, article(kindName(of)))
	p.table(of)
}

func article(kind string) string {
	if strings.HasPrefix(kind, "o") {
		return "an " + kind
	}
	return "a " + kind
}

func (p *page) table(of reflect.Type) {
	p.line("| field | type | |\n|---|---|---|")
	p.fields("", of)
}

func (p *page) fields(prefix string, of reflect.Type) {
	for of.Kind() == reflect.Slice || of.Kind() == reflect.Pointer {
		if of.Kind() == reflect.Slice {
			prefix = strings.TrimSuffix(prefix, ".") + "[]."
		}
		of = of.Elem()
	}
	p.seen[of.Name()] = p.seen[of.Name()] || strings.HasSuffix(of.PkgPath(), "/pkg/cli")
	for i := range of.NumField() {
		f := of.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			p.fields(prefix, f.Type)
			continue
		}
		if name == "-" || !f.IsExported() {
			continue
		}
		meaning := p.words.field(of, f.Name)
		if strings.Contains(options, "omit") {
			meaning = strings.TrimPrefix(meaning+"; may be missing", "; ")
		}
		p.line("| `%s%s` | %s | %s |", prefix, name, kindName(f.Type), cell(meaning))
		if inner := element(f.Type); inner.Kind() == reflect.Struct && inner != reflect.TypeFor[time.Time]() {
			p.fields(prefix+name+".", f.Type)
		}
	}
}

func element(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice && t != reflect.TypeFor[json.RawMessage]() {
		t = t.Elem()
	}
	return t
}

// kindName is a type in the words of JSON.
func kindName(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		return "any JSON"
	case t == reflect.TypeFor[time.Time]():
		return "time"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return kindName(t.Elem())
	case reflect.Slice:
		return "list of " + kindName(t.Elem()) + "s"
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Struct:
		return "object"
	default:
		return "number"
	}
}

// checkAllShown finds types of this package that look printed and are in no
// shape.
func (p *page) checkAllShown() {
	for name := range p.words["cli"] {
		if strings.HasSuffix(name, "JSON") && !p.seen[name] {
			p.t.Errorf("%s is in no shape", name)
		}
	}
}

// comments are the comments of struct fields: package, type, field.
type comments map[string]map[string]map[string]string

func (c comments) field(of reflect.Type, name string) string {
	return c[filepath.Base(of.PkgPath())][of.Name()][name]
}

// readComments reads those of the packages in some directories.
func readComments(t *testing.T, dirs ...string) comments {
	t.Helper()
	all := comments{}
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no source in %q (%v)", dir, err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			types := all[file.Name.Name]
			if types == nil {
				types = map[string]map[string]string{}
				all[file.Name.Name] = types
			}
			ast.Inspect(file, func(n ast.Node) bool {
				spec, ok := n.(*ast.TypeSpec)
				if !ok {
					return true
				}
				if of, ok := spec.Type.(*ast.StructType); ok {
					types[spec.Name.Name] = fieldComments(of)
				}
				return true
			})
		}
	}
	return all
}

func fieldComments(of *ast.StructType) map[string]string {
	words := map[string]string{}
	for _, f := range of.Fields.List {
		text := f.Comment.Text()
		if text == "" {
			text = f.Doc.Text()
		}
		for _, name := range f.Names {
			words[name.Name] = strings.TrimSuffix(strings.TrimSpace(text), ".")
		}
	}
	return words
}
