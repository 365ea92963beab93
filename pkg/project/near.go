package project

import (
	"fmt"
	"strings"
)

// didYouMean is `; did you mean "x"?` for the nearest of the known words, or
// `; known here: …` when none is near enough to be meant.
func didYouMean(word string, known []string) string {
	if best := nearest(word, known); best != "" {
		return fmt.Sprintf("; did you mean %q?", best)
	}
	return "; known here: " + strings.Join(known, ", ")
}

// nearest is the known word that was probably meant, or "".
func nearest(word string, known []string) string {
	best, distance := "", len(word)/3+1 // one slip in a short word, more in a long one
	plain := func(s string) string { return strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(s)) }
	for _, k := range known {
		if d := editDistance(plain(word), plain(k)); d < distance || d == distance && best == "" {
			best, distance = k, d
		}
	}
	return best
}

// editDistance counts the insertions, deletions, replacements and swaps of
// neighbours that make b of a.
func editDistance(a, b string) int {
	s, t := []rune(a), []rune(b)
	// Three rows of the usual table: a swap looks two rows back.
	before, last, row := make([]int, len(t)+1), make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range last {
		last[j] = j
	}
	for i := range s {
		row[0] = i + 1
		for j := range t {
			cost := 1
			if s[i] == t[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && s[i] == t[j-1] && s[i-1] == t[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(t)]
}
