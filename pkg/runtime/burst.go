package runtime

import (
	"fmt"
	"time"
)

// calm is how long a process lives whose end has nothing to do with the end of
// the one before it.
const calm = 10 * time.Second

// spoken is how many ends of a burst are told one by one. From then on only the
// 10th, the 100th … is: nothing pauses between starts of what had been ready, and
// a line for each would drown what the agent says.
const spoken = 3

// Burst counts ends in a row of a replica that gets ready and soon ends, for what
// its log is told of them. The zero value is none.
type Burst struct {
	ends int
	exit string
}

// Ended takes the end of a process that had been ready, and returns what shall be
// said of it, if anything.
func (b *Burst) Ended(exit string, lived time.Duration) string {
	if lived >= calm || exit != b.exit {
		*b = Burst{exit: exit}
	}
	b.ends++
	switch {
	case b.ends < spoken:
		return "ended (" + exit + ")"
	case b.ends == spoken:
		return fmt.Sprintf("ended (%s), %d times in a row soon after it was ready, and not every further time is told", exit, spoken)
	}
	for n := b.ends; n%10 == 0; n /= 10 {
		if n == 10 {
			return fmt.Sprintf("ended (%s), %d times in a row soon after it was ready", exit, b.ends)
		}
	}
	return ""
}
