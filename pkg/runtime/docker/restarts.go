package docker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The engine counts the starts that it makes itself, and begins at 0 again when
// somebody starts a container: after each kill of flisk's, that is. What the
// count was, and the kill, is added to a file, a line each, so that restarts are
// counted as they are for local processes. Two writers at once lose nothing.

// countKill notes a kill of a container, which the engine had started again
// itself so often.
func (p place) countKill(id string, restarts int) error {
	if err := os.MkdirAll(filepath.Dir(p.kills), userOnly); err != nil {
		return err
	}
	f, err := os.OpenFile(p.kills, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s %d\n", id, restarts+1)
	return errors.Join(err, f.Close())
}

// counted are the restarts that the engine does not know of any more, by
// container.
func (p place) counted() (map[string]int, error) {
	content, err := os.ReadFile(p.kills)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	restarts := map[string]int{}
	for line := range strings.Lines(string(content)) {
		var id string
		var n int
		if _, err := fmt.Sscanf(line, "%s %d\n", &id, &n); err == nil { // else a full disk cut it
			restarts[id] += n
		}
	}
	return restarts, nil
}
