package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/scaffold"
)

// InitJSON is what "flisk init --json" prints.
type InitJSON struct {
	Dir   string `json:"dir"` // absolute
	Name  string `json:"name"`
	ID    string `json:"id"`    // the project's identity, wherever it is moved
	Port  int    `json:"port"`  // of the gateway
	Agent string `json:"agent"` // the agent that it begins with
	Files int    `json:"files"` // how many were written
}

// LibraryJSON is what "flisk init --update-library --json" prints.
type LibraryJSON struct {
	Changed bool `json:"changed"` // false when the library was up to date
}

type initOptions struct {
	dir     string
	name    string
	port    int
	library bool
}

func newInit(a *app) *cobra.Command {
	var o initOptions
	cmd := &cobra.Command{
		Use:     "init [DIR]",
		Short:   "scaffold a new project",
		GroupID: groupRun,
		Long: "Make a project with one agent in DIR, or in this directory: all of it or nothing, and never over " +
			"anything that exists. It builds and tests with Go alone, without a network.\n\n" +
			"With --update-library it renews the copy of the library in a project that exists, and touches nothing " +
			"else of it.",
		Example: examples(
			"flisk init bot", "a new project in ./bot",
			`flisk init "my agents" --name shop`, "with a name of its own",
			"flisk init --update-library", "renew the library of this project",
		),
		Args: positional(0, "DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.dir = args[0]
			}
			if o.library {
				if o.name != "" || o.port != 0 {
					return usageFault(cmd, "--name and --port have no meaning with --update-library")
				}
				return runUpdateLibrary(a, o)
			}
			return runInit(a, o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.name, "name", "", "call the project `NAME`; without, as the directory is called")
	flags.IntVar(&o.port, "port", 0, "give the gateway port `N`; without, the first free one from 8080 on")
	flags.BoolVar(&o.library, "update-library", false, "renew third_party/flisk of a project, nothing else")
	return cmd
}

// target is DIR below --chdir.
func (o initOptions) target(a *app) string {
	dir := cmp.Or(o.dir, ".")
	if filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(a.global.dir, dir)
}

func runInit(a *app, o initOptions) error {
	target := o.target(a)
	around, _ := project.Find(filepath.Dir(filepath.Clean(target))) // an error: there is none, or Init says what is wrong
	made, err := scaffold.Init(target, scaffold.Options{Name: o.name, Port: o.port})
	if err != nil {
		return err
	}
	if a.global.json {
		return a.printJSON(InitJSON(made))
	}
	if around != "" {
		a.streams.Err.Note("note", console.Quiet, "it is inside the project in "+around+", whose agents are built again when its files change")
	}
	if o.port != 0 && !portFree(o.port) {
		a.streams.Err.Note("note", console.Warn, fmt.Sprintf("port %d is in use right now; flisk up needs it, or another gateway.port in %s", o.port, project.FileName))
	}
	flisk := "flisk"
	if target != "." {
		flisk += " -C " + shellWord(target)
	}
	out := a.streams.Out
	out.Fields(
		console.Field{Label: "made", Value: console.Cell{Text: made.Name, Style: console.Good}},
		console.Field{Label: "in", Value: console.Cell{Text: made.Dir}, Shrink: console.Middle},
		console.Field{Label: "agent", Value: console.Cell{Text: made.Agent + ": edit turn.go, its runTurn is yours"}},
		console.Field{Label: "gateway", Value: console.Cell{Text: "port " + strconv.Itoa(made.Port) + ", in " + project.FileName}},
		console.Field{Label: "next", Value: console.Cell{Text: flisk + " dev", Style: console.Accent}},
	)
	return nil
}

// portFree reports whether the gateway of a new project could listen on a port.
func portFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err == nil {
		_ = l.Close()
	}
	return !errors.Is(err, syscall.EADDRINUSE)
}

func runUpdateLibrary(a *app, o initOptions) error {
	changed, err := scaffold.UpdateLibrary(o.target(a))
	if err != nil {
		return err
	}
	if a.global.json {
		return a.printJSON(LibraryJSON{changed})
	}
	library := console.Cell{Text: "nothing to do: it is up to date"}
	if changed {
		library = console.Cell{Text: "renewed", Style: console.Good}
	}
	a.streams.Out.Fields(console.Field{Label: "library", Value: library})
	return nil
}

// shellWord quotes a word so that it can be pasted into a shell.
func shellWord(s string) string {
	safe := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./+:@%,=", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !safe(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
