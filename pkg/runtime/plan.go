package runtime

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Desired is what shall run, as far as a plan depends on it.
type Desired struct {
	Dir      string    // of the project
	Gateway  string    // the address it shall listen on, "host:port"
	Setup    string    // identifies the settings of the gateway; as in [Observed]
	Agents   []Want    // in the order of their names
	Services []Service // each behind those that it depends on
}

// Want is one agent of a [Desired].
type Want struct {
	Agent    string
	Replicas int
	Code     string    // source hash that its replicas shall run
	Settings string    // identifies the settings that they shall be started with
	Named    []Setting // the same, for the cause of a step
}

// Op is what was asked for.
type Op int

// The operations.
const (
	OpUp      Op = iota // converge on what is desired
	OpDown              // stop everything
	OpRestart           // OpUp, and replace what is as desired, too
)

// Action is what a step does.
type Action string

// The actions, in the order in which a whole `up` and `down` meets them.
const (
	Build        Action = "build"         // make Agent's program from its present source
	Pull         Action = "pull"          // get the image of Service, which is missing: nothing is stopped before it is there
	StartService Action = "start service" // and wait until it runs, or is healthy where it can say so
	StopService  Action = "stop service"  // and remove what it ran in; its volumes stay
	Mend         Action = "mend"          // what runs and cannot do its work: a generation of Replica, or Service, which may be the gateway's
	StartGateway Action = "start gateway" // and whatever keeps replicas alive
	Start        Action = "start"         // a generation of Replica; nothing is sent to it yet
	Await        Action = "await"         // until that generation is ready; its exit ends the plan
	SwapGateway  Action = "swap gateway"  // stop it, its requests first, and start it with other settings
	Switch       Action = "switch routes" // to exactly Serve, for the project in its present directory
	Confirm      Action = "confirm"       // that Agent answers ready through the gateway, by the new routes
	Stop         Action = "stop"          // a generation of Replica, through its drain
	StopGateway  Action = "stop gateway"
)

// Step is one thing to do and why.
type Step struct {
	Do         Action
	Agent      string // for Build, Start, Await, Confirm, Stop and Mend
	Service    string // for Pull, StartService, StopService and Mend
	Replica    string // for Start, Await, Stop and Mend: its name
	Generation int    // for Start, Await, Stop and Mend
	Serve      []Ref  // for Switch
	Cause      string // in words
}

// Ref names one generation of a replica.
type Ref struct {
	Agent      string
	Replica    string
	Generation int
}

func (r Ref) String() string { return r.Replica + "." + strconv.Itoa(r.Generation) }

// Ref is the generation that a Start, Await or Stop is about.
func (s Step) Ref() Ref { return Ref{s.Agent, s.Replica, s.Generation} }

// Plan is what to do, in order. A step may rely on every step before it, with
// one exception: neighbours with the same action do not depend on each other
// and may be done at once.
type Plan []Step

// Changes reports whether doing the plan changes anything, rather than only
// waiting.
func (p Plan) Changes() bool {
	return slices.ContainsFunc(p, func(s Step) bool { return s.Do != Await && s.Do != Confirm })
}

// AfterBuilds is the plan with others put behind the builds that it begins with:
// one that fails stops nothing, and may be tried again.
func (p Plan) AfterBuilds(others ...Plan) Plan {
	builds := 0
	for builds < len(p) && p[builds].Do == Build {
		builds++
	}
	return slices.Concat(p[:builds], slices.Concat(others...), p[builds:])
}

// String is the plan for people: a line for each step, with its cause.
func (p Plan) String() string {
	var b strings.Builder
	for _, s := range p {
		fmt.Fprintf(&b, "%-13s  %-16s  %s\n", s.Do, s.Object(), s.Cause)
	}
	return b.String()
}

// Object is what the step is about, for people: an agent, a replica with its
// generation, or what shall serve.
func (s Step) Object() string {
	switch {
	case s.Do == Switch:
		names := make([]string, len(s.Serve))
		for i, r := range s.Serve {
			names[i] = r.String()
		}
		return strings.Join(names, " ")
	case s.Replica != "":
		return s.Ref().String()
	case s.Service != "":
		return s.Service
	}
	return s.Agent
}

// NewPlan works out how to get from what is observed to what is desired. It is
// a pure function. A replica whose code or settings changed is replaced start
// first: its successor is ready and has the routes before it is stopped.
// Replicas in observed that do not serve are taken for what they are, so a plan
// also finishes what an interrupted one began; one that is [Gone] is none. agents
// are those that OpRestart is about; none is all.
func NewPlan(desired Desired, observed Observed, op Op, agents ...string) Plan {
	observed.Replicas = slices.DeleteFunc(slices.Clone(observed.Replicas), func(r Replica) bool { return r.State == Gone })
	replace := func(agent string) bool {
		return op == OpRestart && (len(agents) == 0 || slices.Contains(agents, agent))
	}
	switch {
	case op == OpDown:
		return stopAll(observed, "down was asked for")
	case desired.Setup == "" && observed.Gateway != "" && observed.Gateway != desired.Gateway:
		// One listener cannot become another without a gap; the causes say so.
		fresh := converge(desired, Observed{}, replace)
		moved := moves(desired, observed)
		for i, step := range fresh {
			runs := func(r Replica) bool { return r.Agent == step.Agent && (r.Name == step.Replica || step.Do == Build) }
			if (step.Do == Build || step.Do == Start) && slices.ContainsFunc(observed.Replicas, runs) {
				fresh[i].Cause = moved
			}
		}
		builds := slices.IndexFunc(fresh, func(s Step) bool { return s.Do != Build })
		return slices.Concat(fresh[:builds], stopAll(observed, moved), fresh[builds:])
	}
	return converge(desired, observed, replace)
}

// stopAll stops agents before the gateway, so that what they finish in their
// drain still reaches its clients, and then what they may have used for it.
func stopAll(observed Observed, cause string) Plan {
	var plan Plan
	for _, r := range observed.Replicas {
		plan = append(plan, Step{Do: Stop, Agent: r.Agent, Replica: r.Name, Generation: r.Generation, Cause: cause})
	}
	if observed.Gateway != "" {
		plan = append(plan, Step{Do: StopGateway, Cause: cause})
	}
	for _, s := range slices.Backward(observed.Services) {
		plan = append(plan, Step{Do: StopService, Service: s.Name, Cause: cause})
	}
	return plan
}

// converge is the plan of OpUp, and of OpRestart, when the gateway can stay where
// it is. replace tells of which agents nothing that runs will do.
func converge(desired Desired, observed Observed, replace func(agent string) bool) Plan {
	var builds, starts, awaits, confirms, stops Plan
	var serve []Ref
	keep := map[Ref]bool{}
	for _, want := range desired.Agents {
		cause, waited := "", false
		for i := range want.Replicas {
			name := want.Agent + "-" + strconv.Itoa(i+1)
			at := present(observed, want.Agent, name)
			ref := Ref{want.Agent, name, 0}
			r, fits := fitting(at, want)
			if fits && !replace(want.Agent) {
				ref.Generation = r.Generation
				if r.State != Ready && r.State != Waiting {
					awaits = append(awaits, ref.step(Await, "it is "+string(r.State)))
				}
				waited = waited || r.State != Ready
			} else {
				why := "restart was asked for"
				if !fits {
					why = replaceCause(at, want, moves(desired, observed))
				}
				ref.Generation = newest(at) + 1
				starts = append(starts, ref.step(Start, why))
				awaits = append(awaits, ref.step(Await, "it gets requests only when it is ready"))
				cause, waited = why, true
			}
			keep[ref] = true
			serve = append(serve, ref)
		}
		if cause != "" {
			builds = append(builds, Step{Do: Build, Agent: want.Agent, Cause: cause})
		}
		if waited {
			confirms = append(confirms, Step{Do: Confirm, Agent: want.Agent, Cause: "done means that clients get answers"})
		}
	}
	for _, r := range observed.Replicas {
		if ref := (Ref{r.Agent, r.Name, r.Generation}); !keep[ref] {
			stops = append(stops, ref.step(Stop, stopCause(r, desired, serve)))
		}
	}
	services, orphans := services(desired.Services, observed.Services)
	plan := slices.Concat(builds, services)
	if observed.Gateway == "" {
		plan = append(plan, Step{Do: StartGateway, Cause: "nothing listens on " + desired.Gateway + " yet"})
	}
	plan = slices.Concat(plan, starts, awaits)
	if cause := swapCause(desired, observed); cause != "" {
		plan = append(plan, Step{Do: SwapGateway, Cause: cause})
	}
	switch {
	case !sameRefs(serve, serving(observed)):
		plan = append(plan, Step{Do: Switch, Serve: serve, Cause: "these are ready and as desired"})
	case observed.Gateway != "" && observed.Dir != desired.Dir:
		plan = append(plan, Step{Do: Switch, Serve: serve, Cause: "the project moved to " + desired.Dir})
	}
	return slices.Concat(plan, confirms, stops, orphans)
}

// services are the steps that start what is missing or is not as desired, and
// those that stop what the project has no more. One that changed is stopped
// first: two of them would share its volumes.
func services(desired, observed []Service) (start, stop Plan) {
	for _, want := range desired {
		cause := "it does not run"
		if i := slices.IndexFunc(observed, func(s Service) bool { return s.Name == want.Name }); i >= 0 {
			switch was := observed[i]; {
			case was.Settings != want.Settings:
				cause = "its settings changed"
				start = append(start, Step{Do: StopService, Service: want.Name, Cause: cause})
			case was.Stopped:
				cause = "it has stopped"
			default:
				continue
			}
		}
		start = append(start, Step{Do: StartService, Service: want.Name, Cause: cause})
	}
	for _, s := range slices.Backward(observed) {
		if !slices.ContainsFunc(desired, func(want Service) bool { return want.Name == s.Name }) {
			stop = append(stop, Step{Do: StopService, Service: s.Name, Cause: "the project has no such service any more"})
		}
	}
	return start, stop
}

// swapCause says why the gateway that runs cannot stay; "" when it can. Where it
// has settings of its own, agents need not stop for it.
func swapCause(desired Desired, observed Observed) string {
	if observed.Gateway == "" || desired.Setup == observed.Setup {
		return ""
	}
	return cmp.Or(moves(desired, observed), "its settings changed")
}

// moves says that the gateway moves; "" when it does not.
func moves(desired Desired, observed Observed) string {
	if observed.Gateway == "" || observed.Gateway == desired.Gateway {
		return ""
	}
	return fmt.Sprintf("the gateway moves from %s to %s", observed.Gateway, desired.Gateway)
}

func (r Ref) step(do Action, cause string) Step {
	return Step{Do: do, Agent: r.Agent, Replica: r.Replica, Generation: r.Generation, Cause: cause}
}

// present lists all generations at one place.
func present(observed Observed, agent, name string) []Replica {
	var out []Replica
	for _, r := range observed.Replicas {
		if r.Agent == agent && r.Name == name {
			out = append(out, r)
		}
	}
	return out
}

// fitting is the generation that is as desired; the serving one when there are
// several. One that was replaced is on its way out, and no way leads back.
func fitting(at []Replica, want Want) (Replica, bool) {
	var found Replica
	ok := false
	for _, r := range at {
		if r.Code == want.Code && r.Settings == want.Settings && (!ok || r.Serving) && !Replaced(at, r) {
			found, ok = r, true
		}
	}
	return found, ok
}

// Replaced reports whether a younger generation serves at the place of one.
func Replaced(replicas []Replica, r Replica) bool {
	return slices.ContainsFunc(replicas, func(other Replica) bool {
		return other.Agent == r.Agent && other.Name == r.Name && other.Serving && other.Generation > r.Generation
	})
}

func newest(at []Replica) int {
	n := 0
	for _, r := range at {
		n = max(n, r.Generation)
	}
	return n
}

// replaceCause says why none of the generations at a place will do. moved is what
// moves says: agents know the hosts that are served, which has no name among their
// settings where its address is all that changed.
func replaceCause(at []Replica, want Want, moved string) string {
	old := slices.IndexFunc(at, func(r Replica) bool { return r.Serving })
	switch {
	case len(at) == 0:
		return "it does not run"
	case old < 0:
		return "what runs there never got ready"
	case at[old].Code != want.Code:
		return "its code changed"
	}
	what := changes(at[old].Named, want.Named)
	if moved != "" && what != "" {
		return moved + ", " + what
	}
	return cmp.Or(moved, what, "its settings changed")
}

func stopCause(r Replica, desired Desired, serve []Ref) string {
	for _, ref := range serve {
		if ref.Replica == r.Name && ref.Agent == r.Agent {
			return "replaced by " + ref.String()
		}
	}
	for _, want := range desired.Agents {
		if want.Agent == r.Agent {
			return fmt.Sprintf("%d of this agent shall run", want.Replicas)
		}
	}
	return "the project has no such agent any more"
}

func serving(observed Observed) []Ref {
	var refs []Ref
	for _, r := range observed.Replicas {
		if r.Serving {
			refs = append(refs, Ref{r.Agent, r.Name, r.Generation})
		}
	}
	return refs
}

// sameRefs compares without regard to order.
func sameRefs(a, b []Ref) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(r Ref) bool { return !slices.Contains(b, r) })
}
