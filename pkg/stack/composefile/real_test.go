package composefile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"

	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/stack"
)

// config is what a real Compose makes of the project in a directory: the file
// that FLISK_TEST_COMPOSE names, or the plugin of the docker command. It asks no
// engine.
func config(t *testing.T, dir string, args ...string) []byte {
	t.Helper()
	command := []string{"docker", "compose"}
	if path := os.Getenv("FLISK_TEST_COMPOSE"); path != "" {
		command = []string{path}
	} else if out, err := exec.Command("docker", "compose", "version").CombinedOutput(); err != nil {
		if os.Getenv("FLISK_TEST_DOCKER") == "1" && os.Getenv("FLISK_TEST_LONG") == "1" {
			t.Fatalf("FLISK_TEST_DOCKER=1 and FLISK_TEST_LONG=1, and there is no Compose (FLISK_TEST_COMPOSE may name one): %v\n%s", err, out)
		}
		t.Skipf("no Compose (FLISK_TEST_COMPOSE may name one): %v\n%s", err, out)
	}
	cmd := exec.Command(command[0], slices.Concat(command[1:], []string{"--project-directory", dir, "config"}, args)...)
	cmd.Dir = dir
	// A variable that a value could be taken for has another value.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "X=another", "OTHER=another"}
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("compose config: %v\n%s", err, &said)
	}
	if said.Len() > 0 {
		t.Errorf("compose config warns:\n%s", &said)
	}
	return out
}

// put writes a stack's Compose file where a real Compose finds it.
func put(t *testing.T, s stack.Stack) {
	t.Helper()
	write(t, s.Dir, FileName, string(render(t, s)))
}

// TestRealComposeReadsWhatWasMeant: what `docker compose config` makes of the file
// is the stack that it was rendered from, whatever is in its values: an agent for
// each value that means something to YAML, to Compose or to a shell.
func TestRealComposeReadsWhatWasMeant(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]stack.Stack{
		"bot": stack.Of(simple(t), ""), "shop": stack.Of(shop(t), ""), "shop-two": stack.Of(shop(t), "two"), "nasty": nastyStack(t),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			put(t, s)
			for _, a := range s.Agents {
				for i, file := range a.EnvFiles {
					write(t, filepath.Dir(file), filepath.Base(file), fmt.Sprintf("FILE_%d=there\n", i))
				}
			}
			// Its output is a Compose file: a "$" in it is written as in any other.
			out := config(t, s.Dir)
			details := types.ConfigDetails{WorkingDir: s.Dir, ConfigFiles: []types.ConfigFile{{Filename: FileName, Content: out}}}
			got, err := loader.LoadWithContext(t.Context(), details, func(o *loader.Options) { o.SkipResolveEnvironment = true })
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, a := range s.Agents {
				service := got.Services[a.Name]
				for i, file := range a.EnvFiles { // config puts what it read in their place
					name := fmt.Sprintf("FILE_%d", i)
					if v := service.Environment[name]; v == nil || *v != "there" {
						t.Errorf("%s: Compose did not read %q", a.Name, file)
					}
					delete(service.Environment, name)
					service.EnvFiles = append(service.EnvFiles, types.EnvFile{Path: file})
				}
				got.Services[a.Name] = service
			}
			means(t, s, got)
		})
	}
}

// nastyStack has an agent for every nasty value, with it wherever the value is
// free.
func nastyStack(t *testing.T) stack.Stack {
	t.Helper()
	p := simple(t)
	agent := p.Agents[0]
	p.Agents = nil
	for i, value := range nasty {
		a := agent
		a.Name, a.OnBusy = fmt.Sprintf("a%d", i), value+"b" // where the schema allows less
		if name := "x" + value; filepath.IsLocal(name) && filepath.Clean(name) == name && !strings.ContainsAny(value, "/") {
			a.Path, a.EnvFiles = "agents/"+name, []string{"conf/" + name + ".env", name + "/x.env"}
		}
		p.Agents = append(p.Agents, a)
	}
	return stack.Of(p, "")
}

// TestRealComposeReadsEnvFiles: every value of an env file is for plain Compose
// what it is for flisk, but those that flisk warns of.
func TestRealComposeReadsEnvFiles(t *testing.T) {
	t.Parallel()
	p := simple(t)
	p.Agents[0].EnvFiles = []string{"agent.env"}
	s := stack.Of(p, "")
	put(t, s)
	write(t, p.Dir, "agent.env", `# a comment
PLAIN=a b # a comment
HASH=a#b
SINGLE='a $X ${X} ${X:-y} $$ "b" # c \n'
DOUBLE="two \"words\" # and 'more'\tand\na line"
LINES="first
  second: - [x]
third"
SPACES =  a b  
EMPTY=
URL=https://u:p@h/?a=b#c
YAML='{a: [b, "c"]} & *d | >'
ALONE=5$
SET=$X
UNSET=pa$OTHER.
TWICE=a$$b
BRACES="${X:-y}"
export EXPORTED=x
LAST=Größe 🤖`)
	var model struct {
		Services map[string]struct{ Environment map[string]string }
	}
	if err := json.Unmarshal(config(t, p.Dir, "--format", "json"), &model); err != nil {
		t.Fatal(err)
	}
	path := []string{filepath.Join(p.Dir, "agent.env")}
	vars, err := project.LoadEnv("", path)
	if err != nil || len(vars) != 16 {
		t.Fatalf("%q, %v", vars, err)
	}
	var other []string
	for _, variable := range vars {
		name, value, _ := strings.Cut(variable, "=")
		got, ok := model.Services["bot"].Environment[name]
		if got = strings.ReplaceAll(got, "$$", "$"); !ok {
			t.Errorf("Compose does not know %s", name)
		} else if got != value {
			other = append(other, name)
		}
	}
	warned, err := project.Expanded("", path)
	if want := []string{"BRACES", "SET", "TWICE", "UNSET"}; err != nil || !slices.Equal(other, want) || !slices.Equal(warned, want) {
		t.Errorf("another value have %q, and flisk warns of %q, %v; want %q", other, warned, err, want)
	}
}
