package turn

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Point is a named place on a turn's path at which a prover can make an agent
// wait, so that it can be killed exactly there.
type Point string

// The points of a turn, in the order in which a turn passes them.
const (
	PointAccepted Point = "accepted"       // the request was read; nothing is written
	PointBegun    Point = "begun"          // begin and attempt are written, not synced
	PointReturned Point = "returned"       // runTurn returned; nothing is committed
	PointWritten  Point = "commit-written" // the commit line is written, not synced
	PointSynced   Point = "commit-synced"  // the commit is durable; no mark yet
	PointMarked   Point = "marked"         // the mark is written; no reply yet
	PointReplied  Point = "replied"        // the reply was written
)

// Points lists all points in order.
func Points() []Point {
	return []Point{PointAccepted, PointBegun, PointReturned, PointWritten, PointSynced, PointMarked, PointReplied}
}

// MaxHold bounds every hold: a forgotten one must not stop an agent for ever.
const MaxHold = 60 * time.Second

// Hold is a parsed [HeaderHold].
type Hold struct {
	Point Point
	For   time.Duration // at most MaxHold
}

// ParseHold reads "<nonce>:<point>[:<ms>]". It reports false, and the request
// is served as if the header were absent, when nonce is empty (no verification
// is running) or differs. With the right nonce a bad point or time is an error:
// a prover that asks for something else than it gets would prove nothing.
func ParseHold(value, nonce string) (hold Hold, ok bool, err error) {
	got, rest, _ := strings.Cut(value, ":")
	if nonce == "" || got != nonce {
		return Hold{}, false, nil
	}
	point, ms, timed := strings.Cut(rest, ":")
	hold = Hold{Point: Point(point), For: MaxHold}
	if !slices.Contains(Points(), hold.Point) {
		return Hold{}, false, fmt.Errorf("unknown hold point %q", point)
	}
	if timed {
		n, err := strconv.ParseUint(ms, 10, 31)
		if err != nil {
			return Hold{}, false, fmt.Errorf("hold time %q is not a whole number of milliseconds", ms)
		}
		hold.For = min(MaxHold, time.Duration(n)*time.Millisecond)
	}
	return hold, true, nil
}
