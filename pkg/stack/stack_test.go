package stack

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/project"
)

func sample() *project.Project {
	return &project.Project{
		Dir: "/home/ann/shop", Name: "shop", ID: "9f2c41d07a3e", Runtime: project.Process,
		Gateway: project.Gateway{Bind: "127.0.0.1", Port: 8123, Hosts: []string{"shop.test"}},
		Agents: []project.Agent{
			{Name: "bot", Path: ".", Replicas: 1, TurnTimeout: 100 * time.Second, Drain: 120 * time.Second, OnBusy: "queue",
				MaxBody: 1 << 20, EnvFiles: []string{".env", "conf/b.env"}, WatchIgnore: []string{"*.gen.go"}},
			{Name: "clerk", Path: "agents/clerk", Replicas: 1, TurnTimeout: time.Second, Drain: 2 * time.Second, OnBusy: "reject", RequireSession: true, MaxBody: 1},
		},
		Volume: "flisk-shop-9f2c41d07a3e",
	}
}

func TestOf(t *testing.T) {
	t.Parallel()
	dir := filepath.FromSlash("/home/ann/shop")
	want := Stack{
		Name: "shop", ID: "9f2c41d07a3e", Instance: "two", Dir: "/home/ann/shop",
		Gateway: Gateway{Bind: "127.0.0.1", Port: 8123, Hosts: []string{"shop.test"}},
		Agents: []Agent{
			{Name: "bot", Dir: dir, Replicas: 1, TurnTimeout: 100 * time.Second, Drain: 120 * time.Second, StopGrace: 130 * time.Second, OnBusy: "queue",
				MaxBody: 1 << 20, EnvFiles: []string{filepath.Join(dir, ".env"), filepath.Join(dir, "conf", "b.env")}, WatchIgnore: []string{"*.gen.go"}},
			{Name: "clerk", Dir: filepath.Join(dir, "agents", "clerk"), Replicas: 1, TurnTimeout: time.Second, Drain: 2 * time.Second, StopGrace: 12 * time.Second,
				OnBusy: "reject", RequireSession: true, MaxBody: 1},
		},
		Volume: Volume{Name: "flisk-shop-9f2c41d07a3e-two"},
	}
	p := sample()
	got := Of(p, "two")
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	// A stack that is changed leaves the project as it was.
	got.Gateway.Hosts[0], got.Agents[0].WatchIgnore[0], got.Agents[0].EnvFiles[0] = "x", "x", "x"
	if !reflect.DeepEqual(p, sample()) {
		t.Error("the stack shares memory with the project")
	}
}

func TestVolumeOfAnInstance(t *testing.T) {
	t.Parallel()
	long := project.VolumeName(strings.Repeat("a", project.MaxName), "9f2c41d07a3e")
	other := project.VolumeName(strings.Repeat("a", project.MaxName), "9f2c41d07a3f")
	instance := strings.Repeat("i", 20)
	names := map[string]bool{}
	for _, volume := range []string{long, other, "flisk-shop-9f2c41d07a3e", "v0"} {
		for _, instance := range []string{"", "two", "three", instance} {
			p := sample()
			p.Volume = volume
			name := Of(p, instance).Volume.Name
			if len(name) > project.MaxVolume || names[name] {
				t.Errorf("volume %q of instance %q: %q is too long or not the only one", volume, instance, name)
			}
			if instance == "" && name != volume {
				t.Errorf("the volume of the project itself is %q, not %q", name, volume)
			}
			names[name] = true
		}
	}
	if ValidInstance("") || ValidInstance("A") || !ValidInstance("two") {
		t.Error("an instance is named like an agent")
	}
}

func TestBudgetsNest(t *testing.T) {
	t.Parallel()
	for _, a := range Of(sample(), "").Agents {
		budgets := []time.Duration{a.TurnTimeout, a.Drain, a.StopGrace, DriverTimeout(a.StopGrace)}
		if !slices.IsSorted(budgets) || len(slices.Compact(slices.Clone(budgets))) != len(budgets) {
			t.Errorf("agent %q: budgets %v do not nest", a.Name, budgets)
		}
		if a.StopGrace != a.Drain+10*time.Second {
			t.Errorf("agent %q: stop grace %s after a drain of %s", a.Name, a.StopGrace, a.Drain)
		}
	}
}

func TestRoutesHash(t *testing.T) {
	t.Parallel()
	make := func() Routes {
		return Routes{Hosts: []string{"a:1"}, Agents: []Route{{Agent: "bot", MaxBody: 9, Endpoints: []Endpoint{{"bot-1.1", "unix", "/run/a.sock"}}}}}
	}
	hashes := map[string]string{make().Hash(): "the table itself"}
	if one, two := make().Hash(), make().Hash(); len(one) != 12 || one != two {
		t.Errorf("hashes %q and %q of one table", one, two)
	}
	for name, change := range map[string]func(*Routes){
		"host":           func(r *Routes) { r.Hosts[0] = "b:1" },
		"agent":          func(r *Routes) { r.Agents[0].Agent = "clerk" },
		"limit":          func(r *Routes) { r.Agents[0].MaxBody = 8 },
		"generation":     func(r *Routes) { r.Agents[0].Endpoints[0].Replica = "bot-1.2" },
		"address":        func(r *Routes) { r.Agents[0].Endpoints[0].Address = "/run/b.sock" },
		"no endpoint":    func(r *Routes) { r.Agents[0].Endpoints = nil },
		"another agent":  func(r *Routes) { r.Agents = append(r.Agents, Route{Agent: "clerk"}) },
		"another host":   func(r *Routes) { r.Hosts = append(r.Hosts, "b:1") },
		"split of hosts": func(r *Routes) { r.Hosts = []string{"a", ":1"} },
	} {
		r := make()
		change(&r)
		if other, ok := hashes[r.Hash()]; ok {
			t.Errorf("a changed %s has the hash of %s", name, other)
		}
		hashes[r.Hash()] = name
	}
}

func TestGatewayNames(t *testing.T) {
	t.Parallel()
	g := Gateway{Bind: "127.0.0.1", Port: 8080, Hosts: []string{"shop.test"}}
	if got := strings.Join(g.HostNames(), " "); got != "127.0.0.1:8080 localhost:8080 [::1]:8080 shop.test" || g.URL() != "http://127.0.0.1:8080" {
		t.Errorf("hosts %s, URL %s", got, g.URL())
	}
	if got := strings.Join(Gateway{Bind: "127.0.0.1", Port: 80}.HostNames(), " "); got != "127.0.0.1:80 127.0.0.1 localhost:80 localhost [::1]:80 [::1]" {
		t.Errorf("hosts on port 80: %s", got)
	}
	// The printed URL works wherever the gateway is bound to.
	for _, bind := range []string{"127.0.0.7", "::1"} {
		g := Gateway{Bind: bind, Port: 80}
		if host := strings.TrimPrefix(g.URL(), "http://"); !slices.Contains(g.HostNames(), host) {
			t.Errorf("%s is not among the hosts %v", host, g.HostNames())
		}
	}
}
