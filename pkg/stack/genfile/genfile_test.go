package genfile

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/stack/goldentest"
)

// sample is a project as init makes it, and with another port.
func sample(dir string, port int) stack.Stack {
	return stack.Of(&project.Project{
		Dir: dir, Name: "bot", ID: "9f2c41d07a3e", Volume: "flisk-bot-9f2c41d07a3e",
		Gateway: project.Gateway{Bind: "127.0.0.1", Port: port},
		Agents: []project.Agent{{
			Name: "bot", Path: ".", Replicas: 1, TurnTimeout: 100 * time.Second, Drain: 120 * time.Second,
			OnBusy: "queue", MaxBody: 1 << 20, EnvFiles: []string{".env"},
		}},
	}, "")
}

func files(t *testing.T, dir string, port int) []File {
	t.Helper()
	list, err := Of(sample(dir, port))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// apply brings the files of a project to what they should be, and lists those that
// were written.
func apply(dir string, files []File) ([]string, error) {
	c, err := Plan(dir, files)
	if err != nil {
		return nil, err
	}
	var wrote []string
	for _, s := range c.Stale {
		wrote = append(wrote, s.Path)
	}
	return wrote, c.Apply()
}

var paths = []string{"compose.yaml", "traefik/dynamic/routes.yaml", "traefik/static.yaml"}

// TestFilesOfANewProject keeps what every new project has where it can be read.
func TestFilesOfANewProject(t *testing.T) {
	t.Parallel()
	var got []string
	for _, f := range files(t, t.TempDir(), 8080) {
		got = append(got, f.Path)
		goldentest.Compare(t, filepath.Base(f.Path)+".golden", f.Content)
		if Inspect(f.Content) != Intact {
			t.Errorf("%s is not intact", f.Path)
		}
		if f.Shared != strings.HasPrefix(f.Path, "traefik/") {
			t.Errorf("%s: shared %v", f.Path, f.Shared)
		}
	}
	if !slices.Equal(got, paths) {
		t.Errorf("files %v", got)
	}
}

func TestInspect(t *testing.T) {
	t.Parallel()
	sealed := string(Seal([]byte("a: 1\nb: 2\n")))
	for name, c := range map[string]struct {
		content string
		want    Seen
	}{
		"as it was":          {sealed, Intact},
		"other line ends":    {strings.ReplaceAll(sealed, "\n", "\r\n"), Intact},
		"of nothing":         {string(Seal(nil)), Intact},
		"another value":      {strings.Replace(sealed, "1", "2", 1), Edited},
		"a line more":        {sealed + "c: 3\n", Edited},
		"a line less":        {strings.Replace(sealed, "b: 2\n", "", 1), Edited},
		"a space":            {sealed + " ", Edited},
		"another hash":       {strings.Replace(sealed, "sha256:", "sha256:0", 1), Edited},
		"no hash":            {mark + "\n", Edited},
		"no first line":      {"a: 1\n", Foreign},
		"nothing":            {"", Foreign},
		"a line before":      {"\n" + sealed, Foreign},
		"another first line": {strings.Replace(sealed, "flisk.yaml", "x", 1), Foreign},
	} {
		if got := Inspect([]byte(c.content)); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// tree lists a directory: paths, permissions and contents.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content := ""
		if info.Mode().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			content = string(b)
		}
		rel, err := filepath.Rel(dir, path)
		all[filepath.ToSlash(rel)] = info.Mode().String() + " " + content
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func same(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}

func TestWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	wrote, err := apply(dir, files(t, dir, 8080))
	if err != nil || !slices.Equal(wrote, paths) {
		t.Fatalf("wrote %v, %v", wrote, err)
	}
	first := tree(t, dir)
	if len(first) != 5 { // three files, two directories, and no temporary one
		t.Errorf("there is %v", first)
	}
	// What is as it should be is not touched.
	old := time.Unix(1_000_000_000, 0)
	for _, path := range paths {
		if err := os.Chtimes(filepath.Join(dir, path), old, old); err != nil {
			t.Fatal(err)
		}
	}
	if wrote, err := apply(dir, files(t, dir, 8080)); err != nil || len(wrote) > 0 {
		t.Errorf("wrote %v again, %v", wrote, err)
	}
	for _, path := range paths {
		if info, err := os.Stat(filepath.Join(dir, path)); err != nil || !info.ModTime().Equal(old) {
			t.Errorf("%s was touched: %v", path, err)
		}
	}
	// Another port is in two of them.
	wrote, err = apply(dir, files(t, dir, 8081))
	if want := paths[:2]; err != nil || !slices.Equal(wrote, want) {
		t.Errorf("wrote %v, %v, want %v", wrote, err, want)
	}
	for _, f := range files(t, dir, 8081) {
		if got, err := os.ReadFile(filepath.Join(dir, f.Path)); err != nil || !bytes.Equal(got, f.Content) {
			t.Errorf("%s is not as it should be: %v", f.Path, err)
		}
	}
	// A file that is gone comes back.
	if err := os.RemoveAll(filepath.Join(dir, "traefik")); err != nil {
		t.Fatal(err)
	}
	if wrote, err := apply(dir, files(t, dir, 8080)); err != nil || !slices.Equal(wrote, paths) {
		t.Errorf("wrote %v, %v", wrote, err)
	}
	if !same(first, tree(t, dir)) {
		t.Error("the first port again, and other files than at first")
	}
}

// TestEditedIsRefused: one file that is not flisk's keeps all of them as they
// are, and the error names it and the way out.
func TestEditedIsRefused(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(path string) error{
		"edited":   func(path string) error { return appendTo(path, "# mine\n") },
		"foreign":  func(path string) error { return os.WriteFile(path, []byte("services: {}\n"), 0o644) },
		"a link":   func(path string) error { return errorsOf(os.Remove(path), os.Symlink("/dev/null", path)) },
		"a pipe":   func(path string) error { return errorsOf(os.Remove(path), syscall.Mkfifo(path, 0o644)) },
		"a folder": func(path string) error { return errorsOf(os.Remove(path), os.Mkdir(path, 0o777)) },
	} {
		for _, path := range paths {
			dir := t.TempDir()
			if _, err := apply(dir, files(t, dir, 8080)); err != nil {
				t.Fatal(err)
			}
			if err := spoil(filepath.Join(dir, path)); err != nil {
				t.Fatal(err)
			}
			before := tree(t, dir)
			wrote, err := apply(dir, files(t, dir, 8081))
			f, ok := err.(*fault.Fault)
			if !ok || f.Kind != fault.Usage || !strings.Contains(f.Message, path) || !strings.Contains(f.Hint, "compose.override.yaml") || len(wrote) > 0 {
				t.Errorf("%s, %s: wrote %v, %v", name, path, wrote, err)
			}
			if !same(before, tree(t, dir)) {
				t.Errorf("%s, %s: something was written", name, path)
			}
		}
	}
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errorsOf(err, f.Close())
}

func errorsOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestAllOrNothing: when the last file cannot be written, those before it are as
// they were, whether there were any or not.
func TestAllOrNothing(t *testing.T) {
	t.Parallel()
	for _, fresh := range []bool{false, true} {
		dir := t.TempDir()
		if !fresh {
			if _, err := apply(dir, files(t, dir, 8080)); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(filepath.Join(dir, "traefik", "static.yaml")); err != nil {
				t.Fatal(err)
			}
		}
		c, err := Plan(dir, files(t, dir, 8081))
		if err != nil {
			t.Fatal(err)
		}
		// Somebody makes a directory of that name in the meantime.
		if err := os.MkdirAll(filepath.Join(dir, "traefik", "static.yaml", "x"), 0o777); err != nil {
			t.Fatal(err)
		}
		before := tree(t, dir)
		if err := c.Apply(); err == nil || !strings.Contains(err.Error(), "static.yaml") {
			t.Fatalf("fresh %v: %v", fresh, err)
		}
		after := tree(t, dir)
		delete(after, "traefik/dynamic") // a directory that was made may stay
		delete(before, "traefik/dynamic")
		if !same(before, after) {
			t.Errorf("fresh %v: before %v\nafter %v", fresh, before, after)
		}
	}
}

// TestSharedFilesAreReadable: a container's user is nobody here, and must be able
// to read what is mounted for it.
func TestSharedFilesAreReadable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := apply(dir, files(t, dir, 8080)); err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]fs.FileMode{
		"compose.yaml": 0o600, "traefik/static.yaml": 0o600, "traefik/dynamic/routes.yaml": 0o640, "traefik/dynamic": 0o700, "traefik": 0o2700 & fs.ModePerm,
	} {
		if err := os.Chmod(filepath.Join(dir, path), mode); err != nil {
			t.Fatal(err)
		}
	}
	if wrote, err := apply(dir, files(t, dir, 8080)); err != nil || len(wrote) > 0 {
		t.Errorf("wrote %v, %v", wrote, err)
	}
	for path, mode := range map[string]fs.FileMode{
		"compose.yaml": 0o600, "traefik/static.yaml": 0o644, "traefik/dynamic/routes.yaml": 0o644, "traefik/dynamic": 0o755, "traefik": 0o755,
	} {
		if info, err := os.Stat(filepath.Join(dir, path)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s has %v, want %v", path, info.Mode().Perm(), mode)
		}
	}
}

// A file outside the project is never written, whatever a link says.
func TestLinkedDirectoryIsNotFollowedOut(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "traefik")); err != nil {
		t.Fatal(err)
	}
	if _, err := apply(dir, files(t, dir, 8080)); err == nil {
		t.Error("no error")
	}
	if left := tree(t, outside); len(left) > 0 {
		t.Errorf("written: %v", left)
	}
	if _, err := os.Stat(filepath.Join(dir, "compose.yaml")); err == nil {
		t.Error("compose.yaml was written all the same")
	}
}
