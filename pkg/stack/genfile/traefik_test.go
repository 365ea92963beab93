package genfile

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// TestC24_TraefikNeedsNoEngine: the generated gateway reads files and nothing
// else, no service gets the engine's socket or address, and the image is of one
// version, of those that could speak to any engine.
func TestC24_TraefikNeedsNoEngine(t *testing.T) {
	t.Parallel()
	generated := map[string]map[string]any{}
	for _, f := range files(t, t.TempDir(), 8080) {
		if !strings.HasSuffix(f.Path, ".yaml") {
			continue
		}
		var content map[string]any
		if err := yaml.Unmarshal(f.Content, &content); err != nil {
			t.Fatalf("%s: %v", f.Path, err)
		}
		generated[f.Path] = content
		for _, word := range []string{"docker.sock", "DOCKER_HOST", "podman.sock", "tcp://"} {
			if strings.Contains(string(f.Content), word) {
				t.Errorf("%s has %q", f.Path, word)
			}
		}
	}
	providers := slices.DeleteFunc(slices.Sorted(maps.Keys(generated["traefik/static.yaml"]["providers"].(map[string]any))), func(key string) bool {
		return key == "providersThrottleDuration" // how often they are read
	})
	if !slices.Equal(providers, []string{"file"}) {
		t.Errorf("Traefik takes its routes from %v", providers)
	}
	services := generated["compose.yaml"]["services"].(map[string]any)
	image := services["gateway"].(map[string]any)["image"].(string)
	version := regexp.MustCompile(`^traefik:v(\d+)\.(\d+)\.(\d+)$`).FindStringSubmatch(image)
	if version == nil {
		t.Fatalf("the image %q is not of one version", image)
	}
	var numbers []int
	for _, number := range version[1:] {
		n, err := strconv.Atoi(number)
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, n)
	}
	if oldest := []int{3, 6, 1}; slices.Compare(numbers, oldest) < 0 {
		t.Errorf("the image %q is older than %v", image, oldest)
	}
	for name, service := range services {
		volumes, _ := service.(map[string]any)["volumes"].([]any)
		for _, v := range volumes {
			mount := v.(map[string]any)
			if source := mount["source"].(string); mount["type"] == "bind" && !strings.HasPrefix(source, "./") {
				t.Errorf("service %q mounts %q from outside of the project", name, source)
			}
		}
	}
}
