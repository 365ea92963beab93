package docker

import (
	"slices"
	"testing"

	"github.com/flisk-go/flisk/pkg/stack"
)

// TestAddedHosts: the cause of a step names hosts as flisk.yaml does.
func TestAddedHosts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		gateway stack.Gateway
		want    []string
	}{
		"none":            {stack.Gateway{Bind: "127.0.0.1", Port: 8095}, nil},
		"some":            {stack.Gateway{Bind: "127.0.0.1", Port: 8095, Hosts: []string{"shop.test", "localhost:9000"}}, []string{"shop.test", "localhost:9000"}},
		"another address": {stack.Gateway{Bind: "127.0.0.2", Port: 8095, Hosts: []string{"a:1"}}, []string{"a:1"}},
		"port 80":         {stack.Gateway{Bind: "::1", Port: 80, Hosts: []string{"a"}}, []string{"a"}},
	} {
		if got := addedHosts(stack.Stack{Gateway: c.gateway}.InsideHosts()); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := addedHosts(nil); len(got) > 0 {
		t.Errorf("of no hosts: %q", got)
	}
}
