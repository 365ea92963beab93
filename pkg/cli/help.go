package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/flisk-go/flisk/pkg/console"
)

// helpWidth is the widest a help text gets: lines that are longer read badly.
const helpWidth = 80

// newHelp is "flisk help COMMAND", the same as "flisk COMMAND --help".
func newHelp(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "explain a command",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return unknownCommand(about, rest[0])
			}
			a.help(about)
			return nil
		},
	}
}

// examples are pairs of a command line and what it is for.
func examples(pairs ...string) string { return strings.Join(pairs, "\n") }

// help prints the help of a command on stdout.
func (a *app) help(cmd *cobra.Command) {
	cmd.InitDefaultHelpFlag()
	h := helpPage{width: helpWidth}
	if columns := a.streams.Out.Columns(); columns > 0 {
		h.width = min(helpWidth, max(40, columns))
	}
	about := cmd.Long
	if about == "" {
		about = sentence(cmd.Short)
	}
	h.paragraph(about)

	h.heading("USAGE")
	usage := console.Accent.Render(cmd.CommandPath())
	if _, arguments, ok := strings.Cut(cmd.Use, " "); ok {
		usage += " " + arguments
	} else if cmd.HasAvailableSubCommands() {
		usage += " COMMAND"
	}
	h.line(usage + " [FLAGS]")
	h.commands(cmd)
	h.flags("FLAGS", cmd.LocalNonPersistentFlags())
	if cmd == cmd.Root() {
		h.flags("GLOBAL FLAGS", cmd.PersistentFlags())
	}
	if cmd.Example != "" {
		h.heading("EXAMPLES")
		pairs := strings.Split(cmd.Example, "\n")
		for i := 0; i+1 < len(pairs); i += 2 {
			h.line(console.Quiet.Render("# " + pairs[i+1]))
			h.line(console.Accent.Render(pairs[i]))
		}
	}
	if cmd == cmd.Root() {
		h.heading("EXIT STATUS")
		for _, row := range exitStatus {
			h.row(strconv.Itoa(row.code), 3, row.meaning)
		}
	} else {
		h.paragraph("global flags: " + briefly(cmd.Root().PersistentFlags()) + "\nexit status: see flisk help")
	}
	_, _ = a.streams.Out.Write([]byte(h.String())) // Failed tells
}

// sentence makes one of a short description.
func sentence(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:] + "."
}

// helpPage collects the lines of a help text.
type helpPage struct {
	strings.Builder
	width int
}

func (h *helpPage) paragraph(text string) {
	for part := range strings.SplitSeq(text, "\n\n") {
		if h.Len() > 0 {
			h.WriteByte('\n')
		}
		h.WriteString(console.Fold(strings.TrimSpace(part), h.width, "") + "\n")
	}
}

func (h *helpPage) heading(title string) {
	h.WriteString("\n" + console.Strong.Render(title) + "\n")
}

func (h *helpPage) line(text string) {
	h.WriteString("  " + console.Fold(text, h.width, "    ") + "\n")
}

// row prints a term and its explanation, the explanations of a list aligned.
func (h *helpPage) row(term string, terms int, meaning string) {
	indent := strings.Repeat(" ", terms+4)
	h.WriteString("  " + console.Accent.Render(term) + strings.Repeat(" ", terms-len(term)+2) +
		console.Fold(meaning, h.width, indent) + "\n")
}

func (h *helpPage) commands(cmd *cobra.Command) {
	longest := 0
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() || c.Name() == "help" {
			longest = max(longest, len(c.Name()))
		}
	}
	if longest == 0 {
		return
	}
	list := func(title, id string) {
		titled := false
		for _, c := range cmd.Commands() {
			if c.GroupID != id || !c.IsAvailableCommand() && c.Name() != "help" {
				continue
			}
			if !titled {
				h.heading(title)
				titled = true
			}
			h.row(c.Name(), longest, c.Short)
		}
	}
	for _, g := range cmd.Groups() {
		list(g.Title, g.ID)
	}
	list("COMMANDS", "")
}

// briefly names flags in one line.
func briefly(flags *pflag.FlagSet) string {
	var terms []string
	flags.VisitAll(func(f *pflag.Flag) {
		term := "--" + f.Name
		if f.Shorthand != "" {
			term = "-" + f.Shorthand
		}
		if f.Value.Type() != "bool" {
			name, _ := pflag.UnquoteUsage(f)
			term += " " + name
		}
		terms = append(terms, term)
	})
	return strings.Join(terms, ", ")
}

func (h *helpPage) flags(title string, flags *pflag.FlagSet) {
	type entry struct{ term, meaning string }
	var entries []entry
	longest := 0
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		name, usage := pflag.UnquoteUsage(f)
		term := "    --" + f.Name
		if f.Shorthand != "" {
			term = "-" + f.Shorthand + ", --" + f.Name
		}
		if f.Value.Type() != "bool" {
			term += " " + name
		}
		if f.Name == "help" {
			usage = "show this"
		}
		if f.Value.Type() != "bool" && !slices.Contains([]string{"", "0", "[]"}, f.DefValue) {
			usage += fmt.Sprintf(" (default %s)", f.DefValue)
		}
		entries = append(entries, entry{term, usage})
		longest = max(longest, len(term))
	})
	if len(entries) == 0 {
		return
	}
	h.heading(title)
	for _, e := range entries {
		h.row(e.term, longest, e.meaning)
	}
}
