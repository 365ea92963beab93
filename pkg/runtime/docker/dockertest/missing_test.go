package dockertest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// verdict is a test that notes how it ended, and goes on.
type verdict struct {
	testing.TB
	skipped, failed string
}

func (*verdict) Helper()                          {}
func (v *verdict) Fatalf(format string, a ...any) { v.failed += fmt.Sprintf(format, a...) }
func (v *verdict) Skipf(format string, a ...any)  { v.skipped += fmt.Sprintf(format, a...) }

func TestMissing(t *testing.T) {
	reason := errors.New("no image traefik")
	for _, must := range []string{"", "0", "1"} {
		t.Setenv("FLISK_TEST_DOCKER", must)
		// A test ends with its first verdict, so only that one counts.
		var v verdict
		Missing(&v, reason)
		if failed := strings.Contains(v.failed, "no image traefik"); failed != (must == "1") {
			t.Errorf("with %q it fails with %q", must, v.failed)
		}
		if must != "1" && !strings.Contains(v.skipped, "no image traefik (FLISK_TEST_DOCKER=1") {
			t.Errorf("with %q it is skipped with %q", must, v.skipped)
		}
	}
}
