package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/runtime/docker"
	"github.com/flisk-go/flisk/pkg/runtime/memory"
	"github.com/flisk-go/flisk/pkg/runtime/process"
)

// choice is where a project runs, or is looked for, and what said so.
type choice struct {
	on  project.Runtime // docker or process
	why string          // for people: "it ran there last"

	// unanswered is set where auto comes to local processes and an engine was to be
	// expected: it says which one, and why that. For people.
	unanswered string
}

func (c choice) String() string { return string(c.on) + ": " + c.why }

// chooseRuntime decides where a project is to run: what the command line says,
// then flisk.yaml, then where it ran last, then whether a Docker engine answers.
func (a *app) chooseRuntime(ctx context.Context, p *project.Project) (choice, error) {
	known, err := a.remembered(p)
	if err != nil {
		return choice{}, err
	}
	return a.firstOf(ctx, p, a.asked(), filed(p), last(known)), nil
}

// lookAtRuntime decides where to look for what there is. That it ran there comes
// before what flisk.yaml says now: a file that was edited since stops nothing, and
// moves no conversation.
func (a *app) lookAtRuntime(ctx context.Context, p *project.Project) (choice, error) {
	known, err := a.remembered(p)
	if err != nil {
		return choice{}, err
	}
	return a.firstOf(ctx, p, a.asked(), last(known), filed(p)), nil
}

func (a *app) asked() choice {
	return choice{on: project.Runtime(a.global.runtime), why: "--runtime says so"}
}

func filed(p *project.Project) choice {
	return choice{on: p.Runtime, why: project.FileName + " says so"}
}

func last(known memory.Project) choice {
	return choice{on: project.Runtime(known.Runtime), why: "it ran there last"}
}

// firstOf is the first of these that names a runtime; auto does not.
func (a *app) firstOf(ctx context.Context, p *project.Project, wishes ...choice) choice {
	for _, wish := range wishes {
		if wish.on != "" && wish.on != project.Auto {
			return wish
		}
	}
	answers, unanswered := a.askEngine(ctx, a, p)
	if !answers {
		return choice{on: project.Process, why: "no Docker engine answers", unanswered: unanswered}
	}
	return choice{on: project.Docker, why: "a Docker engine answers"}
}

// askEngine asks the engine that the docker command would talk to.
func askEngine(ctx context.Context, a *app, p *project.Project) (answers bool, unanswered string) {
	driver, err := a.dockerDriver(p, nil)
	if err != nil {
		return false, ""
	}
	defer driver.Close()
	if _, err = driver.Engine(ctx); err != nil {
		return false, a.unanswered(err)
	}
	return true, ""
}

// unanswered says which engine was to be expected and does not answer; "" where
// nothing on this machine looks like one.
func (a *app) unanswered(err error) string {
	switch endpoint, unresolved := docker.Resolve(a.surroundings()); {
	case unresolved == nil:
		return fmt.Sprintf("no Docker engine answers at %s (%s): local processes", endpoint.Host, endpoint.Why)
	case asFault(unresolved).Kind == fault.Usage:
		return asFault(err).Message + ": local processes"
	}
	return ""
}

func (a *app) surroundings() docker.Surroundings {
	return docker.Surroundings{Getenv: a.getenv, Home: a.getenv("HOME")}
}

// home is where flisk keeps what outlives a run.
func (a *app) home() (string, error) {
	home, err := process.DefaultHome(a.getenv)
	if err != nil {
		return "", fault.New(fault.Environment, "set FLISK_HOME to a directory of yours", "there is no place to keep anything: %w", err)
	}
	return home, nil
}

// remembered is what is remembered of a project between its runs.
func (a *app) remembered(p *project.Project) (memory.Project, error) {
	home, err := a.home()
	if err != nil {
		return memory.Project{}, err
	}
	return memory.Of(home, p.ID, a.global.instance).Read()
}

// refuseMove keeps an up from beginning anew where another runtime has the
// conversations: they would look lost. It lets them be left when all of them are
// here, too, with as many turns.
func (a *app) refuseMove(ctx context.Context, o *opened) error {
	known, err := a.remembered(o.project)
	if err != nil || known.Runtime == "" || known.Runtime == string(o.runtime) {
		return err
	}
	before := project.Runtime(known.Runtime)
	driver, err := a.newDriver(a, before, o.project, nil)
	if err != nil {
		return err
	}
	there := &opened{project: o.project, runtime: before, driver: driver}
	onThere := "--runtime " + string(before)
	observed, err := driver.Observe(ctx)
	var left lag
	if err == nil && !observed.Running {
		left, err = lagOf(ctx, there, o)
	}
	switch {
	case ctx.Err() != nil:
		return err
	case err != nil:
		f := asFault(err)
		return fault.New(fault.Environment,
			a.remedy(ctx, there, f)+"; or, to begin anew without them, remove "+a.memoryPath(o.project),
			"the project ran on %s last, and whether its conversations are there cannot be told: %w", runtimeWords(before), err)
	case observed.Running:
		return fault.New(fault.Environment, "go on with it: "+onThere+"; or stop it first: "+a.command("down "+onThere),
			"the project runs on %s", runtimeWords(before))
	case left.missing+left.behind() > 0:
		f := fault.New(fault.Environment, a.wayOn(there.runtime, o.runtime, left), "the project ran on %s last, and %s", runtimeWords(before), left.words(o.runtime))
		f.Detail = "to go on without them, remove " + a.memoryPath(o.project)
		return f
	}
	return nil
}

// wayOn says how to go on where conversations are on a runtime that lack on
// another one. What is older there has to go first: an import replaces nothing.
func (a *app) wayOn(there, here project.Runtime, left lag) string {
	onThere, onHere := " --runtime "+string(there), " --runtime "+string(here)
	skip := ""
	if left.here > 0 {
		skip = " --skip-existing"
	}
	move := a.command("sessions export"+onThere) + " | " + a.command("sessions import -"+skip+onHere)
	if left.behind() == 0 {
		return "go on there:" + onThere + "; or copy them: " + move
	}
	which := ""
	remove := func(on string) string {
		var commands []string
		for _, agent := range slices.Sorted(maps.Keys(left.older)) {
			ids := strings.Join(left.older[agent], " ")
			if n := len(left.older[agent]); n > maxNamed {
				ids, which = "ID…", "; ID… are those that have fewer turns in "+a.command("sessions list"+onHere)+" than in "+a.command("sessions list"+onThere)
			}
			commands = append(commands, a.command("sessions rm "+ids+" --agent "+agent+on))
		}
		return strings.Join(commands, " && ")
	}
	return fmt.Sprintf("go on there:%s; or take what is there, and lose the older copies here: %s && %s; or keep the older copies, and lose the newer ones: %s",
		onThere, remove(onHere), move, remove(onThere)) + which
}

// maxNamed is how many sessions of an agent are named in a command to copy. There
// may be thousands.
const maxNamed = 10

// remedy is what helps where the runtime of before cannot be asked. An engine that
// does not answer says to use local processes instead, which is no advice here.
func (a *app) remedy(ctx context.Context, there *opened, f *fault.Fault) string {
	if there.runtime == project.Docker {
		if answers, _ := a.askEngine(ctx, a, there.project); !answers {
			if a.getenv("DOCKER_HOST") != "" {
				return "unset DOCKER_HOST, or start the engine that it names"
			}
			return "start Docker"
		}
	}
	return cmp.Or(f.Hint, "use --runtime "+string(there.runtime))
}

func (a *app) memoryPath(p *project.Project) string {
	home, _ := a.home() // it was there a moment ago
	return memory.Of(home, p.ID, a.global.instance).Path()
}

func runtimeWords(r project.Runtime) string {
	if r == project.Docker {
		return "Docker"
	}
	return "local processes"
}

// lag is what one runtime has of a project's sessions, and another one has not.
type lag struct {
	missing int                 // sessions that are not here
	older   map[string][]string // that have fewer turns here, by agent
	here    int                 // sessions that are here
}

func (l lag) behind() (n int) {
	for _, ids := range l.older {
		n += len(ids)
	}
	return n
}

// words are "2 sessions are there that Docker would not have".
func (l lag) words(here project.Runtime) string {
	are := func(n int) string {
		if n == 1 {
			return "1 session is"
		}
		return countSessions(n) + " are"
	}
	switch {
	case l.behind() == 0:
		return fmt.Sprintf("%s there that %s would not have", are(l.missing), runtimeWords(here))
	case l.missing == 0:
		return fmt.Sprintf("%s there with more turns than on %s", are(l.behind()), runtimeWords(here))
	}
	return fmt.Sprintf("%s there that %s would not have, and %s there with more turns", are(l.missing), runtimeWords(here), are(l.behind()))
}

// lagOf compares the sessions of two runtimes.
func lagOf(ctx context.Context, from, to *opened) (l lag, err error) {
	type session struct{ agent, id string }
	turnsOf := func(o *opened) (map[session]int, error) {
		turns := map[session]int{}
		err := o.withVolume(ctx, func(v sessionVolume) error {
			for _, agent := range v.agents {
				rows, err := v.sessions(ctx, agent)
				if err != nil {
					return err
				}
				for _, row := range rows {
					turns[session{agent, row.ID}] = row.Turns
				}
			}
			return nil
		})
		return turns, err
	}
	there, err := turnsOf(from)
	if err != nil || len(there) == 0 {
		return l, err
	}
	here, err := turnsOf(to)
	if err != nil {
		return l, err
	}
	l.here, l.older = len(here), map[string][]string{}
	for s, turns := range there {
		switch n, has := here[s]; {
		case !has:
			l.missing++
		case n < turns:
			l.older[s.agent] = append(l.older[s.agent], s.id)
		}
	}
	for _, ids := range l.older {
		slices.Sort(ids)
	}
	return l, nil
}
