package runtimetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/fault"
)

// Suite is what every runtime does, a subtest each. place makes the place of one
// subtest.
func Suite(t *testing.T, place func(t *testing.T) Place) {
	for name, test := range map[string]func(*testing.T, Place){
		"up and down":              testUpDown,
		"restart":                  testRestart,
		"kill":                     testKill,
		"kill in a turn":           testKillInTurn,
		"agent that dies":          testDies,
		"failed build":             testFailedBuild,
		"code":                     testCode,
		"settings":                 testSettings,
		"C12 C15 turn in flight":   testInFlight,
		"C14 open connections":     testOpenConnections,
		"C20 agent that ends":      testBroken,
		"C20 change that ends":     testBrokenChange,
		"C20 agent never ready":    testNeverReady,
		"C25 gap":                  testGap,
		"logs":                     testLogs,
		"follow":                   testFollow,
		"follow tells of ends":     testFollowEnds,
		"two projects":             testTwoProjects,
		"port moves":               testPortMoves,
		"C18 directory moves":      testMove,
		"C18 volume renamed":       testVolumeRenamed,
		"C19 port in use":          testPortInUse,
		"second directory":         testSecondDirectory,
		"instance":                 testInstance,
		"agents come and go":       testAgents,
		"plan changes nothing":     testPlan,
		"interrupted up is undone": testInterrupted,
		"interrupted anywhere":     testInterruptedAnywhere,
		"two ups at once":          testTwoUps,
		"up against down":          testUpAgainstDown,
		"C17 volume removed":       testRemoveVolume,
		"sessions":                 testSessions,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, place(t))
		})
	}
}

// said fails the test unless a reply is of that turn and has all inputs in it.
func said(t *testing.T, a Answer, turn int, inputs string) {
	t.Helper()
	if want := fmt.Sprintf("%d: %s;", turn, inputs); a.Turn != turn || !strings.HasPrefix(a.Reply, want) {
		t.Errorf("turn %d said %q, want %q", a.Turn, a.Reply, want)
	}
}

func isFault(t *testing.T, err error, kind fault.Kind, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("there is no error")
	}
	if fault.KindOf(err) != kind {
		t.Errorf("%q is of kind %d, want %d", err, fault.KindOf(err), kind)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}
