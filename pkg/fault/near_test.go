package fault_test

import (
	"testing"

	"github.com/flisk-go/flisk/pkg/fault"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"port", "bind", "hosts", "turn_timeout", "env_file", "on_busy"}
	for word, want := range map[string]string{
		"prot": "port", "Port": "port", "turn-timeout": "turn_timeout", "turntimout": "turn_timeout", "env": "env_file",
		"host": "hosts", "onbusy": "on_busy", "bnid": "bind",
		"x": "", "color": "", "": "", "replicas": "",
	} {
		if got := fault.Nearest(word, known); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}
