package fault

import "strings"

// Nearest is the known word that was probably meant by a mistyped one: one that
// begins with it, or differs by few slips; "" when there is none. Case, hyphens
// and underscores do not count.
func Nearest(word string, known []string) string {
	plain := strings.NewReplacer("-", "", "_", "")
	word = plain.Replace(strings.ToLower(word))
	best, least := "", max(2, len(word)/3)+1
	for _, k := range known {
		candidate := plain.Replace(strings.ToLower(k))
		if len(word) > 1 && strings.HasPrefix(candidate, word) {
			return k
		}
		if d := editDistance(word, candidate); d < least && d < len(candidate) {
			best, least = k, d
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
