package runtime

import (
	"errors"
	"fmt"
	"sync"
	"testing"
)

func TestPlanIsDoneInGroups(t *testing.T) {
	t.Parallel()
	plan := Plan{{Do: Build, Agent: "a"}, {Do: Start, Agent: "a"}, {Do: Start, Agent: "b"}, {Do: Await, Agent: "a"}, {Do: Start, Agent: "c"}}
	for name, c := range map[string]struct {
		fails Action
		want  string
	}{
		"whole":           {"", " build:1 start:2 await:1 start:1"},
		"until one fails": {Await, " build:1 start:2 await:1"},
	} {
		done, failed := "", errors.New("no")
		err := plan.Do(func(steps []Step) error {
			done += fmt.Sprintf(" %s:%d", steps[0].Do, len(steps))
			if steps[0].Do == c.fails {
				return failed
			}
			return nil
		})
		if done != c.want || errors.Is(err, failed) != (c.fails != "") {
			t.Errorf("%s: did%s, %v", name, done, err)
		}
	}
}

// TestTogether: each step waits for all others to have begun, and the first in
// the plan, not the first in time, names the error.
func TestTogether(t *testing.T) {
	t.Parallel()
	steps := []Step{{Agent: "a"}, {Agent: "b"}, {Agent: "c"}}
	var begun sync.WaitGroup
	begun.Add(len(steps))
	last := make(chan bool)
	err := Together(steps, func(s Step) error {
		begun.Done()
		begun.Wait()
		if s.Agent == "c" {
			close(last)
			return errors.New("c")
		}
		<-last
		if s.Agent == "b" {
			return errors.New("b")
		}
		return nil
	})
	if err == nil || err.Error() != "b" {
		t.Errorf("got %v", err)
	}
}
