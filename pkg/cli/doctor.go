package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/scaffold"
	"github.com/flisk-go/flisk/pkg/source"
	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/toolchain"
)

// DoctorJSON is what "flisk doctor --json" prints.
type DoctorJSON struct {
	Ready    bool          `json:"ready"` // "flisk up" can work, as far as can be seen; otherwise the exit code is 3
	Findings []FindingJSON `json:"findings"`
}

// FindingJSON is one thing that was looked at.
type FindingJSON struct {
	Subject string        `json:"subject"`
	Level   runtime.Level `json:"level"`          // "fine", "doubtful" (look at it) or "blocking" ("flisk up" would fail)
	Text    string        `json:"text"`           // what was found
	Hint    string        `json:"hint,omitempty"` // how to mend it
}

func newDoctor(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "doctor",
		Short:   "say what is missing, and how to mend it",
		GroupID: groupMore,
		Long: "Look at everything that flisk up depends on: flisk.yaml, the runtime and why it is that one, the " +
			"generated files, the Go toolchain, the agents' directories, the port, the volume, the disk; on Docker the engine and why it is that " +
			"one, and the images. A line each, and below it how to mend what is wrong. Nothing is changed.\n\n" +
			"It exits with 3 when flisk up could not work.",
		Example: examples(
			"flisk doctor", "look at the project of this directory",
			"flisk doctor --json | jq '.findings[] | select(.level != \"fine\")'", "what is wrong, for a script",
		),
		Args: positional(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.interruptible(cmd.Context(), func(ctx context.Context) error { return runDoctor(ctx, a) })
		},
	}
}

func runDoctor(ctx context.Context, a *app) error {
	findings := a.examine(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	result := DoctorJSON{Ready: true, Findings: []FindingJSON{}}
	for _, f := range findings {
		result.Ready = result.Ready && f.Level != runtime.Blocking
		result.Findings = append(result.Findings, FindingJSON(f))
	}
	if a.global.json {
		if err := a.printJSON(result); err != nil {
			return err
		}
	} else {
		a.printFindings(findings)
	}
	if !result.Ready {
		return &fault.Fault{Kind: fault.Environment} // all is said
	}
	return nil
}

// examine looks at one thing after another, each whatever became of the others.
func (a *app) examine(ctx context.Context) []runtime.Finding {
	p, warnings, err := project.Load(a.dir())
	if err != nil {
		return append(a.wrongProject(err), examineToolchain(ctx, project.Process))
	}
	findings := []runtime.Finding{{
		Subject: project.FileName, Level: runtime.Fine,
		Text: fmt.Sprintf("project %s in %s", p.Name, p.Dir),
	}}
	for _, w := range warnings {
		findings = append(findings, runtime.Finding{Subject: project.FileName, Level: runtime.Doubtful, Text: w.String(), Hint: "correct the file"})
	}
	chosen, err := a.chooseRuntime(ctx, p)
	if err != nil {
		return append(findings, asFinding("runtime", err))
	}
	on := chosen.on
	findings = append(findings, examineRuntime(chosen), examineFiles(p), examineToolchain(ctx, on))
	for _, agent := range stack.Of(p, a.global.instance).Agents {
		findings = append(findings, examineAgent(ctx, p, on, agent))
	}
	if unused := overrideUnused(p, on); unused != "" {
		findings = append(findings, runtime.Finding{Subject: "files", Level: runtime.Doubtful, Text: unused})
	}
	findings = append(findings, examineLibrary(a, p)...)
	driver, err := a.newDriver(a, on, p, nil)
	if err != nil {
		return append(findings, asFinding("run directory", err))
	}
	findings = append(findings, driver.Examine(ctx)...)
	if err := a.refuseMove(ctx, &opened{project: p, runtime: on, driver: driver}); err != nil {
		findings = append(findings, asFinding("conversations", err))
	}
	return findings
}

// examineRuntime says where the project runs, and why there.
func examineRuntime(c choice) runtime.Finding {
	f := runtime.Finding{Subject: "runtime", Level: runtime.Fine, Text: c.String()}
	if c.unanswered != "" {
		f.Level, f.Text = runtime.Doubtful, c.unanswered
	}
	return f
}

// examineFiles looks at the generated files, which up brings to what flisk.yaml
// says, and refuses where somebody edited one.
func examineFiles(p *project.Project) runtime.Finding {
	const subject = "files"
	change, err := stale(p)
	switch n := len(change.Stale); {
	case err != nil:
		return asFinding(subject, err)
	case n > 0:
		return runtime.Finding{Subject: subject, Level: runtime.Fine, Text: fmt.Sprintf("flisk up writes %d of the generated ones", n)}
	}
	return runtime.Finding{Subject: subject, Level: runtime.Fine, Text: "the generated ones are what " + project.FileName + " says"}
}

// asFinding is an error that keeps up from working.
func asFinding(subject string, err error) runtime.Finding {
	f := asFault(err)
	text := f.Message
	if detail := strings.TrimSpace(f.Detail); detail != "" {
		text += ": " + strings.ReplaceAll(detail, "\n", "; ")
	}
	return runtime.Finding{Subject: subject, Level: runtime.Blocking, Text: text, Hint: f.Hint}
}

// wrongProject is why there is no project to look at, a finding for each mistake
// in its file.
func (a *app) wrongProject(err error) (findings []runtime.Finding) {
	problems, ok := errors.AsType[project.Problems](err)
	if !ok {
		return []runtime.Finding{asFinding("project", err)}
	}
	for _, p := range problems {
		findings = append(findings, runtime.Finding{Subject: project.FileName, Level: runtime.Blocking, Text: p.String()})
	}
	findings[len(findings)-1].Hint = "correct the file; " + a.command("up") + " shows the lines"
	return findings
}

// examineToolchain finds Go. Docker builds with the Dockerfile where there is
// none, which takes a registry and longer.
func examineToolchain(ctx context.Context, on project.Runtime) runtime.Finding {
	const subject = "toolchain"
	found, err := toolchain.Find(ctx)
	if err != nil {
		f := asFinding(subject, err)
		if on == project.Docker {
			f.Level, f.Text = runtime.Doubtful, f.Text+"; the Dockerfile builds the agents instead"
		}
		return f
	}
	return runtime.Finding{Subject: subject, Level: runtime.Fine, Text: found.Version + ", " + found.Path}
}

func examineAgent(ctx context.Context, p *project.Project, on project.Runtime, agent stack.Agent) runtime.Finding {
	subject := "agent " + agent.Name
	_, err := toolchain.Examine(ctx, toolchain.Options{Dir: agent.Dir, Root: p.Dir, Agent: agent.Name})
	if err != nil && (on != project.Docker || asFault(err).Kind != fault.Environment) { // examineToolchain tells of the other
		return asFinding(subject, err)
	}
	if _, err := source.Hash(p, agent.Name); err != nil {
		return asFinding(subject, err)
	}
	return runtime.Finding{Subject: subject, Level: runtime.Fine, Text: "a main package of a module, in " + agent.Dir}
}

// examineLibrary says nothing of a project that has no copy.
func examineLibrary(a *app, p *project.Project) []runtime.Finding {
	const subject = "library"
	switch state, err := scaffold.Library(p.Dir); {
	case err != nil:
		return []runtime.Finding{{Subject: subject, Level: runtime.Doubtful, Text: err.Error()}}
	case state == scaffold.SameLibrary:
		return []runtime.Finding{{Subject: subject, Level: runtime.Fine, Text: "the copy in third_party/flisk is the one of this flisk"}}
	case state == scaffold.OtherLibrary:
		return []runtime.Finding{{
			Subject: subject, Level: runtime.Doubtful, Text: "the copy in third_party/flisk is not the one of this flisk",
			Hint: "renew it: " + a.command("init --update-library"),
		}}
	}
	return nil
}

// printFindings prints a line for each finding, and one below it for a hint.
func (a *app) printFindings(findings []runtime.Finding) {
	var fields []console.Field
	wrong := 0
	for _, f := range findings {
		mark, style := "✓ ", console.Plain
		switch f.Level {
		case runtime.Doubtful:
			mark, style = "! ", console.Warn
		case runtime.Blocking:
			mark, style = "✗ ", console.Bad
			wrong++
		}
		fields = append(fields, console.Field{Label: mark + f.Subject, Value: console.Cell{Text: strings.TrimSpace(f.Text), Style: style}})
		if f.Hint != "" {
			fields = append(fields, console.Field{Value: console.Cell{Text: "→ " + f.Hint, Style: console.Accent}})
		}
	}
	out := a.streams.Out
	out.Fields(fields...)
	fmt.Fprintln(out)
	if wrong > 0 {
		fmt.Fprintln(out, console.Bad.Render("flisk up cannot work before what is marked ✗ is mended"))
		return
	}
	fmt.Fprintln(out, console.Good.Render("flisk up can work, as far as can be seen from here"))
}
