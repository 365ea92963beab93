package checkpoint

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

// Names in a volume, below its root.
const (
	volumeName    = "VOLUME"
	agentsDir     = "a"
	sessionsDir   = "s"
	locksDir      = "lock"
	replicasDir   = "replica"
	openDir       = "open"
	badDir        = "bad"
	sessionSuffix = ".jsonl"
	lockSuffix    = ".lock"
	tempSuffix    = ".tmp"
)

// nameLength is the length of a session's name.
const nameLength = 32

// nameLetters are what it is made of: base32 in lower case.
const nameLetters = "abcdefghijklmnopqrstuvwxyz234567"

var nameEncoding = base32.NewEncoding(nameLetters)

// fileName is the name that a session's files carry: never a path, never too
// long, and another one for ids that differ only in case, also where the file
// system cannot tell those apart.
func fileName(id string) string {
	sum := sha256.Sum256([]byte(id))
	return nameEncoding.EncodeToString(sum[:20])
}

// validName reports whether a name could come from fileName.
func validName(name string) bool {
	return len(name) == nameLength && strings.Trim(name, nameLetters) == ""
}

// sessionOfTurn returns the session's name in the id of a turn.
func sessionOfTurn(turnID string) (name string, ok bool) {
	name, n, ok := strings.Cut(turnID, "-")
	return name, ok && validName(name) && n != "" && strings.Trim(n, "0123456789") == ""
}

// identity says whose a session file is.
type identity struct {
	volume, agent string
	name          string // of the file
	session       string // its id; "" when only the file is known
}

func (w identity) dir() string { return agentsDir + "/" + w.agent }

func (w identity) shard(sub string) string { return w.dir() + "/" + sub + "/" + w.name[:2] }

func (w identity) path() string { return w.shard(sessionsDir) + "/" + w.name + sessionSuffix }

func (w identity) temp() string { return w.shard(sessionsDir) + "/." + w.name + tempSuffix }

func (w identity) lock() string { return w.shard(locksDir) + "/" + w.name + lockSuffix }

func (w identity) damaged(reason string) *DamagedError {
	return &DamagedError{Session: w.session, Path: w.path(), Reason: reason}
}

func (w identity) newer(reason string) *DamagedError {
	return &DamagedError{Session: w.session, Path: w.path(), Reason: reason, Newer: true}
}
