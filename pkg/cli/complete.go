package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/flisk-go/flisk/pkg/verify"
)

// completeTime bounds what a press of Tab may take: fewer names are better than
// a shell that hangs.
const completeTime = 500 * time.Millisecond

// completeNames makes a shell complete what the usage lines and the flags of all
// commands ask for. It must not say anything, and whatever goes wrong there are
// no names.
func (a *app) completeNames(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		a.completeNames(c)
	}
	_, asked, _ := strings.Cut(cmd.Use, " ")
	if names := a.namesOf(strings.Trim(asked, "[]…")); names != nil {
		cmd.ValidArgsFunction = argumentCompleter(names, strings.HasSuffix(strings.Trim(asked, "[]"), "…"))
	} else if cmd.ValidArgsFunction == nil && asked != "FILE" && asked != "[DIR]" {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	for flag, what := range map[string]string{"agent": "AGENT", "session": "SESSION", "run": "CHECK", "runtime": "RUNTIME"} {
		if cmd.Flag(flag) != nil && cmd.LocalFlags().Lookup(flag) != nil {
			_ = cmd.RegisterFlagCompletionFunc(flag, completer(a.namesOf(what))) // registered once
		}
	}
	if cmd.PersistentFlags().Lookup("chdir") != nil {
		_ = cmd.MarkPersistentFlagDirname("chdir")
	}
}

// namer finds names for a command line.
type namer func(ctx context.Context, cmd *cobra.Command) []string

// completer makes a completion of names.
func completer(names namer) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTime)
		defer cancel()
		return names(ctx, cmd), cobra.ShellCompDirectiveNoFileComp
	}
}

// argumentCompleter is completer for the first argument or, with several, for
// all of them, each name once.
func argumentCompleter(names namer, several bool) cobra.CompletionFunc {
	complete := completer(names)
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 && !several {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found, directive := complete(cmd, args, begun)
		return slices.DeleteFunc(found, func(name string) bool { return slices.Contains(args, name) }), directive
	}
}

// namesOf are the names of what a usage line calls so; nil when it is nothing
// that has names.
func (a *app) namesOf(what string) namer {
	switch what {
	case "AGENT":
		return a.agentNames
	case "SESSION":
		return a.sessionNames
	case "CHECK":
		return func(context.Context, *cobra.Command) (names []string) {
			for _, c := range verify.Checks() {
				names = append(names, c.Name)
			}
			return names
		}
	case "RUNTIME":
		return func(context.Context, *cobra.Command) []string { return runtimeNames() }
	case "COMMAND":
		return func(_ context.Context, cmd *cobra.Command) (names []string) {
			for _, c := range cmd.Root().Commands() {
				if c.IsAvailableCommand() {
					names = append(names, c.Name())
				}
			}
			return names
		}
	}
	return nil
}

// lookQuietly is look without a word, and with the environment of global flags,
// which a completion does not come to.
func (a *app) lookQuietly(ctx context.Context, cmd *cobra.Command) (*opened, error) {
	if err := a.global.fromEnvironment(cmd.Root().PersistentFlags(), a.getenv); err != nil {
		return nil, err
	}
	a.global.json = true // nobody reads warnings then
	return a.look(ctx, nil)
}

// agentNames are those of flisk.yaml and those that run.
func (a *app) agentNames(ctx context.Context, cmd *cobra.Command) []string {
	o, err := a.lookQuietly(ctx, cmd)
	if err != nil {
		return nil
	}
	var more []string
	if observed, err := o.driver.Observe(ctx); err == nil {
		more = runningAgents(observed)
	}
	return o.agents(more...)
}

// sessionNames are the sessions of --agent, or of all agents, as far as they are
// found in time.
func (a *app) sessionNames(ctx context.Context, cmd *cobra.Command) []string {
	o, err := a.lookQuietly(ctx, cmd)
	if err != nil {
		return nil
	}
	wanted := func(string) bool { return true }
	if f := cmd.Flag("agent"); f != nil && f.Changed {
		wanted = func(agent string) bool { return agent == f.Value.String() }
	}
	var names []string
	if distant, ok := o.driver.(distantVolume); ok {
		found, _ := distant.Survey(ctx) // a volume that cannot be read has no names
		if found == nil {
			return nil
		}
		for agent, ids := range found.Sessions {
			if wanted(agent) {
				names = append(names, ids...)
			}
		}
	} else {
		_ = o.withVolume(ctx, func(v sessionVolume) error { // the same
			for _, agent := range v.agents {
				if wanted(agent) {
					names = append(names, v.sessionNames(ctx, agent)...)
				}
			}
			return nil
		})
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return slices.DeleteFunc(names, func(id string) bool { return id == "" }) // of what cannot be read
}

// sessionNames are the sessions of an agent, as far as they are found before ctx
// ends.
func (v sessionVolume) sessionNames(ctx context.Context, agent string) (names []string) {
	const page = 100
	r, err := v.reader(agent)
	if r == nil || err != nil {
		return nil
	}
	defer r.Close() // only read
	for after := ""; ; {
		found, next, err := r.List(ctx, after, page)
		for _, s := range found {
			if s.Session != "" {
				names = append(names, s.Session)
			}
		}
		if after = next; after == "" || err != nil {
			return names
		}
	}
}

// asksForCompletion reports whether a command line is the question of a
// completion script.
func asksForCompletion(args []string) bool {
	return len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd)
}

// plainUsages takes out of the flags' descriptions the marks around the names of
// their values: a shell shows them as they are.
func plainUsages(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		plainUsages(c)
	}
	for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) { _, f.Usage = pflag.UnquoteUsage(f) })
	}
}
