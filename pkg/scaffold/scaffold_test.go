package scaffold

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	library "github.com/flisk-go/flisk/pkg"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/templates"
)

// snapshot lists what is below a directory, with modes and sizes.
func snapshot(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		size := info.Size()
		if d.IsDir() {
			size = 0
		}
		rel, err := filepath.Rel(dir, path)
		out = append(out, fmt.Sprintf("%s %s %d", rel, info.Mode(), size))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func kindOf(t *testing.T, err error, want fault.Kind) *fault.Fault {
	t.Helper()
	f, ok := errors.AsType[*fault.Fault](err)
	if !ok || f.Kind != want {
		t.Fatalf("error %v is not a fault of kind %d", err, want)
	}
	return f
}

func scaffold(t *testing.T, dir string) Made {
	t.Helper()
	made, err := Init(dir, Options{Port: 8123})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestProjectFiles(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "My Shop")
	made := scaffold(t, dir)
	if made.Dir != dir || made.Name != "my-shop" || !regexp.MustCompile(`^[0-9a-f]{12}$`).MatchString(made.ID) || made.Port != 8123 || made.Agent != "bot" {
		t.Errorf("made %+v", made)
	}
	var got, vendored []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d.IsDir():
		case strings.HasPrefix(name, libraryDir+"/pkg/"):
			vendored = append(vendored, strings.TrimPrefix(name, libraryDir+"/"))
		default:
			got = append(got, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{".dockerignore", ".env.example", ".gitattributes", ".gitignore", "Dockerfile", "README.md", "compose.yaml", "flisk.yaml", "go.mod", "main.go",
		libraryDir + "/LICENSE", libraryDir + "/go.mod", "traefik/dynamic/routes.yaml", "traefik/static.yaml", "turn.go", "turn_test.go"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if made.Files != len(got)+len(vendored) || len(vendored) != len(library.Sources()) {
		t.Errorf("%d files were promised; there are %d and %d of the library", made.Files, len(got), len(vendored))
	}
	for _, s := range library.Sources() {
		content, err := os.ReadFile(filepath.Join(dir, libraryDir, s.Path))
		if err != nil || !bytes.Equal(content, s.Content) {
			t.Errorf("%s is not the library's: %v", s.Path, err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm()&0o055 == 0 {
		t.Errorf("the directory is as private as a temporary one: %v, %v", info.Mode(), err)
	}
}

// What init writes is what the loader reads, with every key at its default, so
// that the file shows them all and none of them wrong.
func TestScaffoldedConfigurationIsComplete(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "shop")
	made := scaffold(t, dir)
	p, warnings, err := project.Load(dir)
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%v, %v", warnings, err)
	}
	bare := filepath.Join(t.TempDir())
	least := fmt.Sprintf("version: 1\nname: shop\nid: %s\ngateway: {port: 8123}\nagents: {bot: }\nvolumes: {checkpoints: {name: flisk-shop-%s}}\n", made.ID, made.ID)
	if err := os.WriteFile(filepath.Join(bare, project.FileName), []byte(least), 0o644); err != nil {
		t.Fatal(err)
	}
	defaults, _, err := project.Load(bare)
	if err != nil {
		t.Fatal(err)
	}
	defaults.Dir = p.Dir
	if got, want := fmt.Sprintf("%+v", *p), fmt.Sprintf("%+v", *defaults); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	// Every key of the schema is in the file, too: a problem lists them.
	text, err := os.ReadFile(filepath.Join(dir, project.FileName))
	if err != nil {
		t.Fatal(err)
	}
	for _, section := range []string{"", "gateway:\n", "  bot: # answers POST /api/bot/turn\n", "    watch:\n", "verify: # what \"flisk verify\" sends to prove that nothing is lost\n"} {
		indent := strings.Repeat(" ", len(section)-len(strings.TrimLeft(section, " ")))
		if section != "" {
			indent += "  "
		}
		broken := strings.Replace(string(text), section, section+indent+"zzzzzzzz: 1\n", 1)
		if err := os.WriteFile(filepath.Join(bare, project.FileName), []byte(broken), 0o644); err != nil {
			t.Fatal(err)
		}
		_, _, err := project.Load(bare)
		_, known, ok := strings.Cut(kindOf(t, err, fault.Usage).Message, "known here: ")
		if !ok {
			t.Fatalf("an unknown key below %q: %v", section, err)
		}
		for key := range strings.SplitSeq(known, ", ") {
			if !strings.Contains(string(text), "\n"+indent+key+":") {
				t.Errorf("key %q below %q is not in the scaffolded file", key, section)
			}
		}
	}
}

func TestLicenseTravels(t *testing.T) {
	t.Parallel()
	root, err := os.ReadFile(filepath.Join("..", "..", "LICENSE"))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "bot")
	scaffold(t, dir)
	if copied, err := os.ReadFile(filepath.Join(dir, libraryDir, "LICENSE")); err != nil || !bytes.Equal(root, copied) {
		t.Errorf("the library's LICENSE is not this repository's: %v", err)
	}
}

func TestGoVersionIsTheModules(t *testing.T) {
	t.Parallel()
	mod, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^go ` + regexp.QuoteMeta(goVersion) + `(\.0)?$`).Match(mod) {
		t.Errorf("the module's go directive is not %s", goVersion)
	}
}

func TestRenderingIsDeterministic(t *testing.T) {
	t.Parallel()
	data := templates.Data{Name: "a", ID: "9f2c41d07a3e", Agent: "c", Volume: "dd", Port: 1}
	one, err1 := render("/x", data)
	two, err2 := render("/x", data)
	if err1 != nil || err2 != nil || !slices.EqualFunc(one, two, func(a, b file) bool { return a.path == b.path && bytes.Equal(a.content, b.content) }) {
		t.Errorf("two renderings differ: %v, %v", err1, err2)
	}
	for _, f := range one {
		if !strings.HasPrefix(f.path, libraryDir) && bytes.Contains(f.content, []byte("{{")) {
			t.Errorf("%s has something left to fill in", f.path)
		}
	}
}

// TestC16_Names: twelve directories, and the longest objects made of the names.
func TestC16_Names(t *testing.T) {
	t.Parallel()
	random := regexp.MustCompile(`^agent-[0-9a-f]{6}$`)
	for directory, want := range map[string]string{
		"My App":                               "my-app",
		"my.app":                               "my-app",
		"MyApp!":                               "myapp",
		"日本語":                                  "",
		"Ünïcode":                              "n-code",
		"agent-日本":                             "agent",
		"🤖 bot 🤖":                              "bot",
		"_hidden":                              "hidden",
		"--a--b--":                             "a-b",
		"7of9":                                 "7of9",
		strings.Repeat("x", 200):               strings.Repeat("x", 40),
		strings.Repeat("ab-", 13) + "-" + "zz": strings.Repeat("ab-", 13) + "z",
		strings.Repeat("x", 39) + " y":         strings.Repeat("x", 39),
		"\x00\n\xff":                           "",
		"..":                                   "",
	} {
		got := ProjectName(directory)
		if want == "" && !random.MatchString(got) || want != "" && got != want {
			t.Errorf("%q becomes %q, want %q", directory, got, want)
		}
		if !project.ValidName(got) || len(project.VolumeName(got, "9f2c41d07a3e")) > 63 || len(got+"-"+strings.Repeat("a", 20)+"-1") > 63 {
			t.Errorf("%q makes names that are not valid or too long", got)
		}
	}
	if one, two := ProjectName("日本語"), ProjectName("日本語"); one == two {
		t.Error("two nameless directories got one name")
	}
}

func TestC16_NamesThroughInit(t *testing.T) {
	t.Parallel()
	for _, directory := range []string{"Größe der Bestellung", "日本語", "-", "a.b"} {
		dir := filepath.Join(t.TempDir(), directory)
		made := scaffold(t, dir)
		if p, _, err := project.Load(dir); err != nil || p.Name != made.Name {
			t.Errorf("%q: %v", directory, err)
		}
	}
	for _, bad := range []string{"Shop", "a_b", "-a", strings.Repeat("a", 41), "a\nb"} {
		_, err := Init(filepath.Join(t.TempDir(), "x"), Options{Name: bad, Port: 1})
		if f := kindOf(t, err, fault.Usage); !strings.HasPrefix(f.Hint, "try ") {
			t.Errorf("name %q: hint %q", bad, f.Hint)
		}
	}
}

func TestEmptyDirectoryStaysTheOneItIs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	before, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	scaffold(t, dir)
	after, err := os.Stat(dir)
	if err != nil || !os.SameFile(before, after) || before.Mode() != after.Mode() {
		t.Errorf("the directory was replaced: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".flisk-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, _, err := project.Load(dir); err != nil {
		t.Error(err)
	}
}

func TestCurrentDirectoryThroughALink(t *testing.T) {
	real, link := t.TempDir(), filepath.Join(t.TempDir(), "Linked Shop")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	t.Chdir(link)
	made := scaffold(t, ".")
	if made.Name != "linked-shop" {
		t.Errorf("made %+v", made)
	}
	if _, err := os.Stat(filepath.Join(real, project.FileName)); err != nil {
		t.Error(err)
	}
}

// TestNeverOverWhatExists: each target is refused with what is there, and not a
// byte around it changes.
func TestNeverOverWhatExists(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make func(dir string) error
		want string
	}{
		"file":        {func(d string) error { return os.WriteFile(d, []byte("x"), 0o644) }, "is a file"},
		"link to dir": {func(d string) error { return os.Symlink(t.TempDir(), d) }, "is a symbolic link"},
		"dead link":   {func(d string) error { return os.Symlink("nowhere", d) }, "is a symbolic link"},
		"one file": {func(d string) error {
			return errors.Join(os.Mkdir(d, 0o755), os.WriteFile(filepath.Join(d, "main.go"), []byte("x"), 0o644))
		}, `is not empty: it holds "main.go"`},
		"many files": {func(d string) error {
			err := os.Mkdir(d, 0o755)
			for i := range 9 {
				err = errors.Join(err, os.WriteFile(filepath.Join(d, fmt.Sprint(i)), nil, 0o644))
			}
			return err
		}, `it holds "0", "1", "2", "3" and 5 more`},
		"project": {func(d string) error { _, err := Init(d, Options{Port: 1}); return err }, "is a flisk project already"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parent := t.TempDir()
			dir := filepath.Join(parent, "bot")
			if err := c.make(dir); err != nil {
				t.Fatal(err)
			}
			before := snapshot(t, parent)
			_, err := Init(dir, Options{Port: 8123})
			if f := kindOf(t, err, fault.Usage); !strings.Contains(f.Message, c.want) || f.Hint == "" {
				t.Errorf("got %+v, want %q", f, c.want)
			}
			if after := snapshot(t, parent); !slices.Equal(before, after) {
				t.Errorf("before %v\nafter  %v", before, after)
			}
		})
	}
}

func TestParentMustExist(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	_, err := Init(filepath.Join(parent, "a", "b"), Options{})
	if f := kindOf(t, err, fault.Usage); !strings.Contains(f.Message, filepath.Join(parent, "a")) {
		t.Errorf("got %+v", f)
	}
	if left := snapshot(t, parent); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

func TestUnwritableParent(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	if err := os.Chmod(parent, 0o555); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(parent, "probe"), 0o755); err == nil {
		t.Skip("this user may write everywhere; TestAnyStepMayFail covers the rest")
	}
	_, err := Init(filepath.Join(parent, "bot"), Options{Port: 1})
	if f := kindOf(t, err, fault.Failed); !errors.Is(err, fs.ErrPermission) || !strings.Contains(f.Message, "bot") {
		t.Errorf("got %+v", f)
	}
}

// failing lets the n-th change fail.
type failing struct {
	realDisk
	left int
}

var errInjected = errors.New("injected")

func (f *failing) step() error {
	f.left--
	if f.left == -1 {
		return errInjected
	}
	return nil
}

func (f *failing) Mkdir(path string) error {
	return unless(f.step(), func() error { return f.realDisk.Mkdir(path) })
}

// WriteFile leaves half a file behind when it fails.
func (f *failing) WriteFile(path string, content []byte) error {
	if err := f.step(); err != nil {
		return errors.Join(err, f.realDisk.WriteFile(path, content[:len(content)/2]))
	}
	return f.realDisk.WriteFile(path, content)
}

func (f *failing) Share(path string) error {
	return unless(f.step(), func() error { return f.realDisk.Share(path) })
}

func (f *failing) Rename(from, to string) error {
	return unless(f.step(), func() error { return f.realDisk.Rename(from, to) })
}

// unless does the next thing if nothing failed.
func unless(err error, then func() error) error {
	if err != nil {
		return err
	}
	return then()
}

// TestAnyStepMayFail lets change 0, 1, 2 … fail, for a new directory and for one
// that exists: nothing is left, until none fails any more.
func TestAnyStepMayFail(t *testing.T) {
	t.Parallel()
	for _, exists := range []bool{false, true} {
		t.Run(fmt.Sprintf("exists=%t", exists), func(t *testing.T) {
			t.Parallel()
			parent := t.TempDir()
			dir := filepath.Join(parent, "bot")
			if exists {
				if err := os.Mkdir(dir, 0o750); err != nil {
					t.Fatal(err)
				}
			}
			before := snapshot(t, parent)
			for n := 0; ; n++ {
				d := &failing{left: n}
				_, err := initialize(d, dir, Options{Port: 8123})
				if err == nil {
					if n < 30 || d.left < 0 {
						t.Fatalf("only %d changes make a project", n)
					}
					break
				}
				if f := kindOf(t, err, fault.Failed); !errors.Is(f, errInjected) {
					t.Fatalf("change %d: %v", n, err)
				}
				if after := snapshot(t, parent); !slices.Equal(before, after) {
					t.Fatalf("change %d failed and left\n%s", n, strings.Join(after, "\n"))
				}
			}
			if _, _, err := project.Load(dir); err != nil {
				t.Error(err)
			}
		})
	}
}

// appearing puts something in the way just before a rename.
type appearing struct {
	realDisk
	before func(to string) error
}

func (a appearing) Rename(from, to string) error {
	if err := a.before(to); err != nil {
		return err
	}
	return a.realDisk.Rename(from, to)
}

func TestTargetAppearsMeanwhile(t *testing.T) {
	t.Parallel()
	for name, obstacle := range map[string]func(to string) error{
		"file":           func(to string) error { return os.WriteFile(to, []byte("mine"), 0o644) },
		"full directory": func(to string) error { return os.MkdirAll(filepath.Join(to, "mine"), 0o755) },
		"link":           func(to string) error { return os.Symlink("mine", to) },
	} {
		parent := t.TempDir()
		_, err := initialize(appearing{before: obstacle}, filepath.Join(parent, "bot"), Options{Port: 1})
		kindOf(t, err, fault.Failed)
		left := snapshot(t, parent)
		if joined := strings.Join(left, "\n"); strings.Contains(joined, ".flisk-init") || strings.Contains(joined, project.FileName) || len(left) < 2 {
			t.Errorf("%s: left\n%s", name, joined)
		}
	}
}

func TestFirstFreePort(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().(*net.TCPAddr).Port
	if port, err := freePort(taken); taken < 65000 && (err != nil || port <= taken || port >= taken+portsTried) {
		t.Errorf("from %d on the first free port is %d, %v", taken, port, err)
	}
	if _, err := freePort(65536); err == nil {
		t.Error("a port above 65535 was found")
	}
	made, err := Init(filepath.Join(t.TempDir(), "a"), Options{})
	if err != nil || made.Port < project.DefaultPort {
		t.Errorf("made %+v, %v", made, err)
	}
}
