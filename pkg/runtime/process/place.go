package process

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/flisk-go/flisk/pkg/runtime/memory"
	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/turn"
)

// maxSocketPath is what the smallest sun_path (macOS, 104 bytes) holds beside
// its final NUL.
const maxSocketPath = 103

// maxPID is the largest process id of Linux; macOS has smaller ones.
const maxPID = 1 << 22

// DefaultHome is where flisk keeps volumes, logs and built programs: FLISK_HOME,
// or the platform's place for an application's data.
func DefaultHome(getenv func(string) string) (string, error) {
	if dir := getenv("FLISK_HOME"); dir != "" {
		return filepath.Abs(dir)
	}
	home := getenv("HOME")
	if home == "" {
		return "", errors.New("neither FLISK_HOME nor HOME is set")
	}
	if runtime.GOOS == "darwin" {
		return filepath.Join(home, "Library", "Application Support", "flisk"), nil
	}
	if dir := getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) { // the XDG specification: ignore a relative one
		return filepath.Join(dir, "flisk"), nil
	}
	return filepath.Join(home, ".local", "share", "flisk"), nil
}

// DefaultRunBase is where run directories are: FLISK_RUN_DIR, or the user's
// runtime directory, or one below /tmp that carries the user id.
func DefaultRunBase(getenv func(string) string) (string, error) {
	if dir := getenv("FLISK_RUN_DIR"); dir != "" {
		return filepath.Abs(dir)
	}
	if dir := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "flisk"), nil
	}
	return "/tmp/flisk-" + strconv.Itoa(os.Getuid()), nil
}

// place is every path that belongs to one project on this machine. It is what
// the driver and the supervisor must agree on.
type place struct {
	base   string // the parent of the run directory
	run    string // sockets and records; exists only while something runs
	logs   string // survives down
	build  string // programs, named by their source hash
	volume string // conversations
	lock   string // held during up and down
}

func placeOf(home, runBase string, s stack.Stack) place {
	key := memory.Key(s.ID, s.Instance)
	sum := sha256.Sum256([]byte(filepath.Clean(home) + "\x00" + s.ID + "\x00" + s.Instance))
	return place{
		base:   runBase,
		run:    filepath.Join(runBase, hex.EncodeToString(sum[:6])),
		logs:   filepath.Join(home, "logs", key),
		build:  filepath.Join(home, "build", key),
		volume: filepath.Join(home, "volumes", s.Volume.Name),
		lock:   filepath.Join(home, "projects", key+".lock"),
	}
}

// Names inside a run directory.
const (
	controlSocket  = "control.sock"
	settingsFile   = "settings.json"   // what the supervisor is started with
	supervisorFile = "supervisor.json" // its record, once it runs
	supervisorCopy = "flisk"
	recordSuffix   = ".json"
	socketSuffix   = ".sock"
)

// program is where an agent's program is built.
func (p place) program(agent, code string) string { return filepath.Join(p.build, agent+"-"+code) }

func (p place) control() string { return filepath.Join(p.run, controlSocket) }

// incarnation names one process of a replica, and its files: no two processes
// share a name, so that a socket is never mistaken for its predecessor's, nor
// removed by it. The supervisor's process id is for what one leaves whose run
// directory was removed under it.
func incarnation(supervisor int, replica string, generation, restart int) string {
	return fmt.Sprintf("%s.%d.%d.%s", replica, generation, restart, strconv.FormatInt(int64(supervisor), 36)) // socket names are short
}

func (p place) longestSocket() string {
	name := strings.Repeat("a", turn.MaxAgent) + "-99"
	return filepath.Join(p.run, incarnation(maxPID, name, 9999, 9999)+socketSuffix)
}

func (p place) agentLog(agent string) string { return filepath.Join(p.logs, agent+logSuffix) }

const logSuffix = ".log"

// supervisorLog has a name that no agent's log can have.
func (p place) supervisorLog() string { return filepath.Join(p.logs, "_supervisor"+logSuffix) }

// loggedAgents are the agents that ever wrote a log.
func (p place) loggedAgents() ([]string, error) {
	files, err := os.ReadDir(p.logs)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, file := range files {
		if name, ok := strings.CutSuffix(file.Name(), logSuffix); ok && turn.ValidAgent(name) {
			names = append(names, name)
		}
	}
	return names, nil
}
