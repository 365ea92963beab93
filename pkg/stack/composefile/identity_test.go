package composefile

import (
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/stack"
)

// TestIdentityIsNotThePersons: what flisk tells things apart by is refused by its
// name, and what is beside it is not.
func TestIdentityIsNotThePersons(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"volumes: {checkpoints: {name: other}}":                                     `volume "checkpoints": its name "other" is not that of the project's conversations`,
		"volumes: {checkpoints: !override {name: other, external: true}}":           `volume "checkpoints": its name "other"`,
		"services: {bot: {volumes: [\"mine:/data\"]}}\nvolumes: {mine: {}}":         `service "bot": volumes: "/data" is where its conversations are`,
		"services: {bot: {volumes: [\"mine:/data/agents/\"]}}\nvolumes: {mine: {}}": `service "bot": volumes: "/data/agents`,
		"services: {bot: {volumes: [{type: bind, source: ., target: /data}]}}":      `service "bot": volumes: "/data" is`,
		"services: {bot: {volumes: !reset []}}":                                     `service "bot": volumes: "/data" is`,
		"services: {bot: {volumes: [\"checkpoints:/data:ro\"]}}":                    `service "bot": volumes: "/data" is`,
		"services: {bot: {tmpfs: [\"/data/agents:size=1m\"]}}":                      `service "bot": volumes: "/data/agents" is`,
		"services: {bot: {image: \"my/bot:v1\"}}":                                   `service "bot": image: flisk makes an agent's image, and would give it the name "my/bot:v1"`,
		"services: {bot: {labels: {dev.flisk.agent: other}}}":                       `service "bot": the label dev.flisk.agent is set by flisk`,
		"services: {bot: {labels: [dev.flisk.container=x]}}":                        `service "bot": the label dev.flisk.container is`,
		"services: {bot: {labels: !reset {}}}":                                      `service "bot": the label dev.flisk.agent is`,
		"services: {gateway: {labels: {dev.flisk.static: \"0\"}}}":                  `service "gateway": the label dev.flisk.static is`,
		"services: {db: {image: x, labels: {dev.flisk.project: 9f2c41d07a3e}}}":     `service "db": the label dev.flisk.project is`,
		"services: {db: {image: x, labels: {com.docker.compose.service: bot}}}":     `service "db": the label com.docker.compose.service is`,
		"volumes: {checkpoints: {labels: {dev.flisk.project: other}}}":              `volume "checkpoints": the label dev.flisk.project is`,
		"volumes: {mine: {labels: {com.docker.compose.volume: checkpoints}}}":       `volume "mine": the label com.docker.compose.volume is`,
		"networks: {default: {labels: {dev.flisk.instance: two}}}":                  `network "default": the label dev.flisk.instance is`,

		"services: {bot: {labels: {dev.fliskers: x, mine: y}, tmpfs: [/data2], volumes: [\"mine:/database\"], build: {target: x}}}\nvolumes: {mine: {name: given, labels: {a: b}}}": "",
		"volumes: {checkpoints: !override {external: true, name: flisk-bot-9f2c41d07a3e}}\nnetworks: {default: {name: given}}":                                                      "",
	} {
		for _, instance := range []string{"", "two"} {
			p := simple(t)
			write(t, p.Dir, "compose.override.yaml", text)
			_, err := Load(t.Context(), stack.Of(p, instance), []byte("static"), nil)
			switch {
			case want == "" && err != nil && (instance == "" || !strings.Contains(text, "flisk-bot-")): // an instance has its own
				t.Errorf("%s: %v", text, err)
			case want == "" || instance != "" && strings.Contains(text, "two"): // that is its own
			case err == nil || !strings.Contains(err.Error(), want) || fault.KindOf(err) != fault.Usage:
				t.Errorf("%s: %v, want %s", text, err, want)
			}
		}
	}
}

// TestProfilesAreNamed: a service that has one does not run under plain Compose
// unless somebody asks for it, and here nobody can.
func TestProfilesAreNamed(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"services: {db: {image: x, profiles: [debug]}}",
		"services: {db: {image: x, profiles: [debug]}, bot: {depends_on: [db]}}",
		"services: {bot: {profiles: [debug]}}",
	} {
		p := simple(t)
		write(t, p.Dir, "compose.override.yaml", text)
		for _, environ := range [][]string{nil, {"COMPOSE_PROFILES=debug"}} {
			err := Check(load(t, stack.Of(p, ""), environ...).Project)
			if err == nil || !strings.Contains(err.Error(), `flisk does not apply the key "profiles"`) || fault.KindOf(err) != fault.Usage {
				t.Errorf("%s with %q: %v", text, environ, err)
			}
		}
	}
}

// TestWhatIsNotTextIsRefused: JSON would carry another value to the engine.
func TestWhatIsNotTextIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"services: {bot: {environment: [REGION]}}",
		"services: {db: {image: x, command: [\"${REGION}\"]}}",
	} {
		p := simple(t)
		write(t, p.Dir, "compose.override.yaml", text)
		_, err := Load(t.Context(), stack.Of(p, ""), nil, []string{"REGION=s3cret \xe4"})
		if err == nil || !strings.Contains(err.Error(), "not UTF-8") || !strings.Contains(err.Error(), "REGION") || strings.Contains(err.Error(), "s3cret") || fault.KindOf(err) != fault.Usage {
			t.Errorf("%s: %v", text, err)
		}
	}
}
