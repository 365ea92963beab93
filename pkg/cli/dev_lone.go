package cli

import (
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/source"
)

// lone finds out that the same file alone is saved again and again, which a
// program does more often than a person. The zero value has seen none.
type lone struct {
	name  string
	times int
}

// manyTimes in a row are worth a hint.
const manyTimes = 3

// saved takes what one change was about, and returns the file when it was that
// often. Settings and what the go command reads are people's.
func (l *lone) saved(files []source.Change) string {
	if len(files) == 0 {
		return ""
	}
	f := files[0]
	if len(files) > 1 || f.Op == source.Removed || byHand(f) {
		*l = lone{}
		return ""
	}
	if f.Path != l.name {
		*l = lone{name: f.Path}
	}
	if l.times++; l.times == manyTimes {
		return f.Path
	}
	return ""
}

// writtenByAgent is the hint.
func writtenByAgent(name string) error {
	return fault.New(fault.Failed, "if the agent writes it: watch: {ignore: ["+name+"]} in flisk.yaml", "%s alone changed three times in a row", name)
}
