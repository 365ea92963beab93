package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/flisk-go/flisk/pkg/fault"
)

// usageFault is an error in the command line of cmd.
func usageFault(cmd *cobra.Command, format string, args ...any) error {
	return fault.New(fault.Usage, "see "+cmd.CommandPath()+" --help", format, args...)
}

// positional checks the number of arguments; names are what the usage line
// calls them, the last ones optional.
func positional(required int, names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < required {
			return usageFault(cmd, "%q needs %s", cmd.CommandPath(), names[len(args)])
		}
		if len(args) > len(names) {
			if takesText(cmd) {
				return fault.New(fault.Usage, fmt.Sprintf("quote a message of several words: %s %s", cmd.CommandPath(), doubleQuoted(strings.Join(args, " "))),
					"%q does not take %q", cmd.CommandPath(), args[len(names)])
			}
			return usageFault(cmd, "%q does not take %q", cmd.CommandPath(), args[len(names)])
		}
		return nil
	}
}

// atLeast checks that there is an argument; name is what the usage line calls
// each.
func atLeast(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usageFault(cmd, "%q needs %s", cmd.CommandPath(), name)
		}
		return nil
	}
}

// unknownCommand says so and what was probably meant.
func unknownCommand(cmd *cobra.Command, name string) error {
	var known []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			known = append(known, c.Name())
		}
		if slices.Contains(c.SuggestFor, name) {
			return fault.New(fault.Usage, fmt.Sprintf("did you mean %q?", c.CommandPath()), "there is no command %q", cmd.CommandPath()+" "+name)
		}
	}
	if !cmd.HasParent() {
		known = append(known, "help") // cobra makes it, and is asked for it otherwise
	}
	hint := "see " + cmd.CommandPath() + " --help"
	if near := fault.Nearest(name, known); near != "" {
		hint = fmt.Sprintf("did you mean %q?", cmd.CommandPath()+" "+near)
	}
	return fault.New(fault.Usage, hint, "there is no command %q", cmd.CommandPath()+" "+name)
}

// flagFault words the errors of the flag parser.
func flagFault(cmd *cobra.Command, err error) error {
	if missing, ok := errors.AsType[*pflag.NotExistError](err); ok {
		name := missing.GetSpecifiedName()
		if missing.GetSpecifiedShortnames() != "" {
			if word := "-" + missing.GetSpecifiedShortnames(); takesMessage(cmd) {
				return messageFault(cmd, "-"+name, word)
			}
			return usageFault(cmd, "%q has no flag %q", cmd.CommandPath(), "-"+name)
		}
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				known = append(known, f.Name)
			}
		})
		if near := fault.Nearest(name, known); near != "" {
			return fault.New(fault.Usage, fmt.Sprintf("did you mean %q?", "--"+near),
				"%q has no flag %q", cmd.CommandPath(), "--"+name)
		}
		if takesMessage(cmd) && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz-") != "" {
			return messageFault(cmd, "--"+name, "--"+name)
		}
		return usageFault(cmd, "%q has no flag %q", cmd.CommandPath(), "--"+name)
	}
	if missing, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return usageFault(cmd, "%q needs a value", dashed(missing.GetSpecifiedName(), missing.GetSpecifiedShortnames()))
	}
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return usageFault(cmd, "%q cannot be %q", "--"+bad.GetFlag().Name, bad.GetValue())
	}
	return usageFault(cmd, "%w", err)
}

// takesMessage reports whether a word that looks like a flag may have been meant
// as the message of a turn.
func takesMessage(cmd *cobra.Command) bool {
	return takesText(cmd) && cmd.Flags().NArg() == 0
}

func takesText(cmd *cobra.Command) bool { return strings.Contains(cmd.Use, " MESSAGE") }

// doubleQuoted is a text as most people quote it for a shell, where that is safe.
func doubleQuoted(text string) string {
	if strings.ContainsAny(text, "\"\\$`!") {
		return shellWord(text)
	}
	return `"` + text + `"`
}

func messageFault(cmd *cobra.Command, flag, word string) error {
	return fault.New(fault.Usage, fmt.Sprintf("if it is the message: %s -- %s", cmd.CommandPath(), doubleQuoted(word)),
		"%q has no flag %q", cmd.CommandPath(), flag)
}

func dashed(name, shorthands string) string {
	if shorthands != "" {
		return "-" + name
	}
	return "--" + name
}
