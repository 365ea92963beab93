package cli

import (
	"github.com/spf13/cobra"

	"github.com/flisk-go/flisk/pkg/runtime/process"
)

// newSupervise is what "flisk up" starts in the background. It handles signals
// itself, and it is not for people.
func newSupervise() *cobra.Command {
	return &cobra.Command{
		Use:    "supervise DIR",
		Short:  "keep the agents of a run directory alive",
		Long:   "Keep the agents of a run directory alive. flisk up starts it; people need not.",
		Hidden: true,
		Args:   positional(1, "DIR"),
		RunE:   func(cmd *cobra.Command, args []string) error { return process.Supervise(cmd.Context(), args[0]) },
	}
}
