package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/flisk-go/flisk/pkg/fault"
)

// completions are the shells that there is completion for, and how it is
// installed.
var completions = [...]struct{ shell, long, examples string }{
	{"bash", "Write what makes bash complete flisk's commands, flags and names. It needs the package bash-completion.", examples(
		"source <(flisk completion bash)", "try it, in this shell",
		"mkdir -p ~/.local/share/bash-completion/completions", "for every new shell: first the directory",
		"flisk completion bash > ~/.local/share/bash-completion/completions/flisk", "and then the script",
	)},
	{"zsh", "Write what makes zsh complete flisk's commands, flags and names.", examples(
		"source <(flisk completion zsh)", "try it, in this shell",
		"mkdir -p ~/.zfunc", "for every new shell: first the directory",
		"flisk completion zsh > ~/.zfunc/_flisk", "then the script",
		"echo 'fpath=(~/.zfunc $fpath); autoload -Uz compinit; compinit' >> ~/.zshrc", "and where it is, unless ~/.zshrc says so already",
	)},
	{"fish", "Write what makes fish complete flisk's commands, flags and names.", examples(
		"flisk completion fish | source", "try it, in this shell",
		"mkdir -p ~/.config/fish/completions", "for every new shell: first the directory",
		"flisk completion fish > ~/.config/fish/completions/flisk.fish", "and then the script",
	)},
}

// describeCompletion gives cobra's own command descriptions in the style of the
// others, and leaves out the shells that nobody tries it with.
func (a *app) describeCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	i := slices.IndexFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == completionName })
	completion := root.Commands()[i]
	completion.Use += " bash|fish|zsh"
	completion.Args, completion.RunE = cobra.ArbitraryArgs, func(cmd *cobra.Command, args []string) error { return group(a, cmd, args) }
	completion.Short = "write a completion script for a shell"
	completion.Long = "Write a script that makes a shell complete flisk's commands, flags and names when Tab is pressed. The help " +
		"of each shell says how to install it."
	for _, cmd := range completion.Commands() {
		at := slices.IndexFunc(completions[:], func(c struct{ shell, long, examples string }) bool { return c.shell == cmd.Name() })
		if at < 0 {
			completion.RemoveCommand(cmd)
			continue
		}
		cmd.Args = positional(0)
		cmd.Short, cmd.Long, cmd.Example = "for "+cmd.Name(), completions[at].long, completions[at].examples
		if f := cmd.Flags().Lookup("no-descriptions"); f != nil {
			f.Usage = "complete without the descriptions"
		}
	}
}

const completionName = "completion"

// refuseJSON is the error of --json with a command that prints text for a person
// or for another program.
func refuseJSON(cmd *cobra.Command) error {
	shell := cmd.HasParent() && cmd.Parent().Name() == completionName
	if f := cmd.Flags().Lookup("json"); f == nil || !f.Changed || cmd.Name() != "help" && !shell {
		return nil
	}
	return fault.New(fault.Usage, "leave --json away; docs/CLI.md describes the JSON of every other command", "%q prints text and has no JSON", cmd.CommandPath())
}
