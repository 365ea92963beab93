package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/checkpoint"
)

// runCommand runs this binary as an agent with arguments, on a volume.
func runCommand(t *testing.T, dir string, stdin []byte, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return runCommandWith(t, nil, dir, stdin, args...)
}

func runCommandWith(t *testing.T, env []string, dir string, stdin []byte, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	var out, said bytes.Buffer
	cmd.Env = append([]string{asAgent + "=1", "FLISK_DATA=" + dir}, env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &out, &said
	if err := cmd.Run(); err != nil {
		if _, ended := errors.AsType[*exec.ExitError](err); !ended {
			t.Fatal(err)
		}
	}
	return cmd.ProcessState.ExitCode(), out.String(), said.String()
}

// exported is an export of sessions of a volume.
func exported(t *testing.T, dir string, ids ...string) []byte {
	t.Helper()
	r, err := checkpoint.OpenReader(dir, "bot")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var b bytes.Buffer
	x := checkpoint.NewExportWriter(&b)
	for _, id := range ids {
		if _, _, err := x.Session(t.Context(), r, id); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Conversations move to a volume that only the agent's own program reaches, also
// while that serves, and go on there.
func TestSessionsCommands(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	p := startAgent(t, from)
	p.turn(t.Context(), "s1", "k", script{Say: "first"}).want(t, 200, "")
	p.turn(t.Context(), "s2", "k", script{Say: "second"}).want(t, 200, "")
	export := exported(t, from, "s1", "s2")

	serving := startAgent(t, to)
	code, out, said := runCommand(t, to, export, "sessions", "import")
	var report checkpoint.ImportReport
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != 0 || len(report.Imported) != 2 {
		t.Fatalf("import: exit %d, %s%s%v", code, out, said, err)
	}
	if got := serving.turn(t.Context(), "s1", "k2", script{Say: "more"}); !strings.Contains(string(got.body), "2: more, first first") {
		t.Errorf("the conversation went on as %+v", got)
	}

	if code, out, said = runCommand(t, to, export, "sessions", "import"); code != 1 || !strings.Contains(out, `"taken":[{"agent":"bot","session_id":"s1"`) || !strings.Contains(said, "exists") {
		t.Errorf("a second time: exit %d, %s%s", code, out, said)
	}
	file := filepath.Join(t.TempDir(), "export")
	if err := os.WriteFile(file, export, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, said = runCommand(t, to, nil, "sessions", "import", "--skip-existing", file); code != 0 || !strings.Contains(out, `"imported":[]`) {
		t.Errorf("leaving out what is there: exit %d, %s%s", code, out, said)
	}
	if code, out, said = runCommand(t, to, export, "sessions", "import", "--agents", "bot,clerk", "--agent", "clerk"); code != 0 || !strings.Contains(out, `"agent":"clerk"`) {
		t.Errorf("for another agent: exit %d, %s%s", code, out, said)
	}

	code, out, said = runCommand(t, to, nil, "sessions", "rm", "s1", "s9")
	if code != 1 || !strings.Contains(out, `"removed":[],"missing":"s9"`) || !strings.Contains(said, "s9") {
		t.Errorf("removing one that is not there: exit %d, %s%s", code, out, said)
	}
	var removal checkpoint.RemovalReport
	code, out, said = runCommand(t, to, nil, "sessions", "rm", "s1", "s2", "s1")
	if err := json.Unmarshal([]byte(out), &removal); err != nil || code != 0 || !slices.Equal(removal.Removed, []string{"s1", "s2"}) {
		t.Fatalf("remove: exit %d, %s%s%v", code, out, said, err)
	}
	if got := serving.turn(t.Context(), "s1", "k3", script{Say: "anew"}); !strings.Contains(string(got.body), "1: anew, first anew") {
		t.Errorf("a session that was removed went on as %+v", got)
	}
}

func TestCommandsThatFail(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "volume")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dir, stdin string
		args       []string
		code       int
		says       string
	}{
		{empty, "", []string{"serve"}, 2, `["serve"]`},
		{empty, "", []string{"health", "me"}, 2, "health"},
		{empty, "", []string{"sessions"}, 2, "sessions"},
		{empty, "no export", []string{"sessions", "import"}, 2, "not an export"},
		{empty, "", []string{"sessions", "import", "--agent", "A B"}, 2, `"A B"`},
		{empty, "", []string{"sessions", "import", "file", "another"}, 2, "another"},
		{empty, "", []string{"sessions", "import", empty}, 3, empty},
		{empty, "", []string{"sessions", "import", "--frob"}, 2, "frob"},
		{empty, "", []string{"sessions", "rm"}, 2, "ids"},
		{empty, "", []string{"sessions", "rm", "s1"}, 1, "s1"},
		{empty, "", []string{"sessions", "rm", "../x"}, 1, "x"},
		{file, "", []string{"sessions", "rm", "s1"}, 1, file},
	} {
		code, _, said := runCommand(t, c.dir, []byte(c.stdin), c.args...)
		if code != c.code || !strings.Contains(said, c.says) {
			t.Errorf("%q: exit %d, %q, want %d and %q", c.args, code, said, c.code, c.says)
		}
	}
	if _, err := os.Lstat(empty); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a command that failed left the directory: %v", err)
	}
}

// Files of a volume are only moved for a verification, and never out of it.
func TestMoveFileIsForVerifications(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, said := runCommand(t, dir, nil, "volume", "move", "file", "away"); code != 2 {
		t.Errorf("outside a verification: exit %d, %s", code, said)
	}
	nonce := []string{"FLISK_VERIFY=0123456789abcdef0123456789abcdef"}
	if code, _, said := runCommandWith(t, nonce, dir, nil, "volume", "move", "file", "../away"); code != 1 {
		t.Errorf("out of the volume: exit %d, %s", code, said)
	}
	if _, err := os.Stat(file); err != nil {
		t.Fatal(err)
	}
	if code, _, said := runCommandWith(t, nonce, dir, nil, "volume", "move", "file", "away"); code != 0 {
		t.Errorf("exit %d, %s", code, said)
	}
	if _, err := os.Stat(filepath.Join(dir, "away")); err != nil {
		t.Error(err)
	}
}
