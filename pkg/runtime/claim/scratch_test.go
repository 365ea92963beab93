package claim

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// scratchParent tells a process that is to be killed where it makes its directory.
const scratchParent = "FLISK_TEST_SCRATCH"

// TestScratchOwner is that process, and no test otherwise.
func TestScratchOwner(t *testing.T) {
	parent := os.Getenv(scratchParent)
	if parent == "" {
		return
	}
	dir, _, err := Scratch(parent)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(dir)
	select {} // until it is killed
}

// TestScratchOfAKilledProcess is removed by the next one that makes a directory,
// and that of a living one is not.
func TestScratchOfAKilledProcess(t *testing.T) {
	t.Parallel()
	parent := filepath.Join(t.TempDir(), "copies")
	owner := exec.Command(os.Args[0], "-test.run=^TestScratchOwner$")
	owner.Env = append(os.Environ(), scratchParent+"="+parent)
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	theirs := strings.TrimSpace(line)

	mine, release, err := Scratch(parent)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{theirs, mine} {
		if err := os.WriteFile(filepath.Join(dir, "said"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait() // it says that it was killed
	if err := ClearScratch(parent); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(theirs); !os.IsNotExist(err) {
		t.Errorf("what a killed process left is there: %v", err)
	}
	if _, err := os.Stat(mine); err != nil {
		t.Errorf("what is in use is not there: %v", err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
