package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/docker"
)

// foreignVolume is what a driver has whose volume only an agent's own program may
// write to.
type foreignVolume interface {
	ChangeVolume(ctx context.Context, p runtime.Progress, c docker.Command) (exit int, err error)
}

// importAll imports an export into the project's volume and names that. from is
// the export again, from its beginning.
func (o *opened) importAll(ctx context.Context, p runtime.Progress, x *checkpoint.Export, from *io.SectionReader, options checkpoint.ImportOptions) (volume string, report checkpoint.ImportReport, err error) {
	observed, err := o.driver.Observe(ctx)
	if err != nil {
		return "", report, err
	}
	driver, foreign := o.driver.(foreignVolume) // looks by itself
	if !foreign {
		refused, err := o.checkVolume(ctx)
		if err = cmp.Or(refused, err); err != nil {
			return observed.Volume, report, err
		}
		report, err = checkpoint.ImportAll(ctx, observed.Place, x, options)
		return observed.Volume, report, err
	}
	args := []string{"sessions", "import", "--agents", strings.Join(options.Agents, ",")}
	if options.Agent != "" {
		args = append(args, "--agent", options.Agent)
	}
	if options.Skip {
		args = append(args, "--skip-existing")
	}
	err = askProgram(ctx, p, driver, args, from, &report)
	return observed.Volume, report, err
}

// removeSessions removes what was looked at before.
func (o *opened) removeSessions(ctx context.Context, progress *console.Progress, v sessionVolume, agent string, going []RemovedRowJSON) (report checkpoint.RemovalReport, err error) {
	var ids []string
	for _, s := range going {
		ids = append(ids, s.ID)
	}
	wait := "waiting for " + countSessions(len(ids))
	if len(ids) == 1 {
		wait = "waiting for session " + ids[0]
	}
	if driver, foreign := o.driver.(foreignVolume); foreign {
		args := slices.Concat([]string{"sessions", "rm", "--agent", agent, "--"}, ids)
		err = askProgram(ctx, progress, driver, args, nil, &report)
		return report, err
	}
	defer progress.Wait(wait)()
	id, err := checkpoint.VolumeID(v.place)
	if err != nil {
		return report, v.unreadable(err)
	}
	return checkpoint.RemoveAll(ctx, v.place, ids, checkpoint.Options{Agent: agent, ExpectVolume: id})
}

// programError is how an agent's program, asked to change the volume, failed.
type programError struct {
	kind fault.Kind
	said string
}

func (e *programError) Error() string { return e.said }

// askProgram has an agent's own program do something to the volume, and reads its
// report: that is there also when it failed.
func askProgram(ctx context.Context, p runtime.Progress, driver foreignVolume, args []string, input *io.SectionReader, report any) error {
	var out, said bytes.Buffer
	exit, err := driver.ChangeVolume(ctx, p, docker.Command{Args: args, Input: input, Stdout: &out, Stderr: &said})
	if err != nil {
		return err
	}
	unread := json.Unmarshal(out.Bytes(), report)
	switch {
	case exit != 0:
		return &programError{fault.Kind(exit), lastLine(said.String(), exit)}
	case unread != nil:
		return fault.New(fault.Failed, "renew its library: flisk init --update-library", "the agent's program does not know how to change its volume: %w", unread)
	}
	return nil
}

// lastLine is what a program said last.
func lastLine(said string, exit int) string {
	said = strings.TrimSpace(said)
	if said = said[strings.LastIndexByte(said, '\n')+1:]; said == "" {
		return fmt.Sprintf("the agent's program ended with %d and said nothing", exit)
	}
	return said
}

// storeKind says whether a failed write is the environment's fault.
func storeKind(err error) fault.Kind {
	if asked, ok := errors.AsType[*programError](err); ok {
		return asked.kind
	}
	if why, ok := errors.AsType[*fault.Fault](err); ok {
		return why.Kind
	}
	for _, environment := range []error{checkpoint.ErrNoSpace, checkpoint.ErrReadOnly, checkpoint.ErrNotVolume, checkpoint.ErrOtherVolume} {
		if errors.Is(err, environment) {
			return fault.Environment
		}
	}
	return fault.Failed
}
