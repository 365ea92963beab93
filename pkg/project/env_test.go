package project

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func envFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "settings.env")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEnvArrivesAsWritten(t *testing.T) {
	t.Setenv("OTHER", "must not appear")
	t.Setenv("INHERITED", "from$here")
	got, err := LoadEnv("", []string{envFile(t, "\ufeff"+`# a comment
PLAIN=pa$$word$OTHER${OTHER}${OTHER:-x}$(id) # not this
export SINGLE='a $OTHER "b"\n'
DOUBLE="a $OTHER\tb
second line"
EMPTY=
SPACES =  a b  
URL=https://u:p@h/?a=b#c
INHERITED
NOWHERE_SET
DUP=1
DUP=2
LAST=x`)})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"DOUBLE=a $OTHER\tb\nsecond line",
		"DUP=2",
		"EMPTY=",
		"INHERITED=from$here",
		"LAST=x",
		"PLAIN=pa$$word$OTHER${OTHER}${OTHER:-x}$(id)",
		`SINGLE=a $OTHER "b"\n`,
		"SPACES=a b",
		"URL=https://u:p@h/?a=b#c",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

func TestEnvFilesInOrder(t *testing.T) {
	t.Parallel()
	got, err := LoadEnv("", []string{envFile(t, "A=1\nB=1\r\n"), filepath.Join(t.TempDir(), "none"), envFile(t, "B=2\nLONE")})
	if err != nil || !slices.Equal(got, []string{"A=1", "B=2"}) {
		t.Errorf("got %q, %v", got, err)
	}
}

// A line that cannot be read may be half of a secret: the error names where it
// is and never shows it.
func TestEnvErrorsShowNoSecret(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ content, want string }{
		"not terminated": {"A=1\nKEY=\"s3cret", "settings.env:2: this line is not NAME=value"},
		"strange name":   {"A=1\ns3cret!key=1", "settings.env:2: "},
		"name in two":    {"s3cret key=1", "line "},
		"no name":        {"=s3cret", "a value without a name"},
		"dollar in name": {"s3cret$x=1", "line "},
		"nul":            {"A=s3cret\x00", "it is not text"},
		"latin-1":        {"A=1\n# Größe\nB=s3cret \xe4\n", "settings.env:3: this line is not UTF-8"},
		"reserved":       {"FLISK_DATA=s3cret", "FLISK_DATA is set by flisk itself"},
	} {
		env, err := LoadEnv("", []string{envFile(t, c.content)})
		if err == nil {
			t.Errorf("%s: read as %q", name, env)
			continue
		}
		f := usage(t, err)
		if !strings.Contains(f.Message, c.want) || !strings.Contains(f.Message, "settings.env") || strings.Contains(f.Message+f.Detail, "s3cret") {
			t.Errorf("%s: %q", name, f.Message)
		}
	}
}

// Nobody writes to the pipe here, so opening it would wait for ever.
func TestEnvFileThatIsNone(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		t.TempDir(): "it is a directory",
		pipe:        "it is not a regular file",
		os.DevNull:  "it is not a regular file",
		envFile(t, "A="+strings.Repeat("x", maxFile)): "it is larger than 1 MiB",
	} {
		_, err := LoadEnv("", []string{path})
		if f := usage(t, err); !strings.Contains(f.Message, want) || !strings.Contains(f.Message, strconv.Quote(path)) {
			t.Errorf("%q: %q", path, f.Message)
		}
	}
}

// TestExpanded: what plain Compose would read otherwise is named, and only that.
func TestExpanded(t *testing.T) {
	t.Setenv("HOME", "/home/ann")
	first := envFile(t, `PLAIN=x
SINGLE='a$HOME ${X} $$'
UNSET=pa$word
SET=$HOME
DOUBLE="${X:-y}"
TWICE=a$$b
BEFORE=$x
BEFORE=y
AFTER=$x
ALONE=5$
QUOTED="it's $5"
`)
	second := envFile(t, "AFTER='$x'\n")
	got, err := Expanded("", []string{first, second, filepath.Join(t.TempDir(), "none")})
	if want := []string{"DOUBLE", "SET", "TWICE", "UNSET"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if got, err := Expanded("", []string{envFile(t, "A=${X\nB=x\n")}); err != nil || !slices.Equal(got, []string{"A"}) {
		t.Errorf("a file that Compose cannot read: %q, %v", got, err)
	}
	if _, err := Expanded("", []string{envFile(t, "A B C")}); err == nil {
		t.Error("no error for what is not NAME=value")
	}
}

// TestInheritedValueIsText: a value of the environment arrives as it is, or not at all.
func TestInheritedValueIsText(t *testing.T) {
	t.Setenv("INHERITED", "s3cret \xe4")
	_, err := LoadEnv("", []string{envFile(t, "A=1\nINHERITED\n")})
	if f := usage(t, err); !strings.Contains(f.Message, "the value of INHERITED in the environment is not UTF-8") || strings.Contains(f.Message, "s3cret") {
		t.Errorf("%q", f.Message)
	}
}
