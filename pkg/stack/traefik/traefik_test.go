package traefik

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/stack/goldentest"
	"github.com/flisk-go/flisk/pkg/turn"
)

func sample() stack.Stack {
	return stack.Stack{
		Name: "shop", ID: "9f2c41d07a3e",
		Gateway: stack.Gateway{Bind: "127.0.0.1", Port: 8080, Hosts: []string{"shop.test", "shop.test:8123"}},
		Agents: []stack.Agent{
			{Name: "bot", StopGrace: 130 * time.Second, MaxBody: 1 << 20},
			{Name: "bot-2", StopGrace: 12 * time.Second, MaxBody: 1},
		},
	}
}

// strict decodes into the shapes that are written, and refuses any other key.
func strict[T any](t *testing.T, data []byte) (v T) {
	t.Helper()
	if err := yaml.Load(data, &v, yaml.WithKnownFields()); err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	return v
}

func TestStatic(t *testing.T) {
	t.Parallel()
	data, err := Static(sample())
	if err != nil {
		t.Fatal(err)
	}
	goldentest.Compare(t, "static.golden.yaml", data)
	got := strict[static](t, data)
	// C24: nothing but files, and nothing of itself to be seen.
	if got.Providers.File.Directory != stack.GatewayRoutes || !got.Providers.File.Watch || len(got.EntryPoints) != 1 || strings.Contains(string(data), "docker") {
		t.Errorf("got %+v", got)
	}
}

// TestC15_GatewayGrace: the gateway lets requests go on at least as long as any
// agent may take to stop.
func TestC15_GatewayGrace(t *testing.T) {
	t.Parallel()
	s := sample()
	data, err := Static(s)
	if err != nil {
		t.Fatal(err)
	}
	grace := time.Duration(strict[static](t, data).EntryPoints[entryPoint].Transport.LifeCycle.GraceTimeOut)
	for _, a := range s.Agents {
		if grace < a.StopGrace {
			t.Errorf("agent %q may take %s, the gateway %s", a.Name, a.StopGrace, grace)
		}
	}
	if grace >= s.GatewayGrace() {
		t.Errorf("the gateway is killed after %s, when it lets requests go on for %s", s.GatewayGrace(), grace)
	}
}

func TestDynamic(t *testing.T) {
	t.Parallel()
	routes := sample().InsideRoutes()
	data, err := Dynamic(routes)
	if err != nil {
		t.Fatal(err)
	}
	goldentest.Compare(t, "routes.golden.yaml", data)
	got := strict[dynamic](t, data).HTTP
	for name, r := range got.Routers {
		// Whoever changes the rules: no agent without a host, no answer without the hash.
		if (!strings.Contains(r.Rule, "Host(`127.0.0.1`)") && !strings.HasSuffix(r.Service, "@internal")) || r.Middlewares[0] != stampName {
			t.Errorf("router %q: %+v", name, r)
		}
	}
	if h := got.Middlewares[stampName].Headers.CustomResponseHeaders[turn.HeaderRoutes]; h != routes.Hash() {
		t.Errorf("hash %q", h)
	}
	// C26: a turn must not be sent twice.
	for _, word := range []string{"retryNonIdempotentMethod", "status:", "healthCheck", "passiveHealthCheck"} {
		if strings.Contains(string(data), word) {
			t.Errorf("%q is in the file", word)
		}
	}
	again, err := Dynamic(sample().InsideRoutes())
	if err != nil || !bytes.Equal(data, again) {
		t.Errorf("two writings differ: %v", err)
	}
}

// The durations are written as they are read, and read as they are written.
func (d *duration) UnmarshalYAML(n *yaml.Node) error {
	v, err := time.ParseDuration(n.Value)
	*d = duration(v)
	return err
}
