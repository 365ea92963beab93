package scaffold

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/stack/composefile"
	"github.com/flisk-go/flisk/pkg/stack/genfile"
	"github.com/flisk-go/flisk/pkg/stack/traefik"
)

// TestC16_GeneratedFilesOfOddDirectories: twelve names of directories, and for
// each the generated files are what up would write, and Compose loads them.
func TestC16_GeneratedFilesOfOddDirectories(t *testing.T) {
	t.Parallel()
	for _, directory := range []string{
		"My App", "my.app", "MyApp!", "日本語", "Ünïcode", "agent-日本", "🤖 bot 🤖", "_hidden", "-rf", "$HOME ${X} #1", `it's "a" \ b`, strings.Repeat("x", 200),
	} {
		dir := filepath.Join(t.TempDir(), directory)
		scaffold(t, dir)
		p, _, err := project.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		s := stack.Of(p, "")
		files, err := genfile.Of(s)
		if err != nil {
			t.Fatal(err)
		}
		change, err := genfile.Plan(p.Dir, files)
		if err != nil || len(change.Stale) > 0 {
			t.Errorf("%q: stale %v, %v", directory, change.Stale, err)
		}
		static, err := traefik.Static(s)
		if err != nil {
			t.Fatal(err)
		}
		loaded, err := composefile.Load(t.Context(), s, static, nil)
		if err != nil {
			t.Errorf("%q: %v", directory, err)
			continue
		}
		if err := composefile.Check(loaded.Project); err != nil || loaded.Project.Name != s.ContainerProject() || loaded.Project.WorkingDir != p.Dir {
			t.Errorf("%q: %v; name %q in %q", directory, err, loaded.Project.Name, loaded.Project.WorkingDir)
		}
		for name := range loaded.Project.Services {
			if container := s.ContainerProject() + "-" + name + "-1"; len(container) > 63 {
				t.Errorf("%q: container %q", directory, container)
			}
		}
	}
}

// sharing notes who may read what.
type sharing struct {
	realDisk
	shared map[string]bool
}

func (s sharing) Share(path string) error {
	s.shared[filepath.Base(path)] = true
	return s.realDisk.Share(path)
}

// What is mounted into a container is for a user who is nobody here, and nothing
// else is.
func TestMountedFilesAreShared(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "bot")
	disk := sharing{shared: map[string]bool{}}
	if _, err := initialize(disk, dir, Options{Port: 8123}); err != nil {
		t.Fatal(err)
	}
	if len(disk.shared) != 4 {
		t.Errorf("shared: %v", disk.shared)
	}
	for path, want := range map[string]fs.FileMode{"traefik": 0o555, "traefik/dynamic": 0o555, "traefik/static.yaml": 0o444, "traefik/dynamic/routes.yaml": 0o444} {
		if info, err := os.Stat(filepath.Join(dir, path)); err != nil || info.Mode().Perm()&want != want || !disk.shared[filepath.Base(path)] {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	private := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(private, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (realDisk{}).Share(private); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(private); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("shared as %v, %v", info.Mode(), err)
	}
}

// TestC11_DockerfileIsInExecForm: and for every builder.
func TestC11_DockerfileIsInExecForm(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "bot")
	scaffold(t, dir)
	text, err := os.ReadFile(filepath.Join(dir, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	var last, user string
	stages := 0
	for line := range strings.Lines(string(text)) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "FROM":
			stages++
			last = rest
		case "USER":
			user = rest
		case "ENTRYPOINT", "CMD":
			if !strings.HasPrefix(rest, "[") {
				t.Errorf("a shell would be before the agent: %s", line)
			}
		}
		for _, never := range []string{"--mount", "<<", "# syntax", "--chmod", "--link"} {
			if strings.Contains(line, never) {
				t.Errorf("not every builder knows %q: %s", never, line)
			}
		}
	}
	if stages != 2 || last != "scratch" || user != stack.User {
		t.Errorf("%d stages, the last from %q, user %q", stages, last, user)
	}
}
