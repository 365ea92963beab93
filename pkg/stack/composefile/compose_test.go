package composefile

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/stack/goldentest"
)

// simple is a project as init makes it, in a directory of its own.
func simple(t *testing.T) *project.Project {
	t.Helper()
	return &project.Project{
		Dir: t.TempDir(), Name: "bot", ID: "9f2c41d07a3e",
		Gateway: project.Gateway{Bind: "127.0.0.1", Port: 8080},
		Agents: []project.Agent{{
			Name: "bot", Path: ".", Replicas: 1, TurnTimeout: 100 * time.Second, Drain: 120 * time.Second,
			OnBusy: "queue", MaxBody: 1 << 20, EnvFiles: []string{".env"},
		}},
		Volume: "flisk-bot-9f2c41d07a3e",
	}
}

// shop has every setting away from its default.
func shop(t *testing.T) *project.Project {
	t.Helper()
	p := simple(t)
	p.Name, p.Volume = "shop", "shop_conversations"
	p.Gateway = project.Gateway{Bind: "::1", Port: 8123, Hosts: []string{"shop.test", "[::2]:80"}}
	p.Agents[0].EnvFiles = nil
	p.Agents = append(p.Agents, project.Agent{
		Name: "clerk", Path: "agents/clerk", Replicas: 1, TurnTimeout: time.Second, Drain: 1500 * time.Millisecond,
		OnBusy: "reject", RequireSession: true, MaxBody: 1, EnvFiles: []string{".env", "conf/clerk.env"},
	})
	return p
}

func render(t *testing.T, s stack.Stack) []byte {
	t.Helper()
	data, err := Render(s, []byte("static"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func load(t *testing.T, s stack.Stack, environ ...string) Loaded {
	t.Helper()
	got, err := Load(t.Context(), s, []byte("static"), environ)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestRender writes two projects, and Compose reads from each what was meant.
func TestRender(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		project  *project.Project
		instance string
	}{
		"bot": {simple(t), ""}, "shop": {shop(t), ""}, "shop-two": {shop(t), "two"},
	} {
		s := stack.Of(c.project, c.instance)
		data := render(t, s)
		goldentest.Compare(t, name+".golden.yaml", data)
		if again := render(t, stack.Of(c.project, c.instance)); !bytes.Equal(data, again) {
			t.Errorf("%s: two renderings differ", name)
		}
		loaded := load(t, s)
		if err := Check(loaded.Project); err != nil || len(loaded.Warnings) > 0 {
			t.Errorf("%s: %v, %v", name, err, loaded.Warnings)
		}
		means(t, s, loaded.Project)
	}
}

// means compares a loaded project with the stack that it was rendered from.
func means(t *testing.T, s stack.Stack, p *Project) {
	t.Helper()
	equal := func(what string, got, want any) {
		t.Helper()
		if g, w := fmt.Sprintf("%q", got), fmt.Sprintf("%q", want); g != w {
			t.Errorf("%s is %s, want %s", what, g, w)
		}
	}
	equal("name", p.Name, s.ContainerProject())
	equal("volume", p.Volumes[volumeKey].Name, s.Volume.Name)
	equal("network", p.Networks[networkKey].Name, s.Network())
	equal("services", len(p.Services), len(s.Agents)+1)
	for name, service := range p.Services {
		equal(name+" project label", service.Labels[LabelProject], s.ID)
		equal(name+" instance label", service.Labels[LabelInstance], s.Instance)
		equal(name+" user", service.User, "65532:65532")
		if !service.ReadOnly || service.Init == nil || *service.Init || !slices.Equal(service.CapDrop, []string{"ALL"}) || len(service.CapAdd) > 0 || service.Privileged {
			t.Errorf("%s may too much: %+v", name, service)
		}
		for _, v := range service.Volumes {
			if strings.Contains(v.Source, "docker.sock") || strings.Contains(v.Target, "docker.sock") {
				t.Errorf("%s mounts the engine's socket", name) // C24
			}
		}
	}
	gateway := p.Services[stack.GatewayService]
	equal("gateway's image", gateway.Image, "traefik:v3.7.13")
	equal("gateway's grace", time.Duration(*gateway.StopGracePeriod), s.GatewayGrace())
	for _, port := range gateway.Ports {
		equal("port", net.JoinHostPort(port.HostIP, port.Published), net.JoinHostPort(s.Gateway.Bind, strconv.Itoa(s.Gateway.Port)))
	}
	equal("gateway's mounts", []string{gateway.Volumes[0].Source, gateway.Volumes[1].Source},
		[]string{filepath.Join(s.Dir, "traefik", "static.yaml"), filepath.Join(s.Dir, "traefik", "dynamic")})
	for _, a := range s.Agents {
		service := p.Services[a.Name]
		var env, files []string
		for name, value := range service.Environment {
			env = append(env, name+"="+*value)
		}
		slices.Sort(env)
		equal(a.Name+"'s environment", env, AgentEnv(s, a).Encode())
		for _, f := range service.EnvFiles {
			files = append(files, f.Path)
			if f.Required {
				t.Errorf("%s must be there", f.Path)
			}
		}
		equal(a.Name+"'s env files", files, a.EnvFiles)
		equal(a.Name+"'s label", service.Labels[LabelAgent], a.Name)
		equal(a.Name+"'s image", service.Image, s.Image(a.Name))
		equal(a.Name+"'s grace", time.Duration(*service.StopGracePeriod), a.StopGrace)
		equal(a.Name+"'s build context", service.Build.Context, s.Dir)
		equal(a.Name+"'s main package", filepath.Join(s.Dir, *service.Build.Args[buildArg]), a.Dir)
		equal(a.Name+"'s health", []string(service.HealthCheck.Test), []string{"CMD", "/agent", "health"})
		equal(a.Name+"'s volume", service.Volumes[0].Source+" "+service.Volumes[0].Target, volumeKey+" /data")
		if len(service.Ports) > 0 {
			t.Errorf("%s is published", a.Name)
		}
	}
}

// TestC15_StopOrder: every agent depends on the gateway, so plain Compose stops
// agents first; and the budgets nest.
func TestC15_StopOrder(t *testing.T) {
	t.Parallel()
	p := load(t, stack.Of(shop(t), "")).Project
	for _, name := range []string{"bot", "clerk"} {
		service := p.Services[name]
		if d, ok := service.DependsOn[stack.GatewayService]; !ok || d.Condition != "service_started" {
			t.Errorf("%s does not depend on the gateway: %+v", name, service.DependsOn)
		}
		if *p.Services[stack.GatewayService].StopGracePeriod <= *service.StopGracePeriod {
			t.Errorf("the gateway is killed before %s may have ended", name)
		}
	}
	if len(p.Services[stack.GatewayService].DependsOn) > 0 {
		t.Error("the gateway depends on something, and is stopped before it")
	}
}

// nasty are values that mean something to YAML, to Compose or to a shell.
var nasty = []string{
	"plain", "a b", "$", "$X", "${X}", "$$", "${X:-y}", "${X", "a$", "#a", "a # b", "a: b", "- a", "'", `"`, `it's "so"`, `\`, `a\nb`, "a\nb", "a\n", "\n", "\r\n", "\ttab",
	"*a", "&a", "!a", "%a", "@a", "`a`", "{a: b}", "[a, b]", "|", ">", "? a", "---", "...", "null", "~", "true", "no", "0x10", "1e3", "007", "2026-01-01", "",
	"Größe", "日本語", "🤖", "e\u0301", "\u0085", "\u2028", "\ufeff", "<<", "=", "{{ .X }}", "~/x", "-x", "https://example.com/x.git", strings.Repeat("long ", 45) + "end",
}

// arrives puts a value wherever flisk.yaml lets one be free, and an env file's
// beside it.
func arrives(t *testing.T, value string) {
	t.Helper()
	p := simple(t)
	p.Agents[0].Path, p.Agents[0].EnvFiles = "agents/x"+value, []string{"conf/" + value + ".env", value + "/x.env", ".env"}
	for _, s := range []stack.Stack{stack.Of(p, ""), func() stack.Stack {
		s := stack.Of(p, "")
		s.Volume.Name, s.Agents[0].OnBusy = value+"v", value+"b" // where the schema allows less
		return s
	}()} {
		if !filepath.IsLocal(value+"/x.env") || !filepath.IsLocal(p.Agents[0].Path) || filepath.Clean(p.Agents[0].Path) != p.Agents[0].Path || strings.Contains(value, "/") {
			s.Agents[0].Dir = s.Dir
			s.Agents[0].EnvFiles = nil
		}
		loaded, err := Load(t.Context(), s, nil, []string{"X=another"})
		if err != nil {
			t.Errorf("%q: %v", value, err)
			return
		}
		means(t, s, loaded.Project)
		if len(loaded.Warnings) > 0 {
			t.Errorf("%q: %q", value, loaded.Warnings)
		}
	}
}

// FuzzValuesArriveAsWritten: no value of flisk.yaml becomes another one, or
// changes another one, on the way through the file and Compose's loader.
func FuzzValuesArriveAsWritten(f *testing.F) {
	for _, value := range nasty {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		// What flisk.yaml cannot hold: it is UTF-8 without control characters, though
		// an escape can name any but NUL. And no file has such a name.
		if strings.ToValidUTF8(value, "") != value || strings.Contains(value, "\x00") || len(value) > 240 {
			t.Skip()
		}
		arrives(t, value)
	})
}

// TestAgentsCalledAsYAMLWords: a name is a key, and stays a string.
func TestAgentsCalledAsYAMLWords(t *testing.T) {
	t.Parallel()
	p := simple(t)
	agent := p.Agents[0]
	p.Agents = nil
	for _, name := range []string{"n", "no", "null", "off", "on", "true", "x-y", "y", "yes"} {
		agent.Name = name
		p.Agents = append(p.Agents, agent)
	}
	s := stack.Of(p, "")
	means(t, s, load(t, s).Project)
}

// TestC18_TheNameIsTheProjects: what plain Compose would take another name from
// is told, and counts for nothing.
func TestC18_TheNameIsTheProjects(t *testing.T) {
	t.Parallel()
	p := simple(t)
	write(t, p.Dir, "compose.override.yaml", "name: other\n")
	got := load(t, stack.Of(p, ""), "COMPOSE_PROJECT_NAME=elsewhere")
	if got.Project.Name != "bot-9f2c41" || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "elsewhere") {
		t.Errorf("name %q, warnings %q", got.Project.Name, got.Warnings)
	}
	if got := load(t, stack.Of(p, ""), "COMPOSE_PROJECT_NAME=bot-9f2c41"); len(got.Warnings) > 0 {
		t.Errorf("warnings %q", got.Warnings)
	}
}

func TestOverride(t *testing.T) {
	t.Parallel()
	p := simple(t)
	write(t, p.Dir, ".env", "PASSWORD=from$file # a note\nSECRET=never shown\n")
	write(t, p.Dir, "db.env", "A=\"x\"\nB='$A'\nC=$A\n")
	write(t, p.Dir, "compose.override.yaml", `
services:
  db:
    image: postgres:17
    ports: ["127.0.0.1:5432:5432"]
    environment: {POSTGRES_PASSWORD: "${PASSWORD}", TZ: "${ZONE}", LANG: "${LOCALE:-C}"}
    env_file: db.env
    volumes: ["data:/var/lib/postgresql/data"]
    healthcheck: {test: pg_isready, interval: 1s, start_interval: 100ms}
  bot:
    environment: {MODEL: "large", REGION: , NOWHERE: }
    depends_on: {db: {condition: service_healthy}}
volumes: {data: {}}
`)
	got := load(t, stack.Of(p, ""), "REGION=north")
	if err := Check(got.Project); err != nil {
		t.Error(err)
	}
	if got.Override != filepath.Join(p.Dir, "compose.override.yaml") {
		t.Errorf("override %q", got.Override)
	}
	if all := strings.Join(got.Warnings, "\n"); len(got.Warnings) != 3 || !strings.Contains(all, "variable ZONE") ||
		!strings.Contains(all, `service "bot" another value of PASSWORD,`) || !strings.Contains(all, `service "db" another value of C,`) || strings.Contains(all, "from$file") {
		t.Errorf("warnings %q", got.Warnings)
	}
	db, bot := got.Project.Services["db"], got.Project.Services["bot"]
	for name, want := range map[string]string{"POSTGRES_PASSWORD": "from$file", "TZ": "", "LANG": "C", "A": "x", "B": "$A", "C": "$A"} {
		if v := db.Environment[name]; v == nil || *v != want {
			t.Errorf("db has %s %v, want %q", name, v, want)
		}
	}
	if bot.Environment["SECRET"] != nil || *bot.Environment["MODEL"] != "large" || *bot.Environment["REGION"] != "north" || len(bot.Environment) != len(AgentEnv(stack.Of(p, ""), stack.Of(p, "").Agents[0]).Encode())+2 || *bot.Environment["FLISK_AGENT"] != "bot" || len(bot.DependsOn) != 2 {
		t.Errorf("bot: %+v, %+v", bot.Environment, bot.DependsOn)
	}
	if got.Project.Volumes["data"].Name != "bot-9f2c41_data" {
		t.Errorf("volumes %+v", got.Project.Volumes)
	}
}

func TestOverrideThatCannotBeLoaded(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"not YAML":      "services: [",
		"unknown key":   "services: {db: {image: x, prots: [1]}}",
		"required":      "services: {db: {image: \"${IMAGE?say which}\"}}",
		"own variable":  "services: {bot: {environment: {FLISK_LISTEN: \"127.0.0.1:1\"}}}",
		"own, no value": "services: {bot: {environment: [FLISK_CODE]}}",
		"no env file":   "services: {db: {image: x, env_file: nowhere.env}}",
		"a directory":   "",
	} {
		p := simple(t)
		if text == "" {
			if err := os.Mkdir(filepath.Join(p.Dir, "compose.override.yaml"), 0o777); err != nil {
				t.Fatal(err)
			}
		} else {
			write(t, p.Dir, "compose.override.yaml", text)
		}
		_, err := Load(t.Context(), stack.Of(p, ""), nil, []string{"FLISK_CODE=x"})
		if err == nil || fault.KindOf(err) != fault.Usage {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A key that Compose itself does not know is told like one of flisk.yaml: where it
// is, and what was probably meant.
func TestUnknownKeysAreNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"services:\n  echo:\n    image: x\n    enviroment: {A: b}\n": `compose.override.yaml:4: service "echo": unknown key "enviroment"; did you mean "environment"?`,
		"services: {echo: {image: x, build: {contxt: .}}}":           `compose.override.yaml: service "echo": unknown key "build.contxt"; did you mean "context"?`,
		"services: {echo: {image: x, qqq: 1}}":                       `compose.override.yaml: service "echo": unknown key "qqq"`,
		"volumes:\n  db: {name: x}\n  qq: {}\nservics: {}\n":         `compose.override.yaml:4: unknown key "servics"; did you mean "services"?`,
		"services:\n  a:\n    tst: 1\n  b:\n    tst: 1\n":            `unknown key "tst"`,
	} {
		p := simple(t)
		write(t, p.Dir, "compose.override.yaml", text)
		if _, err := Load(t.Context(), stack.Of(p, ""), nil, nil); err == nil || !strings.Contains(err.Error(), want) || fault.KindOf(err) != fault.Usage {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestUnappliedKeysAreNamed: what a person adds and flisk does not apply is an
// error with the service's and the key's name, wherever the key is.
func TestUnappliedKeysAreNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"services: {db: {image: x, privileged: true}}":                                                            `service "db": flisk does not apply the key "privileged"`,
		"services: {db: {image: x, deploy: {replicas: 2}}}":                                                       `service "db": flisk does not apply the key "deploy"`,
		"services: {bot: {scale: 2}}":                                                                             `service "bot": flisk does not apply the key "scale"`,
		"services: {db: {image: x, build: {context: ., secrets: [a]}}}\nsecrets: {a: {file: a}}":                  `3 things that flisk does not apply`,
		"services: {db: {image: x, logging: {driver: none}, container_name: yy}}":                                 `service "db": flisk does not apply the key "container_name"`,
		"services: {db: {image: x, networks: {default: {ipv4_address: 10.0.0.1}}}}":                               `service "db": flisk does not apply the key "networks.default.ipv4_address"`,
		"services: {db: {image: x, networks: [back]}}\nnetworks: {back: {}}":                                      `service "db": flisk puts every service into the one network`,
		"services: {db: {image: x, network_mode: host}}":                                                          `service "db": flisk does not apply the key "network_mode"`,
		"services: {db: {image: x, ports: [\"5432:5432\"]}}":                                                      `service "db": port 5432 would be open to the network`,
		"services: {db: {image: x, depends_on: {bot: {condition: service_completed_successfully}}}}":              `service "db": flisk does not apply the condition "service_completed_successfully"`,
		"services: {db: {image: x, volumes: [{type: bind, source: ., target: /x, bind: {propagation: shared}}]}}": `service "db": flisk does not apply the key "volumes.bind.propagation"`,
		"networks: {default: {ipam: {config: [{subnet: 10.0.0.0/8}]}}}":                                           `network "default": flisk does not apply the key "ipam"`,
		"services: {db: {build: .}}":                                                                              `service "db": flisk builds agents only`,
		"services: {db: {image: x, build: .}}":                                                                    `service "db": flisk builds agents only`,
		"services: {bot: {image: !reset null}}":                                                                   `service "bot": it needs an image`,
		"configs: {c: {content: x}}":                                                                              `flisk does not apply the key "configs`,
	} {
		p := simple(t)
		write(t, p.Dir, "compose.override.yaml", text)
		err := Check(load(t, stack.Of(p, "")).Project)
		if err == nil || !strings.Contains(err.Error(), want) || fault.KindOf(err) != fault.Usage {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
