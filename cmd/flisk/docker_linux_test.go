package main_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/runtime/claim/porttest"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/turn"
)

// newDockerWorld is a world whose projects run on the real engine, which has the
// image of the gateway.
func newDockerWorld(t testing.TB) *world {
	t.Helper()
	if err := dockerLacks(); err != nil {
		dockertest.Missing(t, err)
	}
	w := newWorld(t)
	w.env = append(w.env, "FLISK_RUNTIME=auto") // which is Docker, because the engine answers
	return w
}

// dockerLacks says what there is not of an engine that tests can use.
func dockerLacks() error {
	if out, err := exec.Command("docker", "version").CombinedOutput(); err != nil {
		return fmt.Errorf("no Docker engine: %w: %s", err, bytes.TrimSpace(out))
	}
	if out, err := exec.Command("docker", "image", "inspect", stack.GatewayImage).CombinedOutput(); err != nil {
		return fmt.Errorf("the Docker engine has no image %s: %w: %s", stack.GatewayImage, err, bytes.TrimSpace(out))
	}
	return nil
}

// dockerProject is a project whose every object is removed when the test ends.
func (w *world) dockerProject(dir string) *project {
	w.t.Helper()
	w.flisk(filepath.Dir(dir), "init", filepath.Base(dir))
	p := &project{world: w, dir: dir, port: porttest.Free(w.t)}
	p.edit("flisk.yaml", regexp.MustCompile(`port: \d+`), fmt.Sprintf("port: %d", p.port))
	w.t.Cleanup(func() {
		if out, errOut, code := w.try(dir, "down", "--volumes", "--yes", "--runtime", "docker"); code != 0 {
			w.t.Errorf("down at the end of the test: exit code %d\n%s%s", code, out, errOut)
		}
		if images := p.objects("image", "ls", "-q"); len(images) > 0 {
			docker(w.t, append([]string{"image", "rm", "-f"}, images...)...)
		}
	})
	return p
}

// docker runs the docker command, which must succeed.
func docker(t testing.TB, args ...string) string {
	t.Helper()
	out, err := exec.Command("docker", args...).Output()
	if err != nil {
		t.Fatalf("docker %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}

// id is the project's, as flisk.yaml has it.
func (p *project) id() string {
	p.t.Helper()
	content, err := os.ReadFile(filepath.Join(p.dir, "flisk.yaml"))
	if err != nil {
		p.t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^id: (\S+)`).FindSubmatch(content)
	if found == nil {
		p.t.Fatal("flisk.yaml has no id")
	}
	return string(found[1])
}

// objects lists what the engine has of the project, by a docker command that
// takes a filter.
func (p *project) objects(args ...string) []string {
	p.t.Helper()
	return strings.Fields(docker(p.t, append(args, "--filter", "label=dev.flisk.project="+p.id())...))
}

// TestDocker is the life of a project on Docker, as a person types it.
func TestDocker(t *testing.T) {
	t.Parallel()
	w := newDockerWorld(t)
	p := w.dockerProject(filepath.Join(t.TempDir(), "bot"))
	secrets := []string{"hunter2-$HOME-${X}", `two "words" # and 'more'`}
	p.write(".env", "PASSWORD='"+secrets[0]+"'\nPHRASE=\"two \\\"words\\\" # and 'more'\"\n")
	p.do("up")
	p.say("s1", "hi")
	p.say("s1", "again")
	p.do("restart")
	remembers := func(when, reply string) {
		t.Helper()
		if !strings.Contains(reply, `"hi"`) || !strings.Contains(reply, "2 earlier turns") && !strings.Contains(reply, "3 earlier turns") {
			t.Errorf("%s, the reply does not reflect the turns before: %s", when, reply)
		}
	}
	remembers("after a restart", p.say("s1", "more"))

	var up struct {
		Changed bool
		Steps   []string
	}
	if err := json.Unmarshal([]byte(p.do("up", "--json")), &up); err != nil || up.Changed || len(up.Steps) > 0 {
		t.Errorf("up of an unchanged stack: %+v, %v", up, err)
	}
	p.onLoopbackOnly()
	p.tellsNoSecret(secrets)

	p.do("down")
	if left := p.objects("ps", "-aq"); len(left) > 0 {
		t.Errorf("containers after down: %q", left)
	}
	if list := p.do("sessions", "list"); !strings.Contains(list, "s1") {
		t.Errorf("nothing runs, and the list of sessions is\n%s", list)
	}
	p.do("up")
	remembers("after down and up", p.say("s1", "still?"))

	if out, errOut, code := p.try(p.dir, "down", "--volumes"); code != 2 || len(p.objects("volume", "ls", "-q")) != 1 {
		t.Errorf("nobody said yes: exit code %d\n%s%s", code, out, errOut)
	}
	volume := p.objects("volume", "ls", "-q")[0]
	out := p.do("down", "--volumes", "--yes")
	if !strings.Contains(out, "gone") || !strings.Contains(out, volume+", with 1 session") {
		t.Errorf("it does not say that the conversations are gone:\n%s", out)
	}
	for _, list := range [][]string{{"ps", "-aq"}, {"volume", "ls", "-q"}, {"network", "ls", "-q"}} {
		if left := p.objects(list...); len(left) > 0 {
			t.Errorf("docker %s: %q is left", strings.Join(list, " "), left)
		}
	}
	p.do("up")
	if reply := p.say("s1", "hello"); strings.Contains(reply, `"hi"`) {
		t.Errorf("after its volume was removed it still remembers: %s", reply)
	}
}

// onLoopbackOnly looks at the kernel's own table of listeners.
func (p *project) onLoopbackOnly() {
	p.t.Helper()
	found := 0
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		content, err := os.ReadFile(table)
		if err != nil {
			p.t.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			fields := strings.Fields(line)
			const listening = "0A"
			if len(fields) < 4 || fields[3] != listening || !strings.HasSuffix(fields[1], fmt.Sprintf(":%04X", p.port)) {
				continue
			}
			found++
			if fields[1] != fmt.Sprintf("0100007F:%04X", p.port) {
				p.t.Errorf("it listens on %s, and that is not 127.0.0.1", fields[1])
			}
		}
	}
	if found == 0 {
		p.t.Errorf("nobody listens on port %d", p.port)
	}
}

// tellsNoSecret looks for values of .env where everybody who may use the engine
// sees them: labels, commands, images. The environment of a running container is
// where they belong.
func (p *project) tellsNoSecret(secrets []string) {
	p.t.Helper()
	var containers []map[string]any
	out := docker(p.t, append([]string{"inspect"}, p.objects("ps", "-q")...)...)
	if err := json.Unmarshal([]byte(out), &containers); err != nil || len(containers) != 2 {
		p.t.Fatalf("%d containers, %v", len(containers), err)
	}
	arrived := false
	for _, c := range containers {
		config := c["Config"].(map[string]any)
		for _, variable := range config["Env"].([]any) {
			arrived = arrived || variable == "PASSWORD="+secrets[0]
		}
		delete(config, "Env")
	}
	if !arrived {
		p.t.Error("the agent did not get the variable as it was written")
	}
	public, err := json.Marshal(containers)
	if err != nil {
		p.t.Fatal(err)
	}
	images := p.objects("image", "ls", "-q")
	if len(images) == 0 {
		p.t.Fatal("the project has no image")
	}
	places := map[string][]byte{
		"a container": public,
		"the image":   []byte(docker(p.t, append([]string{"image", "inspect"}, images...)...)),
		"a layer":     []byte(docker(p.t, append([]string{"save"}, images...)...)),
	}
	for place, content := range places {
		for _, secret := range secrets {
			encoded, err := json.Marshal(secret)
			if err != nil {
				p.t.Fatal(err)
			}
			if bytes.Contains(content, []byte(secret)) || bytes.Contains(content, bytes.Trim(encoded, `"`)) {
				p.t.Errorf("%s tells the secret %q", place, secret)
			}
		}
	}
}

// TestC18_DockerAndBack moves conversations as the refusal says, and finds them.
func TestC18_DockerAndBack(t *testing.T) {
	t.Parallel()
	w := newDockerWorld(t)
	p := w.dockerProject(filepath.Join(t.TempDir(), "bot"))
	p.do("up", "--runtime", "process")
	t.Cleanup(func() { p.do("down", "--runtime", "process") })
	p.say("s1", "remember 17") // where it ran last
	if out, errOut, code := p.try(p.dir, "up", "--runtime", "docker"); code != 3 || !strings.Contains(errOut, "runs on local processes") {
		t.Errorf("up while it runs elsewhere: exit code %d\n%s%s", code, out, errOut)
	}
	p.do("down")
	out, errOut, code := p.try(p.dir, "up", "--runtime", "docker")
	if code != 3 || !strings.Contains(errOut, "--runtime process") || !strings.Contains(errOut, "sessions export") || !strings.Contains(errOut, "sessions import - --runtime docker") {
		t.Fatalf("up where nothing is: exit code %d\n%s%s", code, out, errOut)
	}
	if left := p.objects("ps", "-aq"); len(left) > 0 {
		t.Errorf("an up that was refused made containers: %q", left)
	}
	file := filepath.Join(t.TempDir(), "all.flisk.jsonl")
	p.do("sessions", "export", "--runtime", "process", "-o", file)
	p.do("sessions", "import", "--runtime", "docker", file)
	p.do("up", "--runtime", "docker")
	if reply := p.say("s1", "what did I say?"); !strings.Contains(reply, "remember 17") {
		t.Errorf("the conversation did not move: %s", reply)
	}

	// Changed while it runs, through the agent's own program.
	p.do("sessions", "rm", "s1", "--yes")
	if reply := p.say("s1", "hello"); strings.Contains(reply, "17") {
		t.Errorf("the session was removed, and remembers: %s", reply)
	}
	if out, errOut, code := p.try(p.dir, "sessions", "import", file); code != 1 || !strings.Contains(errOut, `session "s1" exists already`) {
		t.Errorf("import of what is there: exit code %d\n%s%s", code, out, errOut)
	}
}

// TestDockerKillDuringATurn: "flisk turn" survives a kill by itself.
func TestDockerKillDuringATurn(t *testing.T) {
	t.Parallel()
	p := newDockerWorld(t).dockerProject(filepath.Join(t.TempDir(), "bot"))
	p.slowTurns()
	p.do("up")
	cmd := p.command(p.dir, "turn", "4s", "-s", "s1")
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "the turn runs", func() bool { return strings.Contains(p.do("logs"), "turn runs 4s") })
	p.do("kill", "bot")
	err := cmd.Wait()
	said := errOut.String()
	if err != nil || out.Len() == 0 || !strings.Contains(said, "again: the agent went away") || !strings.Contains(said, "same key") || !regexp.MustCompile(`sent \d times`).MatchString(said) {
		t.Errorf("%v\n%s%s", err, &out, said)
	}
	if view := p.session("s1"); view.Turns != 1 {
		t.Errorf("the session holds %d turns, want 1", view.Turns)
	}
}

// proofs are what the engine has of verifications below a directory.
func proofs(t *testing.T, tmp string) (left []string) {
	t.Helper()
	for _, list := range [][]string{
		{"ps", "-a", "--format", `{{.Names}} {{.Label "dev.flisk.room"}}`},
		{"volume", "ls", "--format", `{{.Name}} {{.Label "dev.flisk.room"}}`},
		{"network", "ls", "--format", `{{.Name}} {{.Label "dev.flisk.room"}}`},
	} {
		for line := range strings.Lines(docker(t, append(list, "--filter", "label=dev.flisk.room")...)) {
			if _, room, _ := strings.Cut(strings.TrimSpace(line), " "); filepath.Dir(room) == tmp {
				left = append(left, list[0]+" "+strings.TrimSpace(line))
			}
		}
	}
	images := docker(t, "image", "ls", "-q", "--filter", "label=dev.flisk.room")
	for _, id := range slices.Compact(strings.Fields(images)) {
		if room := strings.TrimSpace(docker(t, "image", "inspect", "--format", `{{index .Config.Labels "dev.flisk.room"}}`, id)); filepath.Dir(room) == tmp {
			left = append(left, "image "+id)
		}
	}
	return left
}

// TestDockerVerify: every guarantee holds, and nothing is left: not at its end, not
// after Ctrl-C, and not by the next one after a SIGKILL.
func TestDockerVerify(t *testing.T) {
	t.Parallel()
	w := newDockerWorld(t)
	tmp, err := os.MkdirTemp("/tmp", "fv")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(tmp) })
	w.env = append(w.env, "TMPDIR="+tmp)
	p := w.dockerProject(filepath.Join(t.TempDir(), "bot"))
	traces := func(when string) {
		t.Helper()
		if left := append(proofs(t, tmp), everything(t, tmp)...); len(left) > 0 {
			t.Errorf("%s: left is %q", when, left)
		}
	}

	out := p.do("verify")
	t.Logf("%s", out)
	if !regexp.MustCompile(`(?m)^held +(\d+) of (\d+) guarantees`).MatchString(out) {
		t.Errorf("not every guarantee held:\n%s", out)
	}
	traces("at its end")

	// interrupted starts a verification, and signals it when its first check is over.
	interrupted := func(sig syscall.Signal) int {
		t.Helper()
		cmd := p.command(p.dir, "verify", "--run", "continuity,crash")
		said, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		kill := time.AfterFunc(3*time.Minute, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		seen := false
		for lines := bufio.NewScanner(said); lines.Scan(); {
			if !seen && strings.HasPrefix(lines.Text(), "continuity") {
				seen = true
				if err := cmd.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait() // it was interrupted
		if !seen {
			t.Fatal("it ended before its first check did")
		}
		return cmd.ProcessState.ExitCode()
	}
	if code := interrupted(syscall.SIGINT); code != 130 {
		t.Errorf("Ctrl-C: exit code %d", code)
	}
	traces("after Ctrl-C")

	interrupted(syscall.SIGKILL)
	if len(proofs(t, tmp)) == 0 {
		t.Fatal("a SIGKILL left nothing to clear")
	}
	p.do("verify", "--run", "isolation")
	traces("after a SIGKILL and the next one")

	// The machine forgot the room, as /tmp after a reboot.
	interrupted(syscall.SIGKILL)
	rooms, err := filepath.Glob(filepath.Join(tmp, "*"))
	if err != nil || len(rooms) == 0 {
		t.Fatalf("%q, %v", rooms, err)
	}
	for _, room := range rooms {
		if err := os.RemoveAll(room); err != nil {
			t.Fatal(err)
		}
	}
	p.do("verify", "--run", "isolation")
	traces("after a SIGKILL, a reboot and the next one")
}

// TestDockerInterruptedRemoval: a removal that waits for a turn is interrupted. The
// turn is answered, the session stays, and so does no container.
func TestDockerInterruptedRemoval(t *testing.T) {
	t.Parallel()
	w := newDockerWorld(t)
	p := w.dockerProject(filepath.Join(t.TempDir(), "bot"))
	p.slowTurns()
	p.do("up")
	got := make(chan answer, 1)
	go func() {
		a, err := p.post(context.Background(), "bot", `"20s"`, http.Header{turn.HeaderSession: {"s1"}})
		if err != nil {
			t.Error(err)
		}
		got <- a
	}()
	eventually(t, time.Minute, "the turn runs", func() bool { return strings.Contains(p.do("logs"), "turn runs 20s") })
	cmd := p.command(p.dir, "sessions", "rm", "s1", "--yes")
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "the agent's program waits for the session", func() bool {
		return docker(t, "ps", "-q", "--filter", "label=dev.flisk.project="+p.id(), "--filter", "label=dev.flisk.reader") != ""
	})
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was interrupted
	if code := cmd.ProcessState.ExitCode(); code != 130 || !strings.Contains(said.String(), "0 of 1 sessions were removed") {
		t.Errorf("exit code %d\n%s", code, &said)
	}
	if n := len(p.objects("ps", "-aq")); n != 2 {
		t.Errorf("%d containers, want the agent and the gateway", n)
	}
	if a := <-got; a.status != http.StatusOK || a.result.Turn != 1 {
		t.Errorf("the client got %d %+v", a.status, a.problem)
	}
	if view := p.session("s1"); view.Turns != 1 {
		t.Errorf("the session holds %d turns, want 1", view.Turns)
	}
}
