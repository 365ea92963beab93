package process

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/claim"
	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/turn"
)

// runtimeName is what FLISK_RUNTIME says.
const runtimeName = "process"

// linger is the FLISK_LINGER of local agents. The gateway has let go of an agent
// before the supervisor sends SIGTERM, and the end of the lifeline tells the agent
// so; it is for one that is terminated by somebody else, and longer than the
// supervisor takes to notice.
const linger = 2 * readyPoll

// target is the desired state with what it takes to start it.
type target struct {
	dir     string
	gateway stack.Gateway
	agents  []targetAgent
}

type targetAgent struct {
	stack.Agent
	code     string
	settings string
	named    []runtime.Setting
	binary   string
	inherit  []string
	env      turn.Env
}

// target works out what shall run. Its values of environment files are secrets:
// they go to the supervisor's socket and to the agent, and nowhere else.
func (d *Driver) target(volumeID string) (target, error) {
	s := d.o.Stack
	t := target{dir: s.Dir, gateway: s.Gateway}
	for _, a := range s.Agents {
		code, err := d.o.SourceHash(a.Name)
		if err != nil {
			return t, err
		}
		vars, err := project.LoadEnv(s.Dir, a.EnvFiles)
		if err != nil {
			return t, err
		}
		vars = append(vars, a.Env...)
		env := turn.Env{
			Agent: a.Name, Data: d.place.volume, Hosts: s.Gateway.HostNames(), Gateway: s.Gateway.URL(),
			Volume: volumeID, Runtime: runtimeName, Verify: s.Verify,
			Drain: a.Drain, Linger: linger, TurnTimeout: a.TurnTimeout,
			OnBusy: a.OnBusy, RequireSession: a.RequireSession, MaxBody: a.MaxBody,
		}
		settings := hashOf(slices.Concat(env.Encode(), []string{a.Dir, a.StopGrace.String()}, vars))
		env.Code = code
		t.agents = append(t.agents, targetAgent{
			Agent: a, code: code, settings: settings, named: named(s, a, d.place.volume, volumeID, vars),
			binary:  d.place.program(a.Name, code),
			inherit: slices.Concat(runtime.WithoutFlisk(d.o.Env), runtime.WithoutFlisk(vars)),
			env:     env,
		})
	}
	return t, nil
}

// named are the settings of an agent as people know them. Of the environment only
// the names are shown; the hashes of its values never leave the control socket,
// which carries the values, too.
func named(s stack.Stack, a stack.Agent, place, volumeID string, vars []string) []runtime.Setting {
	out := []runtime.Setting{
		{Name: "path", Value: a.Dir},
		{Name: "turn_timeout", Value: a.TurnTimeout.String()},
		{Name: "drain", Value: a.Drain.String()},
		{Name: "on_busy", Value: a.OnBusy},
		{Name: "require_session_id", Value: strconv.FormatBool(a.RequireSession)},
		{Name: "max_body", Value: strconv.FormatInt(a.MaxBody, 10)},
		{Name: "gateway.hosts", Value: strings.Join(s.Gateway.Hosts, " ")},
		{Name: "volume", Value: place},
		{Name: "volume id", Value: volumeID},
	}
	env := map[string]string{} // the last one of a name counts
	for _, v := range vars {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, runtime.Setting{Name: name, Value: hashOf([]string{name, env[name]}), Secret: true})
	}
	return out
}

// hashOf names a list of strings. It is cut short on purpose: it tells settings
// apart, and must not help to guess a secret among them.
func hashOf(list []string) string {
	sum := sha256.Sum256([]byte(strings.Join(list, "\x00")))
	return hex.EncodeToString(sum[:6])
}

func (t target) desired() runtime.Desired {
	out := runtime.Desired{Dir: t.dir, Gateway: claim.Address(t.gateway)}
	for _, a := range t.agents {
		out.Agents = append(out.Agents, runtime.Want{Agent: a.Name, Replicas: a.Replicas, Code: a.code, Settings: a.settings, Named: a.named})
	}
	return out
}

func (t target) agent(name string) *targetAgent {
	return &t.agents[slices.IndexFunc(t.agents, func(a targetAgent) bool { return a.Name == name })]
}

// start is the request that starts a generation of one of an agent's replicas.
func (a targetAgent) start(ref runtime.Ref) startRequest {
	return startRequest{
		Ref: ref, Binary: a.binary, WorkDir: a.Dir, Code: a.code, Settings: a.settings, Named: a.named,
		Inherit: a.inherit, Env: a.env, Grace: a.StopGrace,
	}
}

// routesOf is the request that makes exactly these generations of a stack serve.
func routesOf(s stack.Stack, serve []runtime.Ref) switchRequest {
	r := switchRequest{Dir: s.Dir, Hosts: s.Gateway.HostNames()}
	for _, a := range s.Agents {
		to := switchAgent{Agent: a.Name, MaxBody: a.MaxBody}
		for _, ref := range serve {
			if ref.Agent == a.Name {
				to.Serve = append(to.Serve, ref)
			}
		}
		r.Agents = append(r.Agents, to)
	}
	return r
}

// longestGrace is the longest that any replica of the stack may take to stop.
func longestGrace(s stack.Stack) time.Duration {
	var d time.Duration
	for _, a := range s.Agents {
		d = max(d, a.StopGrace)
	}
	return d
}
