package runtime

import (
	"slices"
	"testing"
	"time"
)

func TestBurstIsToldOnceInAWhile(t *testing.T) {
	t.Parallel()
	var b Burst
	told := func(n int, exit string, lived time.Duration) (at []int) {
		for i := range n {
			if b.Ended(exit, lived) != "" {
				at = append(at, i+1)
			}
		}
		return at
	}
	if at := told(1050, "exit code 1", time.Second); !slices.Equal(at, []int{1, 2, 3, 10, 100, 1000}) {
		t.Errorf("told of the ends %v", at)
	}
	if at := told(4, "exit code 2", time.Second); !slices.Equal(at, []int{1, 2, 3}) {
		t.Errorf("told of the ends %v that are others", at)
	}
	if at := told(5, "exit code 2", calm); len(at) != 5 {
		t.Errorf("told of the ends %v after long lives", at)
	}
	b = Burst{exit: "x", ends: 9}
	if got, want := b.Ended("x", 0), "ended (x), 10 times in a row soon after it was ready"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}
