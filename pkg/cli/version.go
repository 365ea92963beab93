package cli

import (
	"runtime"
	"runtime/debug"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/turn"
)

// VersionJSON is what "flisk version --json" prints.
type VersionJSON struct {
	Version  string `json:"version"`            // of the module, or "devel" for a build from a checkout
	Revision string `json:"revision,omitempty"` // of the source, if known
	Time     string `json:"time,omitempty"`     // of that revision
	Modified bool   `json:"modified"`           // the source was changed after that revision
	Go       string `json:"go"`                 // the Go version it was built with
	Platform string `json:"platform"`           // "linux/amd64"
	Contract int    `json:"contract"`           // of the HTTP contract with agents
}

func newVersion(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "say which flisk this is",
		GroupID: groupMore,
		Args:    positional(0),
		Example: examples(
			"flisk version", "for a bug report",
			"flisk version --json", "for a script",
		),
		RunE: func(*cobra.Command, []string) error {
			return runVersion(a, thisVersion())
		},
	}
}

// thisVersion is the version of the running program.
func thisVersion() VersionJSON {
	info, _ := debug.ReadBuildInfo() // nil when there is none
	return versionOf(info)
}

// versionOf reads what the linker wrote down; info is nil in a binary without.
func versionOf(info *debug.BuildInfo) VersionJSON {
	v := VersionJSON{
		Version:  "devel",
		Go:       runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Contract: turn.Contract,
	}
	if info == nil {
		return v
	}
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

func runVersion(a *app, v VersionJSON) error {
	if a.global.json {
		return a.printJSON(v)
	}
	fields := []console.Field{{Label: "flisk", Value: console.Cell{Text: v.Version, Style: console.Strong}, Shrink: console.Middle}}
	if revision := v.Revision; revision != "" {
		if v.Modified {
			revision += " (modified)"
		}
		fields = append(fields, console.Field{Label: "revision", Value: console.Cell{Text: revision}})
	}
	a.streams.Out.Fields(append(fields,
		console.Field{Label: "go", Value: console.Cell{Text: v.Go}},
		console.Field{Label: "platform", Value: console.Cell{Text: v.Platform}},
		console.Field{Label: "contract", Value: console.Cell{Text: strconv.Itoa(v.Contract)}},
	)...)
	return nil
}
