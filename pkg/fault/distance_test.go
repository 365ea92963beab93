package fault

import "testing"

func TestEditDistance(t *testing.T) {
	t.Parallel()
	for pair, want := range map[[2]string]int{{"", ""}: 0, {"ab", "ba"}: 1, {"kitten", "sitting"}: 3, {"", "abc"}: 3, {"ünü", "unu"}: 2} {
		if got := editDistance(pair[0], pair[1]); got != want {
			t.Errorf("distance of %q: %d, want %d", pair, got, want)
		}
	}
}
