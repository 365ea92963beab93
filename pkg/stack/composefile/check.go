package composefile

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flisk-go/flisk/pkg/fault"
)

// keys is what of a value is applied, by the names of its keys. A nil value is
// applied whole; "*" stands for every key and for every element of a list.
type keys map[string]keys

// applied is every key of a Compose file that a stack's containers are made
// from. What is not here is refused by name: a key that is accepted and does
// nothing is a promise that nobody keeps.
var applied = keys{
	"name":     nil,
	"services": {"*": appliedService},
	"networks": {"*": {"name": nil, "labels": nil}},
	"volumes":  {"*": {"name": nil, "labels": nil, "external": nil}},
}

var appliedService = keys{
	// what it is made of
	"image": nil, "pull_policy": nil,
	"build": {"context": nil, "dockerfile": nil, "args": nil, "target": nil},
	// what runs
	"command": nil, "entrypoint": nil, "working_dir": nil, "user": nil, "group_add": nil,
	"environment": nil, "env_file": {"*": {"path": nil, "required": nil}}, "labels": nil,
	"init": nil, "tty": nil, "stdin_open": nil, "stop_signal": nil, "stop_grace_period": nil, "restart": nil,
	"healthcheck": {"test": nil, "interval": nil, "timeout": nil, "retries": nil, "start_period": nil, "start_interval": nil, "disable": nil},
	"depends_on":  {"*": {"condition": nil, "required": nil}},
	// what it sees
	"volumes": {"*": {
		"type": nil, "source": nil, "target": nil, "read_only": nil,
		"bind": {"create_host_path": nil}, "volume": {"nocopy": nil}, "tmpfs": {"size": nil, "mode": nil},
	}},
	"tmpfs": nil, "read_only": nil, "shm_size": nil,
	"ports":    {"*": {"host_ip": nil, "target": nil, "published": nil, "protocol": nil, "mode": nil}},
	"expose":   nil,
	"networks": {"*": {"aliases": nil}},
	"hostname": nil, "extra_hosts": nil, "dns": nil, "dns_opt": nil, "dns_search": nil,
	// what it may
	"cap_add": nil, "cap_drop": nil, "security_opt": nil, "sysctls": nil,
	"ulimits":   {"*": nil},
	"mem_limit": nil, "mem_reservation": nil, "cpus": nil, "cpu_shares": nil, "pids_limit": nil,
	"logging": {"driver": nil, "options": nil},
}

// Check returns nil when everything in a loaded project is applied. Else it is a
// fault of kind Usage that names each key that is not, and its service.
func Check(p *Project) error {
	encoded, err := p.MarshalJSON()
	if err != nil {
		return err
	}
	var model map[string]any
	if err := json.Unmarshal(encoded, &model); err != nil {
		return err
	}
	problems := walk(nil, nil, model, applied)
	problems = append(problems, wrongValues(p)...)
	switch len(problems) {
	case 0:
		return nil
	case 1:
		return fault.New(fault.Usage, hint, "%s", problems[0])
	}
	f := fault.New(fault.Usage, hint, "the Compose file has %d things that flisk does not apply", len(problems))
	f.Detail = strings.Join(problems, "\n")
	return f
}

const hint = "take it out of compose.override.yaml, or run that service apart from flisk"

// walk lists the keys below path that are not among those that are applied.
func walk(problems, path []string, value any, applied keys) []string {
	if applied == nil {
		return problems
	}
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			below, ok := applied[key]
			if !ok {
				below, ok = applied["*"]
			}
			at := append(slices.Clone(path), key)
			switch {
			case ok:
				problems = walk(problems, at, v[key], below)
			case !empty(v[key]):
				problems = append(problems, notApplied(at))
			}
		}
	case []any:
		for _, element := range v {
			problems = walk(problems, path, element, applied["*"])
		}
	}
	return problems
}

// empty reports whether a value is what a key has that nobody wrote.
func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

// notApplied says it of services: a: b: c as `service "a": flisk does not apply
// the key "b.c"`.
func notApplied(path []string) string {
	if len(path) > 2 {
		return fmt.Sprintf("%s %q: flisk does not apply the key %q", strings.TrimSuffix(path[0], "s"), path[1], strings.Join(path[2:], "."))
	}
	return fmt.Sprintf("flisk does not apply the key %q", strings.Join(path, "."))
}

// wrongValues are values that are not applied, of keys that are.
func wrongValues(p *Project) []string {
	var problems []string
	for _, name := range slices.Sorted(maps.Keys(p.Services)) {
		service := p.Services[name]
		wrong := func(format string, args ...any) {
			problems = append(problems, fmt.Sprintf("service %q: ", name)+fmt.Sprintf(format, args...))
		}
		switch {
		case service.Build != nil && service.Labels[LabelAgent] == "":
			wrong("flisk builds agents only: build its image by yourself (docker build -t NAME), and name that in image")
		case service.Image == "":
			wrong("it needs an image")
		}
		switch service.PullPolicy {
		case "", "missing", "if_not_present", "never":
		default:
			wrong("flisk does not apply the pull_policy %q: it pulls what is missing", service.PullPolicy)
		}
		for _, network := range slices.Sorted(maps.Keys(service.Networks)) {
			if network != networkKey {
				wrong("flisk puts every service into the one network of the stack, and not into %q", network)
			}
		}
		for _, port := range service.Ports {
			if port.Mode != "" && port.Mode != "ingress" {
				wrong("flisk does not apply the mode %q of a port", port.Mode)
			}
			if port.HostIP == "" && port.Published != "" {
				wrong(`port %s would be open to the network: write "127.0.0.1:%s:%d", or the address that you mean`, port.Published, port.Published, port.Target)
			}
		}
		for _, dependency := range slices.Sorted(maps.Keys(service.DependsOn)) {
			switch c := service.DependsOn[dependency].Condition; c {
			case "service_started", "service_healthy":
			default:
				wrong("flisk does not apply the condition %q of depends_on", c)
			}
		}
		for _, mount := range service.Volumes {
			switch mount.Type {
			case "volume", "bind", "tmpfs":
			default:
				wrong("flisk does not apply a mount of the type %q", mount.Type)
			}
		}
	}
	return problems
}
