package watch

import (
	"os"
	"path/filepath"
	"strings"
	"time"
)

// findGit returns the git directory of the repository that dir is in, or "".
func findGit(dir string) string {
	for at := dir; ; at = filepath.Dir(at) {
		name := filepath.Join(at, ".git")
		if info, err := os.Stat(name); err == nil {
			if info.IsDir() {
				return name
			}
			// Of a second worktree it is a file that says where the directory is.
			content, err := os.ReadFile(name)
			target, ok := strings.CutPrefix(strings.TrimSpace(string(content)), "gitdir: ")
			switch {
			case err != nil || !ok:
				return ""
			case filepath.IsAbs(target):
				return target
			}
			return filepath.Join(at, target)
		}
		if at == filepath.Dir(at) {
			return ""
		}
	}
}

// gitBusy reports whether git is changing the files: it holds a lock during a
// checkout, which may pause for longer than an editor does. A lock that is older
// than any change lasts was left by a git that was killed.
func (w *Watcher) gitBusy() bool {
	if w.gitDir == "" {
		return false
	}
	info, err := os.Stat(filepath.Join(w.gitDir, "index.lock"))
	return err == nil && time.Since(info.ModTime()).Abs() < Many
}
