package checkpoint

import (
	"os"
	"syscall"
	"testing"
)

// blocks is how much disk a file takes, in bytes.
func blocks(t *testing.T, name string) int64 {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Blocks * 512
}
