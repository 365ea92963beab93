package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestDevEventsAreDocumented: what "event" of flisk dev --json can be is the table
// of docs/DEV_LOOP.md, no more and no less.
func TestDevEventsAreDocumented(t *testing.T) {
	t.Parallel()
	can := append(kinds(t, "../dev/event.go"), literalEvents(t, "dev_screen.go")...)
	slices.Sort(can)
	content, err := os.ReadFile("../../docs/DEV_LOOP.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(content), "| event | means |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var documented []string
	for row := range strings.Lines(table) {
		names, _, _ := strings.Cut(strings.TrimPrefix(row, "|"), "|")
		for _, name := range regexp.MustCompile("`([a-z]+)`").FindAllStringSubmatch(names, -1) {
			documented = append(documented, name[1])
		}
	}
	slices.Sort(documented)
	if len(can) < 10 || !slices.Equal(can, documented) {
		t.Errorf("printed are\n%q, documented are\n%q", can, documented)
	}
}

// kinds are the values of the constants of type Kind in a file.
func kinds(t *testing.T, path string) (values []string) {
	t.Helper()
	ast.Inspect(parsed(t, path), func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if of, ok := spec.Type.(*ast.Ident); ok && of.Name == "Kind" {
			for _, value := range spec.Values {
				values = append(values, text(t, value))
			}
		}
		return true
	})
	return values
}

// literalEvents are those of the DevJSON values in a file that no dev.Event is
// behind.
func literalEvents(t *testing.T, path string) (values []string) {
	t.Helper()
	ast.Inspect(parsed(t, path), func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		if of, ok := lit.Type.(*ast.Ident); !ok || of.Name != "DevJSON" {
			return true
		}
		for _, field := range lit.Elts {
			pair, ok := field.(*ast.KeyValueExpr)
			if !ok {
				t.Fatalf("%s: a DevJSON without names", path)
			}
			if _, literal := pair.Value.(*ast.BasicLit); literal && pair.Key.(*ast.Ident).Name == "Event" {
				values = append(values, text(t, pair.Value))
			}
		}
		return true
	})
	return values
}

func parsed(t *testing.T, path string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// text is the value of a string literal.
func text(t *testing.T, e ast.Expr) string {
	t.Helper()
	lit, ok := e.(*ast.BasicLit)
	if !ok {
		t.Fatalf("%T is no literal", e)
	}
	value, err := strconv.Unquote(lit.Value)
	if err != nil {
		t.Fatal(err)
	}
	return value
}
