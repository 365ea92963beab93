package project

import (
	"cmp"
	"net/netip"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/flisk-go/flisk/pkg/turn"
)

// This file is the schema: one method a section of flisk.yaml, one field a key.

func (d *decoder) project(n *yaml.Node, p *Project) {
	if !d.version(n) {
		return
	}
	d.fields(n, FileName,
		field{"version", "this flisk writes version: 1", func(*yaml.Node) {}},
		field{"name", "the name that init gave the project", func(n *yaml.Node) {
			if s, ok := d.text(n, "name"); ok && d.check(n, ValidName(s),
				"name must have 1 to %d characters of a-z, 0-9 and -, the first and the last one not a -, not %s", MaxName, quote(s)) {
				p.Name = s
			}
		}},
		field{"id", "12 hexadecimal digits that no other project has", func(n *yaml.Node) {
			if s, ok := d.text(n, "id"); ok && d.check(n, idPattern.MatchString(s),
				"id must have %d hexadecimal digits (0-9, a-f), not %s", idLength, quote(s)) {
				p.ID = s
			}
		}},
		field{"runtime", "", func(n *yaml.Node) {
			if s, ok := d.choice(n, "runtime", string(Auto), string(Docker), string(Process)); ok {
				p.Runtime = Runtime(s)
			}
		}},
		field{"gateway", "", func(n *yaml.Node) { d.gateway(n, &p.Gateway) }},
		field{"agents", "a project has at least one", func(n *yaml.Node) { p.Agents = d.agents(n) }},
		field{"volumes", "it names where the conversations are", func(n *yaml.Node) { d.volumes(n, p) }},
		field{"verify", "", func(n *yaml.Node) { d.verify(n, &p.Verify) }},
	)
}

var (
	idPattern     = regexp.MustCompile(`^[0-9a-f]{12}$`)
	volumePattern = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]+$`) // Docker's rule
	envPattern    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	labelPattern  = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
)

// version looks for a version of the format that is not this one. Everything
// else in such a file would only be misread.
func (d *decoder) version(n *yaml.Node) bool {
	if n.Kind != yaml.MappingNode {
		return true // fields says so
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if key, value := n.Content[i], n.Content[i+1]; key.Value == "version" && value.Value != strconv.Itoa(Version) {
			if v, ok := d.integer(value, "version", 1, 1<<30); ok {
				d.problem(value, "version %d is newer than this flisk, which knows version %d; use a newer flisk", v, Version)
			}
			return false
		}
	}
	return true
}

func (d *decoder) gateway(n *yaml.Node, g *Gateway) {
	d.fields(n, "gateway",
		field{"bind", "", func(n *yaml.Node) {
			s, ok := d.text(n, "gateway.bind")
			if !ok {
				return
			}
			ip, err := netip.ParseAddr(s)
			if d.check(n, err == nil && ip.Zone() == "", `gateway.bind must be an IP address such as "127.0.0.1", not %s`, quote(s)) &&
				d.check(n, ip.Unmap().IsLoopback(), `gateway.bind must be a loopback address such as "127.0.0.1" for now, not %s`, quote(s)) {
				g.Bind = ip.Unmap().String()
			}
		}},
		field{"port", "", func(n *yaml.Node) {
			if v, ok := d.integer(n, "gateway.port", 1, 65535); ok {
				g.Port = v
			}
		}},
		field{"hosts", "", func(n *yaml.Node) {
			d.texts(n, "gateway.hosts", func(n *yaml.Node, s string) {
				if d.check(n, validHost(strings.ToLower(s)),
					`gateway.hosts takes names such as "shop.test" or "shop.test:8080", not %s`, quote(s)) {
					g.Hosts = append(g.Hosts, strings.ToLower(s))
				}
			})
		}},
	)
}

func (d *decoder) agents(n *yaml.Node) []Agent {
	var agents []Agent
	count := 0
	ok := d.pairs(n, "agents", func(key, value *yaml.Node) {
		count++
		if d.check(key, turn.ValidAgent(key.Value),
			"an agent's name must have 1 to %d characters of a-z, 0-9 and -, begin with a letter and not end in -, not %s", turn.MaxAgent, quote(key.Value)) &&
			d.check(key, key.Value != GatewayName, "an agent cannot be called %q: that is what the gateway is called in its network", GatewayName) {
			agents = append(agents, d.agent(key.Value, value))
		}
	})
	if ok && count == 0 {
		d.problem(n, "agents must name at least one agent")
	}
	slices.SortFunc(agents, func(a, b Agent) int { return cmp.Compare(a.Name, b.Name) })
	return agents
}

// maxBody keeps a turn with the largest input within one line of a session
// file, which is twice as long.
const maxBody = 4 << 20

func (d *decoder) agent(name string, n *yaml.Node) Agent {
	a := defaultAgent(name)
	where := "agents." + name
	drain := n
	d.fields(n, where,
		field{"path", "", func(n *yaml.Node) {
			if s, ok := d.text(n, where+".path"); ok && d.inside(n, where+".path", s) {
				a.Path = path.Clean(s)
			}
		}},
		field{"replicas", "", func(n *yaml.Node) {
			if v, ok := d.integer(n, where+".replicas", 1, 64); ok &&
				d.check(n, v == 1, "%s.replicas must be 1: more than one replica comes later", where) {
				a.Replicas = v
			}
		}},
		field{"turn_timeout", "", func(n *yaml.Node) { d.duration(n, where+".turn_timeout", &a.TurnTimeout) }},
		field{"drain", "", func(n *yaml.Node) { drain = n; d.duration(n, where+".drain", &a.Drain) }},
		field{"on_busy", "", func(n *yaml.Node) {
			if s, ok := d.choice(n, where+".on_busy", turn.BusyQueue, turn.BusyReject); ok {
				a.OnBusy = s
			}
		}},
		field{"require_session_id", "", func(n *yaml.Node) { d.boolean(n, where+".require_session_id", &a.RequireSession) }},
		field{"max_body", "", func(n *yaml.Node) { d.size(n, where+".max_body", 1, maxBody, &a.MaxBody) }},
		field{"env_file", "", func(n *yaml.Node) {
			a.EnvFiles = nil
			d.texts(n, where+".env_file", func(n *yaml.Node, s string) {
				if d.inside(n, where+".env_file", s) {
					a.EnvFiles = append(a.EnvFiles, path.Clean(s))
				}
			})
		}},
		field{"watch", "", func(n *yaml.Node) {
			d.fields(n, where+".watch", field{"ignore", "", func(n *yaml.Node) {
				d.texts(n, where+".watch.ignore", func(n *yaml.Node, s string) {
					_, err := path.Match(s, "")
					if d.check(n, err == nil && s != "", "%s is not a pattern of file names", quote(s)) {
						a.WatchIgnore = append(a.WatchIgnore, s)
					}
				})
			}})
		}},
	)
	if a.Drain < a.TurnTimeout {
		d.warn(drain, "agent %q drains for at most %s, but a turn may take %s: a stop can cut a turn short", name, a.Drain, a.TurnTimeout)
	}
	return a
}

func (d *decoder) volumes(n *yaml.Node, p *Project) {
	d.fields(n, "volumes", field{"checkpoints", "it is the volume that holds the conversations", func(n *yaml.Node) {
		d.fields(n, "volumes.checkpoints", field{"name", "it is written out so that a moved project finds its conversations", func(n *yaml.Node) {
			if s, ok := d.text(n, "volumes.checkpoints.name"); ok && d.check(n, volumePattern.MatchString(s) && len(s) <= MaxVolume,
				"volumes.checkpoints.name must have 2 to %d characters of a-z, A-Z, 0-9, _, . and -, the first one a letter or a digit, not %s", MaxVolume, quote(s)) {
				p.Volume = s
			}
		}})
	}})
}

func (d *decoder) verify(n *yaml.Node, v *Verify) {
	d.fields(n, "verify",
		field{"inputs", "", func(n *yaml.Node) {
			v.Inputs = nil
			if d.texts(n, "verify.inputs", func(_ *yaml.Node, s string) { v.Inputs = append(v.Inputs, s) }) {
				d.check(n, len(n.Content) > 0, "verify.inputs must hold at least one input")
			}
		}},
		field{"env", "", func(n *yaml.Node) {
			d.pairs(n, "verify.env", func(key, value *yaml.Node) {
				s, ok := d.text(value, "verify.env."+key.Value)
				if ok && d.check(key, envPattern.MatchString(key.Value), "%s cannot name an environment variable", quote(key.Value)) &&
					d.check(key, !reserved(key.Value), "%q is set by flisk itself", key.Value) {
					v.Env[key.Value] = s
				}
			})
		}},
	)
}

// check notes a problem unless ok, and returns ok.
func (d *decoder) check(n *yaml.Node, ok bool, format string, args ...any) bool {
	if !ok {
		d.problem(n, format, args...)
	}
	return ok
}

// inside notes a problem unless a path stays within the project.
func (d *decoder) inside(n *yaml.Node, what, s string) bool {
	return d.check(n, s != "" && !strings.Contains(s, `\`) && filepath.IsLocal(filepath.FromSlash(s)),
		"%s must be a path inside the project, with slashes, not %s", what, quote(s))
}

// validHost accepts a host name or an IP address, each with or without a port,
// as the Host header of a request has it.
func validHost(s string) bool {
	host := s
	if at := strings.LastIndexByte(s, ':'); at >= 0 && !strings.HasSuffix(s, "]") {
		port, err := strconv.Atoi(s[at+1:])
		if err != nil || strconv.Itoa(port) != s[at+1:] || port < 1 || port > 65535 {
			return false
		}
		host = s[:at]
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		ip, err := netip.ParseAddr(inner)
		return ok && err == nil && ip.Is6() && ip.Zone() == ""
	}
	if len(host) > 253 {
		return false
	}
	for label := range strings.SplitSeq(host, ".") {
		if !labelPattern.MatchString(label) {
			return false
		}
	}
	return true
}

// reserved reports the variables that flisk sets for an agent.
func reserved(name string) bool { return slices.Contains(turn.EnvNames(), name) }
