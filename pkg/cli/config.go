package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/turn"
)

// ConfigJSON is what "flisk config --json" prints: the stack that flisk.yaml
// describes, defaults filled in. No value of an env file is in it.
type ConfigJSON struct {
	Project  string            `json:"project"`
	ID       string            `json:"id"`
	Instance string            `json:"instance,omitempty"` // as --instance says
	Dir      string            `json:"dir"`                // absolute
	File     string            `json:"file"`               // flisk.yaml, absolute
	Runtime  project.Runtime   `json:"runtime"`            // "docker" or "process": what auto comes to
	Gateway  GatewayJSON       `json:"gateway"`
	Volume   ConfigVolumeJSON  `json:"volume"`
	Agents   []ConfigAgentJSON `json:"agents"` // in the order of their names
	Verify   ConfigVerifyJSON  `json:"verify"`
}

// GatewayJSON is the one address that clients use.
type GatewayJSON struct {
	URL   string   `json:"url"`
	Bind  string   `json:"bind"`
	Port  int      `json:"port"`
	Hosts []string `json:"hosts"` // every Host value that is served
}

// ConfigVolumeJSON says where the conversations are.
type ConfigVolumeJSON struct {
	Name  string `json:"name"`
	Place string `json:"place"`
}

// ConfigAgentJSON is one agent.
type ConfigAgentJSON struct {
	Name           string   `json:"name"`
	Dir            string   `json:"dir"` // of its main package, absolute
	TurnURL        string   `json:"turn_url"`
	Replicas       int      `json:"replicas"`
	TurnTimeout    string   `json:"turn_timeout"` // durations as flisk.yaml writes them: "100s"
	Drain          string   `json:"drain"`
	StopGrace      string   `json:"stop_grace"` // from SIGTERM to SIGKILL; follows from drain
	OnBusy         string   `json:"on_busy"`    // "queue" or "reject"
	RequireSession bool     `json:"require_session_id"`
	MaxBody        int64    `json:"max_body"`          // bytes
	EnvFiles       []string `json:"env_files"`         // absolute
	MissingEnv     []string `json:"missing_env_files"` // those of them that are not there, which is no error
	WatchIgnore    []string `json:"watch_ignore"`      // patterns of files that count for nothing
}

// ConfigVerifyJSON is what a verification sends.
type ConfigVerifyJSON struct {
	Inputs []string `json:"inputs"`
	Env    []string `json:"env"` // the names of its environment variables
}

func newConfig(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "config",
		Short:   "show what flisk.yaml comes to",
		GroupID: groupMore,
		Long: "Show the stack that flisk.yaml describes: defaults filled in, paths absolute, the gateway's address and the " +
			"place of the volume. Env files are named, and their values never shown. Nothing is started or changed.",
		Example: examples(
			"flisk config", "the project of this directory",
			"flisk config --json | jq -r '.agents[].turn_url'", "where turns go, for a script",
		),
		Args: positional(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.interruptible(cmd.Context(), func(ctx context.Context) error { return runConfig(ctx, a) })
		},
	}
}

func runConfig(ctx context.Context, a *app) error {
	o, err := a.open(ctx, nil)
	if err != nil {
		return err
	}
	s := stack.Of(o.project, a.global.instance)
	v := configOf(o.project, s)
	v.Runtime = o.runtime
	switch observed, err := o.driver.Observe(ctx); {
	case err == nil:
		v.Gateway.URL = cmp.Or(observed.URL, v.Gateway.URL)
		v.Volume = ConfigVolumeJSON{observed.Volume, observed.Place}
	case ctx.Err() == nil && asFault(err).Kind == fault.Environment: // what the file comes to does not depend on it
		a.warn(asFault(err).Message)
		v.Volume = ConfigVolumeJSON{Name: s.Volume.Name, Place: "cannot be told now"}
	default:
		return err
	}
	if a.global.json {
		return a.printJSON(v)
	}
	a.printConfig(v)
	return nil
}

func configOf(p *project.Project, s stack.Stack) ConfigJSON {
	v := ConfigJSON{
		Project: p.Name, ID: p.ID, Instance: s.Instance, Dir: p.Dir, File: filepath.Join(p.Dir, project.FileName), Runtime: p.Runtime,
		Gateway: GatewayJSON{URL: s.Gateway.URL(), Bind: s.Gateway.Bind, Port: s.Gateway.Port, Hosts: s.Gateway.HostNames()},
		Agents:  []ConfigAgentJSON{},
		Verify:  ConfigVerifyJSON{Inputs: append([]string{}, p.Verify.Inputs...), Env: slices.AppendSeq([]string{}, maps.Keys(p.Verify.Env))},
	}
	slices.Sort(v.Verify.Env)
	for _, a := range s.Agents {
		v.Agents = append(v.Agents, ConfigAgentJSON{
			Name: a.Name, Dir: a.Dir, TurnURL: s.Gateway.URL() + turn.TurnPath(a.Name), Replicas: a.Replicas,
			TurnTimeout: inSeconds(a.TurnTimeout), Drain: inSeconds(a.Drain), StopGrace: inSeconds(a.StopGrace),
			OnBusy: a.OnBusy, RequireSession: a.RequireSession, MaxBody: a.MaxBody,
			EnvFiles: append([]string{}, a.EnvFiles...), MissingEnv: missing(a.EnvFiles), WatchIgnore: append([]string{}, a.WatchIgnore...),
		})
	}
	return v
}

// inSeconds is a duration as people write it in flisk.yaml: "100s", not "1m40s".
func inSeconds(d time.Duration) string {
	if d%time.Second != 0 {
		return d.String()
	}
	return strconv.FormatInt(int64(d/time.Second), 10) + "s"
}

// missing are the files that do not exist.
func missing(files []string) []string {
	return slices.DeleteFunc(append([]string{}, files...), func(file string) bool {
		_, err := os.Stat(file)
		return !errors.Is(err, fs.ErrNotExist)
	})
}

func (a *app) printConfig(v ConfigJSON) {
	field := func(label, value string, shrink console.Shrink) console.Field {
		return console.Field{Label: label, Value: console.Cell{Text: value}, Shrink: shrink}
	}
	fields := []console.Field{
		{Label: "project", Value: console.Cell{Text: v.Project + " (" + v.ID + ")", Style: console.Strong}},
		field("in", v.Dir, console.Middle),
		field("runtime", string(v.Runtime), console.Never),
		{Label: "gateway", Value: console.Cell{Text: v.Gateway.URL, Style: console.Accent}},
		field("hosts", strings.Join(v.Gateway.Hosts, ", "), console.Never),
		field("volume", v.Volume.Name, console.Middle),
		field("at", v.Volume.Place, console.Middle),
	}
	if v.Instance != "" {
		fields = slices.Insert(fields, 1, field("instance", v.Instance, console.Never))
	}
	out := a.streams.Out
	out.Fields(fields...)
	for _, agent := range v.Agents {
		fmt.Fprintln(out)
		fields := []console.Field{
			{Label: "agent", Value: console.Cell{Text: agent.Name, Style: console.Strong}},
			field("in", agent.Dir, console.Middle),
			field("turns", agent.TurnURL, console.Middle),
			field("replicas", strconv.Itoa(agent.Replicas), console.Never),
			field("turn timeout", agent.TurnTimeout+"; drain "+agent.Drain+"; killed "+agent.StopGrace+" after a SIGTERM", console.Never),
			field("when busy", agent.OnBusy, console.Never),
			field("largest body", console.Size(agent.MaxBody), console.Never),
		}
		if agent.RequireSession {
			fields = append(fields, field("sessions", "must be named", console.Never))
		}
		for _, file := range agent.EnvFiles {
			text := file
			if slices.Contains(agent.MissingEnv, file) {
				text += " (not there)"
			}
			fields = append(fields, field("env file", text, console.Middle))
		}
		if len(agent.WatchIgnore) > 0 {
			fields = append(fields, field("ignores", strings.Join(agent.WatchIgnore, ", "), console.Never))
		}
		out.Fields(fields...)
	}
	fmt.Fprintln(out)
	out.Fields(
		field("verify says", strings.Join(quotedAll(v.Verify.Inputs), ", "), console.Never),
		field("verify sets", cmp.Or(strings.Join(v.Verify.Env, ", "), "nothing"), console.Never),
	)
}
