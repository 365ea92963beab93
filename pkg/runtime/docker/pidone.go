package docker

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/flisk-go/flisk/pkg/runtime"
)

// deaf are programs that, as the first process of a container, keep SIGTERM from
// the agent that they have started: it is killed at the end of its grace, and
// never drains.
var deaf = []string{"sh", "bash", "dash", "ash", "zsh", "busybox", "npm", "npx", "yarn", "pnpm"}

// deafFirst is such a program at the beginning of a command line. A shell that
// only execs another program becomes that.
func deafFirst(argv []string) (name string, is bool) {
	if len(argv) == 0 {
		return "", false
	}
	if name = path.Base(argv[0]); !slices.Contains(deaf, name) {
		return "", false
	}
	last := strings.TrimSpace(argv[len(argv)-1])
	return name, len(argv) < 2 || !strings.HasPrefix(last, "exec ") || strings.ContainsAny(last, ";&|\n")
}

// warnDeaf warns of an agent whose first process would not pass SIGTERM on: by
// what the Compose file says, else by the image that its Dockerfile made.
func (a *apply) warnDeaf(w wantedAgent, image []string) {
	argv := slices.Concat(w.Service.Entrypoint, w.Service.Command)
	if len(argv) == 0 {
		argv = image
	}
	if name, is := deafFirst(argv); is {
		a.d.warn(fmt.Sprintf("the first process of agent %q is %s, which does not pass SIGTERM on: its turns are cut at every stop; use the exec form, as in ENTRYPOINT [\"/agent\"]", w.Agent.Name, name))
	}
}

// imageCommand is what an image runs by itself.
func (a *apply) imageCommand(ctx context.Context, tag string) ([]string, error) {
	image, ok, err := a.e.inspectImage(ctx, tag)
	if err != nil || !ok || image.Config == nil {
		return nil, err
	}
	return slices.Concat(image.Config.Entrypoint, image.Config.Cmd), nil
}

// warnKilled warns of an agent that SIGTERM did not end, or that something else
// ended during its drain. That somebody wanted it is no news.
func (d *Driver) warnKilled(ref runtime.Ref, how ending) {
	switch how.why {
	case byOthers:
		d.warn(fmt.Sprintf("%s was killed during its drain, %s after it was told to stop, and not by flisk: by hand, or because memory ran out; turns that it had not committed were cut, and their clients may send them again with their keys", ref.Replica, runtime.Span(how.took)))
	case byEngine:
		d.warn(fmt.Sprintf("%s did not end within its grace and was killed: either its drain takes longer than it may, or SIGTERM does not reach it, because its first process is a shell, npm or the like", ref.Replica))
	}
}
