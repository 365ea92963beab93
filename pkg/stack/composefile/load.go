package composefile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/template"
	"github.com/compose-spec/compose-go/v2/types"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/turn"
)

// The Compose types, for those who may not import them.
type (
	Project = types.Project
	Service = types.ServiceConfig
)

// overrides are the files that people add to a stack with, in Compose's own
// order. The first one that exists counts.
var overrides = []string{"compose.override.yml", "compose.override.yaml", "docker-compose.override.yml", "docker-compose.override.yaml"}

// projectNameVariable is how plain Compose is given another name for a project.
const projectNameVariable = "COMPOSE_PROJECT_NAME"

// Loaded is a stack as Compose understands it, with what people added.
type Loaded struct {
	Project  *Project
	Override string   // path of the file that was added; "" when there is none
	Warnings []string // what is odd but harmless, for people
}

// Load reads the Compose file of a stack with Compose's own loader, and the
// project's override over it. The file itself is not read but rendered: that is
// what is on disk, or would be if the stack were not an instance or a
// verification of the project there. static is as for [Render].
//
// environ, as os.Environ gives it, and over it the project's .env file fill in
// variables of the override. The env files of agents are named and not read: a
// runtime reads them with [project.LoadEnv], so that a value is the same
// wherever the agent runs. Those of other services are read in the same way and
// are in their environment. Where plain Compose would read another value, a
// warning names the variable.
//
// Errors are faults of kind Usage. What [Check] refuses is no error here.
func Load(ctx context.Context, s stack.Stack, static []byte, environ []string) (Loaded, error) {
	content, err := Render(s, static)
	if err != nil {
		return Loaded{}, err
	}
	details := types.ConfigDetails{
		WorkingDir:  s.Dir,
		ConfigFiles: []types.ConfigFile{{Filename: filepath.Join(s.Dir, FileName), Content: content}},
	}
	var out Loaded
	override, found, err := readOverride(s.Dir)
	if err != nil {
		return Loaded{}, err
	}
	if found {
		out.Override = override.Filename
		details.ConfigFiles = append(details.ConfigFiles, override)
	}
	vars, err := project.LoadEnv(s.Dir, []string{filepath.Join(s.Dir, ".env")})
	if err != nil {
		return Loaded{}, err
	}
	// The environment wins over the file, as in Compose. Both have the same form.
	details.Environment = types.NewMapping(slices.Concat(vars, environ))
	name := s.ContainerProject()
	if other := details.Environment[projectNameVariable]; other != "" && other != name {
		out.Warnings = append(out.Warnings, fmt.Sprintf("%s is %q and counts for nothing: the Compose project is %q, by the name and the id in %s",
			projectNameVariable, other, name, project.FileName))
	}

	unset := map[string]bool{}
	out.Project, err = loader.LoadWithContext(ctx, details, func(o *loader.Options) {
		o.SetProjectName(name, true)
		o.SkipResolveEnvironment = true
		o.Profiles = []string{"*"} // else the loader leaves out those with profiles, and nobody is told
		o.Interpolate.Substitute = func(text string, lookup template.Mapping) (string, error) {
			note(unset, text, lookup)
			filled, err := template.SubstituteWithOptions(text, lookup, template.WithoutLogging)
			if err == nil && !utf8.ValidString(filled) {
				err = fmt.Errorf("a variable in %q has a value that is not UTF-8, and would not arrive as it is", text)
			}
			return filled, err
		}
	})
	if unknown, ok := unknownKey(err, override); ok {
		return Loaded{}, unknown
	}
	if err != nil {
		return Loaded{}, fault.New(fault.Usage, "", "cannot load %s: %w", describe(out.Override), err)
	}
	if err := resolve(out.Project, s); err != nil {
		return Loaded{}, err
	}
	if err := ownVariables(out.Project, s); err != nil {
		return Loaded{}, err
	}
	if err := identity(out.Project, s, static); err != nil {
		return Loaded{}, err
	}
	different, err := expanded(out.Project)
	if err != nil {
		return Loaded{}, err
	}
	out.Warnings = append(out.Warnings, different...)
	for _, variable := range slices.Sorted(maps.Keys(unset)) {
		out.Warnings = append(out.Warnings, fmt.Sprintf("%s takes the variable %s, which is not set: it is empty", filepath.Base(out.Override), variable))
	}
	return out, nil
}

func describe(override string) string {
	if override == "" {
		return FileName
	}
	return filepath.Base(override)
}

// Override is the path of the file that people add to the stack of a project with;
// "" when there is none.
func Override(dir string) string {
	for _, name := range overrides {
		if path := filepath.Join(dir, name); exists(path) {
			return path
		}
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// readOverride finds the file that people add to a stack with.
func readOverride(dir string) (types.ConfigFile, bool, error) {
	for _, name := range overrides {
		path := filepath.Join(dir, name)
		content, err := os.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return types.ConfigFile{}, false, fault.New(fault.Usage, "", "cannot read the override: %w", err)
		default:
			return types.ConfigFile{Filename: path, Content: content}, true, nil
		}
	}
	return types.ConfigFile{}, false, nil
}

// note takes down which variables of a text have no value and no word for that
// case, and so become nothing.
func note(unset map[string]bool, text string, lookup template.Mapping) {
	if !strings.Contains(text, "$") {
		return
	}
	for name, v := range template.ExtractVariables(map[string]any{"": text}, nil) {
		if _, ok := lookup(name); !ok && v.DefaultValue == "" && v.PresenceValue == "" && !v.Required {
			unset[name] = true
		}
	}
}

// resolve fills in what services take from outside: a variable that is named
// without a value, and for those that are not the stack's agents the env files,
// too. The env files of agents are left to the runtime.
func resolve(p *Project, s stack.Stack) error {
	for name, service := range p.Services {
		env := types.MappingWithEquals{}
		agent := slices.ContainsFunc(s.Agents, func(a stack.Agent) bool { return a.Name == name })
		if !agent && len(service.EnvFiles) > 0 {
			vars, err := envFiles(s.Dir, service)
			if err != nil {
				return err
			}
			env = types.NewMappingWithEquals(vars)
		}
		service.Environment = env.OverrideBy(service.Environment).Resolve(p.Environment.Resolve).RemoveEmpty()
		for variable, value := range service.Environment {
			if value != nil && !utf8.ValidString(*value) {
				return fault.New(fault.Usage, "set it to text in UTF-8", "service %q: the value of %s in the environment is not UTF-8, and would not arrive as it is", name, variable)
			}
		}
		p.Services[name] = service
	}
	return nil
}

// ownVariables refuses an override that tells an agent something else about its
// surroundings than flisk does: it would count under plain Compose, and here not.
func ownVariables(p *Project, s stack.Stack) error {
	for _, a := range s.Agents {
		said := map[string]string{}
		for _, variable := range AgentEnv(s, a).Encode() {
			name, value, _ := strings.Cut(variable, "=")
			said[name] = value
		}
		environment := p.Services[a.Name].Environment
		for _, name := range turn.EnvNames() {
			if value := environment[name]; value != nil && *value != said[name] {
				return fault.New(fault.Usage, "take it out of compose.override.yaml: what can be set of an agent is in flisk.yaml",
					"service %q: %s is set by flisk itself", a.Name, name)
			}
		}
	}
	return nil
}

// envFiles reads the env files of a service as those of agents are read, with
// [project.LoadEnv].
func envFiles(dir string, service Service) ([]string, error) {
	for _, f := range service.EnvFiles {
		if _, err := os.Stat(f.Path); bool(f.Required) && errors.Is(err, fs.ErrNotExist) {
			return nil, fault.New(fault.Usage, "make it, or write required: false", "service %q has the env file %q, which is not there", service.Name, f.Path)
		}
	}
	return project.LoadEnv(dir, EnvFiles(service))
}

// EnvFiles are the paths of a service's env files; of those that are not required
// some may not be there.
func EnvFiles(service Service) []string {
	var paths []string
	for _, f := range service.EnvFiles {
		paths = append(paths, f.Path)
	}
	return paths
}

// expanded warns of env files that plain Compose reads otherwise than flisk does.
func expanded(p *Project) ([]string, error) {
	var warnings []string
	for _, name := range slices.Sorted(maps.Keys(p.Services)) {
		vars, err := project.Expanded(p.WorkingDir, EnvFiles(p.Services[name]))
		if err != nil {
			return nil, err
		}
		if len(vars) > 0 {
			warnings = append(warnings, fmt.Sprintf(`plain "docker compose" would give service %q another value of %s, because of the "$" in it; in single quotes it is the same for both`,
				name, strings.Join(vars, ", ")))
		}
	}
	return warnings, nil
}
