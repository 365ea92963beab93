package proc

import (
	"strings"
	"testing"
)

func TestParseStat(t *testing.T) {
	t.Parallel()
	rest := " 7 8 9 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 123456 3133440 410 18446744073709551615"
	for name, c := range map[string]struct {
		stat string
		want snapshot
	}{
		"plain":                  {"42 (agent) S" + rest, snapshot{"123456", 8, false}},
		"name with spaces":       {"42 (my agent) R" + rest, snapshot{"123456", 8, false}},
		"name like a stat line":  {"42 (a) Z 1 2 3 (b) S" + rest, snapshot{"123456", 8, false}},
		"name of parentheses":    {"42 ())() D" + rest, snapshot{"123456", 8, false}},
		"name with a line end":   {"42 (a\n) S" + rest, snapshot{"123456", 8, false}},
		"empty name":             {"42 () S" + rest, snapshot{"123456", 8, false}},
		"zombie":                 {"42 (agent) Z" + rest, snapshot{"123456", 8, true}},
		"dead":                   {"42 (agent) X" + rest, snapshot{"123456", 8, true}},
		"zombie without a group": {"42 (agent) Z" + strings.Replace(rest, " 8 ", " -1 ", 1), snapshot{"123456", -1, true}},
	} {
		if got, err := parseStat([]byte(c.stat)); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c.want)
		}
	}
	for name, stat := range map[string]string{
		"empty":         "",
		"no name":       "42 agent S" + rest,
		"cut":           "42 (agent) S 7 8 9",
		"group of text": "42 (agent) S 7 x" + rest,
	} {
		if got, err := parseStat([]byte(stat)); err == nil {
			t.Errorf("%s: %+v and no error", name, got)
		}
	}
}

// A start time of another boot belongs to no process of this one.
func TestGroupOfAnotherBoot(t *testing.T) {
	t.Parallel()
	p := start(t, "parent", NewGroup(), "PROC_TEST_LEAVE=1")
	child, err := Identify(p.said)
	if err != nil {
		t.Fatal(err)
	}
	leader := Identity{PID: p.cmd.Process.Pid, Start: "another-boot/1", Group: p.cmd.Process.Pid}
	p.reap(t)
	wantGone(t, leader.SignalGroup(9))
	wantAlive(t, child, true)
}
