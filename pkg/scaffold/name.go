package scaffold

import (
	"crypto/rand"
	"encoding/hex"
	"strings"

	"github.com/flisk-go/flisk/pkg/project"
)

// ProjectName makes a project's name of a directory's: ASCII letters in lower
// case and digits stay, everything between them becomes one "-". A directory
// with neither gets "agent-" and six random hexadecimal digits.
func ProjectName(directory string) string {
	var name strings.Builder
	for _, r := range directory {
		switch {
		case r >= 'A' && r <= 'Z':
			r += 'a' - 'A'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
		default:
			if !strings.HasSuffix(name.String(), "-") {
				name.WriteByte('-')
			}
			continue
		}
		name.WriteRune(r)
	}
	trimmed := strings.Trim(name.String(), "-")
	trimmed = strings.TrimRight(trimmed[:min(len(trimmed), project.MaxName)], "-")
	if trimmed == "" {
		return "agent-" + randomHex(3)
	}
	return trimmed
}

// randomHex returns two digits for each of n random bytes.
func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
