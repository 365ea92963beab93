package project

import (
	"fmt"
	"strings"

	"github.com/flisk-go/flisk/pkg/fault"
)

// didYouMean is `; did you mean "x"?` for the nearest of the known words, or
// `; known here: …` when none is near enough to be meant.
func didYouMean(word string, known []string) string {
	if best := fault.Nearest(word, known); best != "" {
		return fmt.Sprintf("; did you mean %q?", best)
	}
	return "; known here: " + strings.Join(known, ", ")
}
