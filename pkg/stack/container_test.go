package stack

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/project"
)

// TestC16_ContainerNames: the longest names of everything that an engine is asked
// to make, with and without an instance.
func TestC16_ContainerNames(t *testing.T) {
	t.Parallel()
	label := regexp.MustCompile(`^[a-z0-9][a-z0-9-]*[a-z0-9]$`)
	agent := strings.Repeat("b", 20)
	seen := map[string]bool{}
	for _, name := range []string{"a", "a--b", "7of9", strings.Repeat("x", project.MaxName), strings.Repeat("x", project.MaxName-1) + "y"} {
		for _, instance := range []string{"", "two", strings.Repeat("i", 20)} {
			s := Stack{Name: name, ID: "9f2c41d07a3e", Instance: instance}
			p := s.ContainerProject()
			if seen[p] {
				t.Errorf("%q, instance %q: %q is another stack's", name, instance, p)
			}
			seen[p] = true
			for what, made := range map[string]string{"container": p + "-" + agent + "-1", "network": s.Network(), "image": strings.TrimSuffix(s.Image(agent), "/"+agent+":latest")} {
				if len(made) > 63 || !label.MatchString(made) {
					t.Errorf("%q, instance %q: %s %q", name, instance, what, made)
				}
			}
			if len(p) > maxContainerProject || !strings.HasSuffix(p, "-9f2c41") || len(name) < 20 && !strings.HasPrefix(p, name+"-") {
				t.Errorf("%q, instance %q, is called %q", name, instance, p)
			}
			s.ID = "9f2c42d07a3e"
			if other := s.ContainerProject(); other == p {
				t.Errorf("%q, instance %q: two projects are called %q", name, instance, p)
			}
		}
	}
}

func TestInside(t *testing.T) {
	t.Parallel()
	s := Of(sample(), "")
	if got := strings.Join(s.InsideHosts(), " "); got != "127.0.0.1:8123 localhost:8123 [::1]:8123 shop.test gateway:8080" || s.InsideURL() != "http://gateway:8080" {
		t.Errorf("hosts %s, URL %s", got, s.InsideURL())
	}
	r := s.InsideRoutes()
	if len(r.Agents) != 2 || r.Agents[1].Endpoints[0] != (Endpoint{"clerk", "tcp", "clerk:4001"}) || !slices.Equal(r.Hosts, s.InsideHosts()) {
		t.Errorf("routes %+v", r)
	}
	s.Gateway.Hosts = []string{"gateway:8080"}
	if got := s.InsideHosts(); len(got) != 4 {
		t.Errorf("a host twice: %v", got)
	}
	for drain, want := range map[time.Duration]time.Duration{time.Second: 130 * time.Second, 2 * time.Minute: 130 * time.Second, 3 * time.Minute: 190 * time.Second} {
		for i := range s.Agents {
			s.Agents[i].StopGrace = drain + stopMargin
		}
		if s.LongestGrace() != want || s.GatewayGrace() <= s.LongestGrace() {
			t.Errorf("with a drain of %s, graces %s and %s", drain, s.LongestGrace(), s.GatewayGrace())
		}
	}
}
