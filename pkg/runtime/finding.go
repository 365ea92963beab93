package runtime

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
