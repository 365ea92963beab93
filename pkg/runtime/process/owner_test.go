package process

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"github.com/flisk-go/flisk/pkg/internal/proc"
)

// A stack that has an owner ends with it, also when nobody asks for that.
func TestStackEndsWithItsOwner(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	held, owner, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	r.o.Owner = held
	r.up()
	r.mustTurn("bot", "")
	agent, err := proc.Identify(r.replica().PID)
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the run directory to be gone", func() bool {
		_, err := os.Lstat(r.place().run)
		return errors.Is(err, fs.ErrNotExist)
	})
	mustBeGone(t, agent)
}
