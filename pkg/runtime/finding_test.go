package runtime

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/flisk-go/flisk/pkg/stack"
)

// TestExamineEnv: a file that two agents have is one file, and one that is not
// there is none.
func TestExamineEnv(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	shared, own, bad := write(".env", "A=1"), write("shop/own.env", "B=1"), write("bad.env", "C=1\ns3cret key")
	none := filepath.Join(dir, "none.env")
	for name, c := range map[string]struct {
		agents [][]string
		want   Finding
	}{
		"none":   {[][]string{{none}, nil}, Finding{"env files", Fine, "there are none, and there need not be", ""}},
		"shared": {[][]string{{shared}, {shared, none}}, Finding{"env files", Fine, ".env can be read", ""}},
		"both":   {[][]string{{shared}, {own, shared}}, Finding{"env files", Fine, ".env, shop/own.env can be read", ""}},
		"bad": {[][]string{{shared}, {bad}}, Finding{"env files", Blocking, "bad.env:2: this line is not NAME=value",
			"write one NAME=value a line, in UTF-8; a value of several lines needs quotes"}},
	} {
		s := stack.Stack{Dir: dir}
		for _, files := range c.agents {
			s.Agents = append(s.Agents, stack.Agent{EnvFiles: files})
		}
		if got := ExamineEnv(s); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
