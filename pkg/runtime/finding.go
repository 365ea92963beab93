package runtime

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/stack"
)

// Finding is one thing that was looked at because Up depends on it.
type Finding struct {
	Subject string // "port", "volume"
	Level   Level
	Text    string // what was found, for people
	Hint    string // how to mend it; "" when it is fine
}

// Level says what a finding means for Up.
type Level string

// The levels of a finding.
const (
	Fine     Level = "fine"
	Doubtful Level = "doubtful" // Up works, but look at it
	Blocking Level = "blocking" // Up would fail
)

// ExamineEnv looks at the env files of a stack's agents, each once, however many
// agents have it.
func ExamineEnv(s stack.Stack) Finding {
	f := Finding{Subject: "env files", Level: Fine}
	var files []string
	for _, a := range s.Agents {
		if _, err := project.LoadEnv(s.Dir, a.EnvFiles); err != nil {
			f.Level, f.Text = Blocking, err.Error()
			if said, ok := errors.AsType[*fault.Fault](err); ok {
				f.Text, f.Hint = said.Message, said.Hint
			}
			return f
		}
		for _, file := range a.EnvFiles {
			if _, err := os.Stat(file); err != nil {
				continue
			}
			if rel, err := filepath.Rel(s.Dir, file); err == nil {
				file = filepath.ToSlash(rel)
			}
			if !slices.Contains(files, file) {
				files = append(files, file)
			}
		}
	}
	if f.Text = "there are none, and there need not be"; len(files) > 0 {
		f.Text = fmt.Sprintf("%s can be read", strings.Join(files, ", "))
	}
	return f
}
