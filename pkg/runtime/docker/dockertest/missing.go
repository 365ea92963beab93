package dockertest

import (
	"os"
	"testing"
)

// Missing ends a test that needs a real engine, or the gateway's image on it: with
// FLISK_TEST_DOCKER=1 all of that must be there, and the test fails; else it is
// skipped with the reason. No test pulls. It is the one rule of every package.
func Missing(t testing.TB, reason error) {
	t.Helper()
	if os.Getenv("FLISK_TEST_DOCKER") == "1" {
		t.Fatalf("FLISK_TEST_DOCKER=1, and this test cannot run: %v", reason)
	}
	t.Skipf("%v (FLISK_TEST_DOCKER=1 makes that a failure)", reason)
}
