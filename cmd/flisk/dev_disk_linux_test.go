package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	config "github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/source"
)

// TestC03_ACheckoutIsOneReload: 5,000 files at once are one replacement, and what
// runs was built from exactly them.
func TestC03_ACheckoutIsOneReload(t *testing.T) {
	t.Parallel()
	p := newWorld(t).project(filepath.Join(t.TempDir(), "bot"))
	p.slowTurns()
	d := p.dev()
	d.await("reloaded", 1)
	const count = 5000
	for n := range count {
		dir := fmt.Sprintf("data/d%03d", n/50)
		if n%50 == 0 {
			if err := os.MkdirAll(filepath.Join(p.dir, dir), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		p.write(fmt.Sprintf("%s/f%d.txt", dir, n), fmt.Sprint(n))
	}
	p.write("all.go", "package main\n\nimport \"embed\"\n\n//go:embed data\nvar all embed.FS\n")
	p.save("turn.go", strings.Replace(version(1), `fmt.Sprintf("v1 turn`, `count(all)+fmt.Sprintf("v1 turn`, 1)+`
func count(all embed.FS) string {
	n := 0
	dirs, _ := all.ReadDir("data")
	for _, d := range dirs {
		files, _ := all.ReadDir("data/" + d.Name())
		n += len(files)
	}
	return fmt.Sprint(n, " files, ")
}
`)
	code := p.readFile("turn.go")
	p.save("turn.go", strings.Replace(code, "import (", "import (\n\t\"embed\"", 1))
	d.await("reloaded", 2)
	if reply := p.say("s1", "hi"); !strings.HasPrefix(reply, fmt.Sprintf("%d files, v1", count)) {
		t.Errorf("it says %q", reply)
	}
	p.save("turn.go", code) // does not build: whatever was left of the storm comes before
	d.await("failed", 1)
	if n := d.count("reloaded") - 1; n != 1 {
		t.Errorf("%d replacements", n)
	}
}

// TestC03_ABranchIsOneReload: git checks out another branch, in which every file is
// another one. That is one replacement, by code that was built from exactly that
// branch. With FLISK_TEST_LONG=1 it is 5,000 files, and back again.
func TestC03_ABranchIsOneReload(t *testing.T) {
	count, checkouts := 300, []string{"two: %d, v2 "}
	if os.Getenv("FLISK_TEST_LONG") == "1" {
		count, checkouts = 5000, append(checkouts, "one: %d, v1 ")
	}
	onEach(t, func(t *testing.T, p *project) {
		p.slowTurns()
		p.write("census.go", census)
		branch := func(name string, n int) {
			t.Helper()
			for i := range count {
				dir := fmt.Sprintf("data/d%03d", i/50)
				if err := os.MkdirAll(filepath.Join(p.dir, dir), 0o755); err != nil {
					t.Fatal(err)
				}
				p.write(fmt.Sprintf("%s/f%d.txt", dir, i), name)
			}
			p.write("turn.go", strings.Replace(version(n), "fmt.Sprintf(\"v", "census()+fmt.Sprintf(\"v", 1))
			p.git("add", "-A")
			p.git("commit", "-q", "-m", name)
		}
		p.git("init", "-q", "-b", "one")
		branch("one", 1)
		p.git("checkout", "-q", "-b", "two")
		branch("two", 2)
		p.git("checkout", "-q", "one")
		d := p.dev()
		d.await("reloaded", 1)
		for i, want := range checkouts {
			p.git("checkout", "-q", want[:3])
			// census.go is the same in both.
			if e := d.await("reloaded", 2+i); e.Files != count+1 {
				t.Errorf("%d files changed", e.Files)
			}
			if reply := p.say("s1", "hi"); !strings.HasPrefix(reply, fmt.Sprintf(want, count)) {
				t.Errorf("on branch %s it says %q", want[:3], reply)
			}
			p.builtFromDisk(t)
		}
		p.save("flisk.yaml", p.readFile("flisk.yaml")+"# whatever was left of the storm comes before this\n")
		d.await("unchanged", 1)
		if n := d.count("reloading") - 1; n != len(checkouts) {
			t.Errorf("%d checkouts were %d reloads", len(checkouts), n)
		}
	})
}

// census counts the files that the program was built with, by their content.
const census = `package main

import (
	"embed"
	"fmt"
)

//go:embed data
var all embed.FS

func census() (text string) {
	counts := map[string]int{}
	dirs, _ := all.ReadDir("data")
	for _, d := range dirs {
		files, _ := all.ReadDir("data/" + d.Name())
		for _, f := range files {
			content, _ := all.ReadFile("data/" + d.Name() + "/" + f.Name())
			counts[string(content)]++
		}
	}
	for content, n := range counts {
		text += fmt.Sprintf("%s: %d, ", content, n)
	}
	return text
}
`

// git runs a git command in the project's directory, whatever this user's settings
// are.
func (p *project) git(args ...string) {
	p.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=Ann", "-c", "user.email=ann@example.com", "-c", "gc.auto=0"}, args...)...)
	cmd.Dir = p.dir
	cmd.Env = append(slices.Clone(p.env), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull)
	if out, err := cmd.CombinedOutput(); err != nil {
		p.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// TestC09_WhatRunsIsWhatIsOnDisk: also what was saved while nothing ran, and the
// code says so before the first turn.
func TestC09_WhatRunsIsWhatIsOnDisk(t *testing.T) {
	onEach(t, func(t *testing.T, p *project) {
		p.slowTurns()
		d := p.dev()
		d.await("reloaded", 1)
		p.save("turn.go", version(1))
		d.await("reloaded", 2)
		p.builtFromDisk(t)
		before := p.code()
		d.signal(syscall.SIGINT)
		d.ended()
		p.save("turn.go", version(2))
		p.do("up")
		p.builtFromDisk(t)
		if after := p.code(); after == before {
			t.Errorf("the code is still %s", after)
		}
		if reply := p.say("s1", "hi"); !strings.HasPrefix(reply, "v2 ") {
			t.Errorf("it says %q", reply)
		}
		p.save("turn.go", version(1))
		p.do("up")
		if after := p.code(); after != before {
			t.Errorf("the same source is %s, and was %s", after, before)
		}
	})
}

// builtFromDisk fails the test unless what runs was built from what is on disk now:
// by what the agent answers, by status, and by what up would do.
func (p *project) builtFromDisk(t *testing.T) {
	t.Helper()
	loaded, _, err := config.Load(p.dir)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := source.Read(t.Context(), loaded, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want, err := tree.Hash("bot")
	if err != nil {
		t.Fatal(err)
	}
	if code := p.code(); code != want {
		t.Errorf("the agent says that its code is %q, and %q is on disk", code, want)
	}
	var status struct {
		Replicas []struct{ State, Code string }
	}
	if err := json.Unmarshal([]byte(p.do("status", "--json")), &status); err != nil {
		t.Fatal(err)
	}
	ready := 0
	for _, r := range status.Replicas {
		if r.State != "ready" {
			continue // it drains
		}
		ready++
		if r.Code != want {
			t.Errorf("status says that the code is %q, and %q is on disk", r.Code, want)
		}
	}
	if ready != 1 {
		t.Errorf("status: %+v", status)
	}
	var plan string
	eventually(t, 20*time.Second, "up has nothing to do, once the old generation is gone", func() bool {
		plan = p.do("up", "--dry-run", "--json")
		return strings.Contains(plan, `"changes": false`)
	})
}

// TestC05_Polling: asked to look at the files in intervals, it says so, waits for
// no event, sees a save, and takes nothing else for one.
func TestC05_Polling(t *testing.T) {
	t.Parallel()
	p := newWorld(t).project(filepath.Join(t.TempDir(), "bot"))
	p.slowTurns()
	d := p.plainDev("--poll") // on the screen, for once
	d.log("looking every 500 ms")
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", d.cmd.Process.Pid))
	if err != nil || len(links) == 0 {
		t.Fatalf("%q, %v", links, err)
	}
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.Contains(target, "inotify") {
			t.Errorf("it waits for events all the same: %s", target)
		}
	}
	p.save("turn.go", version(1))
	d.log("reload 1: bot runs what is on disk")
	p.builtFromDisk(t)
	now := time.Now()
	if err := os.Chtimes(filepath.Join(p.dir, "main.go"), now, now); err != nil {
		t.Fatal(err)
	}
	<-time.After(1200 * time.Millisecond) // two looks
	p.save("turn.go", version(2))
	d.log("reload 2: bot runs what is on disk")
	if n := d.times("reload "); n != 2 || d.times(" changed") != 2 {
		t.Errorf("%d reloads for two saves:\n%s", n, d.told())
	}
	if reply := p.say("s1", "11ms"); !strings.HasPrefix(reply, "v2 ") {
		t.Errorf("it says %q", reply)
	}
	d.log("turn runs 11ms")
}
