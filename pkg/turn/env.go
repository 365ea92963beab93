package turn

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Env is what an agent is told about its surroundings, one FLISK_ variable a
// field. A runtime writes it with [Env.Encode], an agent reads it with
// [ParseEnv]. The zero value of a field is not written, and an absent variable
// leaves the default of [DefaultEnv].
type Env struct {
	Agent   string   // FLISK_AGENT: the agent's name
	Data    string   // FLISK_DATA: the mounted volume, a directory
	Listen  string   // FLISK_LISTEN: "host:port", "unix:/path" or "fd:N" for an inherited listening socket
	Hosts   []string // FLISK_HOSTS: the Host values to serve, comma-separated, with port where there is one; loopback names with the listener's own port are always served
	Gateway string   // FLISK_GATEWAY: the base URL of the gateway
	Volume  string   // FLISK_VOLUME: the id the volume must have; another one is refused
	Runtime string   // FLISK_RUNTIME: "process" or "docker"
	Code    string   // FLISK_CODE: hash of the source that the agent was built from
	Verify  string   // FLISK_VERIFY: the nonce that unlocks holds; empty outside a verification

	Drain       time.Duration // FLISK_DRAIN: the whole budget of a drain
	Linger      time.Duration // FLISK_LINGER: how long a draining agent keeps serving before it closes its listener, unless its lifeline ends
	TurnTimeout time.Duration // FLISK_TURN_TIMEOUT: how long a turn may run, and how long one may wait for its session

	OnBusy         string // FLISK_ON_BUSY: BusyQueue or BusyReject
	RequireSession bool   // FLISK_REQUIRE_SESSION_ID: a turn without a session id is refused
	MaxBody        int64  // FLISK_MAX_BODY: largest request body in bytes
	Lifeline       int    // FLISK_LIFELINE: a file descriptor whose end of file means that the gateway has let go, or is gone with the supervisor: drain without a linger, and exit
}

// The values of Env.OnBusy.
const (
	BusyQueue  = "queue"
	BusyReject = "reject"
)

// DefaultEnv is what an agent assumes when it is started by hand.
func DefaultEnv() Env {
	return Env{
		Agent:       "bot",
		Drain:       120 * time.Second,
		Linger:      500 * time.Millisecond,
		TurnTimeout: 100 * time.Second,
		OnBusy:      BusyQueue,
		MaxBody:     1 << 20,
	}
}

// variable binds one environment variable to its field.
type variable struct {
	name  string
	read  func(*Env, string) error
	write func(*Env) string // "" leaves the variable out
}

var variables = []variable{
	text("FLISK_AGENT", func(e *Env) *string { return &e.Agent }),
	text("FLISK_DATA", func(e *Env) *string { return &e.Data }),
	text("FLISK_LISTEN", func(e *Env) *string { return &e.Listen }),
	{"FLISK_HOSTS",
		func(e *Env, s string) error { e.Hosts = strings.Split(s, ","); return nil },
		func(e *Env) string { return strings.Join(e.Hosts, ",") }},
	text("FLISK_GATEWAY", func(e *Env) *string { return &e.Gateway }),
	text("FLISK_VOLUME", func(e *Env) *string { return &e.Volume }),
	text("FLISK_RUNTIME", func(e *Env) *string { return &e.Runtime }),
	text("FLISK_CODE", func(e *Env) *string { return &e.Code }),
	text("FLISK_VERIFY", func(e *Env) *string { return &e.Verify }),
	span("FLISK_DRAIN", func(e *Env) *time.Duration { return &e.Drain }),
	span("FLISK_LINGER", func(e *Env) *time.Duration { return &e.Linger }),
	span("FLISK_TURN_TIMEOUT", func(e *Env) *time.Duration { return &e.TurnTimeout }),
	{"FLISK_ON_BUSY",
		func(e *Env, s string) error {
			if s != BusyQueue && s != BusyReject {
				return fmt.Errorf("must be %q or %q, not %q", BusyQueue, BusyReject, s)
			}
			e.OnBusy = s
			return nil
		},
		func(e *Env) string { return e.OnBusy }},
	{"FLISK_REQUIRE_SESSION_ID",
		func(e *Env, s string) (err error) { e.RequireSession, err = strconv.ParseBool(s); return err },
		func(e *Env) string { return nonZero(e.RequireSession, strconv.FormatBool) }},
	{"FLISK_MAX_BODY",
		func(e *Env, s string) (err error) {
			if e.MaxBody, err = strconv.ParseInt(s, 10, 64); err == nil && e.MaxBody < 1 {
				return errors.New("must be at least 1")
			}
			return err
		},
		func(e *Env) string {
			return nonZero(e.MaxBody, func(n int64) string { return strconv.FormatInt(n, 10) })
		}},
	{"FLISK_LIFELINE",
		func(e *Env, s string) (err error) { e.Lifeline, err = strconv.Atoi(s); return err },
		func(e *Env) string { return nonZero(e.Lifeline, strconv.Itoa) }},
}

func text(name string, field func(*Env) *string) variable {
	return variable{name,
		func(e *Env, s string) error { *field(e) = s; return nil },
		func(e *Env) string { return *field(e) }}
}

func span(name string, field func(*Env) *time.Duration) variable {
	return variable{name,
		func(e *Env, s string) error {
			d, err := time.ParseDuration(s)
			if err == nil && d < 0 {
				return errors.New("must not be negative")
			}
			*field(e) = d
			return err
		},
		func(e *Env) string { return nonZero(*field(e), time.Duration.String) }}
}

func nonZero[T comparable](v T, format func(T) string) string {
	var zero T
	if v == zero {
		return ""
	}
	return format(v)
}

// ParseEnv reads the variables through lookup (os.LookupEnv, or a map in a
// test) over the defaults. An empty variable counts as absent. All bad values
// are reported at once.
func ParseEnv(lookup func(string) (string, bool)) (Env, error) {
	env := DefaultEnv()
	var errs []error
	for _, v := range variables {
		s, _ := lookup(v.name)
		if s == "" {
			continue
		}
		if err := v.read(&env, s); err != nil {
			errs = append(errs, fmt.Errorf("%s=%q: %w", v.name, s, err))
		}
	}
	if !ValidAgent(env.Agent) {
		errs = append(errs, fmt.Errorf("FLISK_AGENT=%q: not a valid agent name", env.Agent))
	}
	return env, errors.Join(errs...)
}

// Encode returns the variables as "NAME=value", sorted.
func (e Env) Encode() []string {
	var out []string
	for _, v := range variables {
		if s := v.write(&e); s != "" {
			out = append(out, v.name+"="+s)
		}
	}
	slices.Sort(out)
	return out
}

// EnvNames lists the names of all variables, sorted: what a runtime must not
// inherit from its own surroundings.
func EnvNames() []string {
	var names []string
	for _, v := range variables {
		names = append(names, v.name)
	}
	slices.Sort(names)
	return names
}
