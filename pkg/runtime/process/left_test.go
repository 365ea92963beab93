package process

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/flisk-go/flisk/pkg/internal/proc"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/claim/porttest"
	"github.com/flisk-go/flisk/pkg/stack"
)

// killedAfter makes sure that a process does not outlive a test that fails.
func killedAfter(t *testing.T, id proc.Identity) {
	t.Cleanup(func() { _ = id.Signal(syscall.SIGKILL) }) // an error: it is gone, as it should be
}

func TestC12_WhatAnAgentLeavesIsEndedWithIt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.mode(modeParent)
	r.up()
	agent, child := identify(t, r.replica().PID), r.child()
	killedAfter(t, child)
	if err := agent.Signal(syscall.SIGTERM); err != nil { // it ends by itself
		t.Fatal(err)
	}
	mustBeGone(t, agent)
	mustBeGone(t, child)
}

func TestSupervisorIsKilledAndItsReplicaDoesNotNotice(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.mode(modeDeaf)
	r.up()
	agent, supervisor := identify(t, r.replica().PID), r.supervisor()
	killedAfter(t, agent)
	if err := supervisor.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	mustBeGone(t, supervisor)
	r.down()
	if !strings.Contains(r.p.String(), "left by a killed gateway process: drained") {
		t.Errorf("it was not told to drain:\n%s", r.p)
	}
	mustBeGone(t, agent)
}

func TestSupervisorIsKilledAndAnAgentLeavesItsChild(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.mode(modeParent)
	r.up()
	agent, child, supervisor := identify(t, r.replica().PID), r.child(), r.supervisor()
	killedAfter(t, child)
	if err := supervisor.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	mustBeGone(t, supervisor)
	mustBeGone(t, agent)
	o := r.observe()
	if !o.Running || len(o.Stale) != 1 || !strings.Contains(o.Stale[0], "flisk down ends the rest") {
		t.Errorf("observed: %+v", o)
	}
	if bot := r.replica(); bot.State != runtime.LeftBehind || bot.PID != 0 || bot.Name != "bot-1" || !strings.Contains(bot.Detail, "still runs") {
		t.Errorf("replica: %+v", bot)
	}
	r.down()
	mustBeGone(t, child)
}

// standIn is a process that is on record as the rig's supervisor.
func (r *rig) standIn() proc.Identity {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "/bin/sleep", "600")
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = cmd.Wait() }) // it was killed
	id := identify(r.t, cmd.Process.Pid)
	if err := writeFile(filepath.Join(r.place().run, supervisorFile), id); err != nil {
		r.t.Fatal(err)
	}
	return id
}

// A supervisor may die of a signal a moment after it took the question.
func TestSupervisorThatDiesWhileItIsAsked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if err := r.place().makeRunDir(); err != nil {
		t.Fatal(err)
	}
	stand := r.standIn()
	ln, err := net.Listen("unix", r.place().control())
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	asked := make(chan error, 1)
	go func() {
		conn, err := ln.Accept()
		if err == nil {
			err = errors.Join(stand.Signal(syscall.SIGKILL), stand.Wait(t.Context()), conn.Close())
		}
		asked <- err
	}()
	o := r.observe()
	if err := <-asked; err != nil {
		t.Fatal(err)
	}
	if o.Running || o.GatewayPID != 0 || len(o.Stale) != 1 || !strings.Contains(o.Stale[0], "was killed") {
		t.Errorf("observed: %+v", o)
	}
}

// The run directory of a supervisor is removed, and another one is started by
// the same name: the old one ends by itself, and does not touch what is the other's.
func TestSupervisorThatIsReplacedEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.up()
	old := r.supervisor()
	if err := os.RemoveAll(r.place().run); err != nil {
		t.Fatal(err)
	}
	r.o.Stack.Gateway.Port = porttest.Free(t) // the old one has its port until it ends
	r.up()
	mustBeGone(t, old)
	if bot := r.replica(); bot.State != runtime.Ready || bot.Restarts != 0 {
		t.Errorf("replica: %+v", bot)
	}
	r.mustTurn("bot", "")
	for _, rec := range r.place().records() {
		if _, err := os.Stat(rec.Socket); err != nil {
			t.Errorf("the new replica's socket: %v", err)
		}
	}
	if n := len(r.place().records()); n != 1 {
		t.Errorf("%d records, want 1", n)
	}
}

// lettingGo is a hub that only says when a replica is let go.
type lettingGo func()

func (f lettingGo) changed()                    {}
func (f lettingGo) letGo(_ stack.Endpoint) bool { f(); return true }

// A replica gets SIGTERM only when the gateway has let it go. The signal that is
// sent from there has a higher number, so a SIGTERM before it is seen first.
func TestC12_TheGatewayLetsGoBeforeSIGTERM(t *testing.T) {
	t.Parallel()
	dir, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	script := filepath.Join(dir.Name(), "agent")
	err = os.WriteFile(script, []byte("#!/bin/sh\n"+
		"trap 'echo let go' WINCH\n"+
		"trap 'echo terminated; exit 0' TERM\n"+
		"echo started\n"+
		"sleep 600 &\n"+
		"while :; do wait; done\n"), 0o700)
	if err != nil {
		t.Fatal(err)
	}
	log, err := openLog(filepath.Join(dir.Name(), "bot.log"), maxLogFile)
	if err != nil {
		t.Fatal(err)
	}
	defer log.close()
	said := func(line string) bool {
		data, _ := os.ReadFile(log.path)
		return strings.Contains(string(data), " bot-1 "+line+"\n")
	}

	var k *keeper
	hub := lettingGo(func() {
		k.mu.Lock()
		c := k.child
		k.mu.Unlock()
		if err := c.cmd.Process.Signal(syscall.SIGWINCH); err != nil {
			t.Error(err)
		}
		eventually(t, "the signal to arrive", func() bool { return said("let go") || said("terminated") })
		if said("terminated") {
			t.Error("it got SIGTERM before it was let go")
		}
	})
	k = newKeeper(startRequest{
		Ref: runtime.Ref{Agent: "bot", Replica: "bot-1", Generation: 1}, Binary: script, WorkDir: dir.Name(), Grace: killTime,
	}, dir, log, func(string) {}, hub)
	ended := make(chan struct{})
	go func() { defer close(ended); k.run() }()
	eventually(t, "the agent to start", func() bool { return said("started") })
	k.stop(0)
	<-ended
	if !said("let go") || !said("terminated") || k.lastExit() != "exit code 0" {
		data, _ := os.ReadFile(log.path)
		t.Errorf("it ended with %s and wrote:\n%s", k.lastExit(), data)
	}
}
