package docker

import (
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/runtime"
)

func TestC11_DeafFirstProcess(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		argv []string
		want string // "" passes signals on
	}{
		{nil, ""},
		{[]string{"/agent"}, ""},
		{[]string{"/bin/sh", "-c", "/agent"}, "sh"},
		{[]string{"/bin/sh", "-c", "exec /agent"}, ""},
		{[]string{"/bin/sh", "-c", "exec /agent; echo over"}, "sh"},
		{[]string{"/bin/sh", "-c", "echo exec; /agent"}, "sh"},
		{[]string{"bash", "entrypoint"}, "bash"},
		{[]string{"npm", "start"}, "npm"},
		{[]string{"/usr/bin/npm"}, "npm"},
		{[]string{"node", "server.js"}, ""},
		{[]string{"/sbin/tini", "--", "sh"}, ""},
	} {
		name, is := deafFirst(c.argv)
		if !is {
			name = ""
		}
		if name != c.want {
			t.Errorf("%q: %q, want %q", c.argv, name, c.want)
		}
	}
}

// A kill that somebody wanted is no news.
func TestC11_KilledAtTheEndOfItsGrace(t *testing.T) {
	t.Parallel()
	var said []string
	force := make(chan struct{})
	d := &Driver{warned: &warnings{told: map[string]bool{}}, o: Options{Force: force, Warn: func(text string) { said = append(said, text) }}}
	ref := runtime.Ref{Agent: "bot", Replica: "bot-1", Generation: 1}
	d.warnKilled(ref)
	if len(said) != 1 || !strings.Contains(said[0], "bot-1 did not end within its grace") {
		t.Errorf("it said %q", said)
	}
	close(force)
	d.warnKilled(runtime.Ref{Agent: "bot", Replica: "bot-2"})
	if len(said) != 1 {
		t.Errorf("it said %q", said)
	}
}
