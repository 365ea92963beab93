package turn

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// Limits of the names in this contract, in bytes.
const (
	MaxSessionID = 128
	MaxKey       = 128
	MaxAgent     = 20
)

// Reasons why a name is refused. They are wrapped with the rule that was
// broken, and never with the name itself: it may be 5,000 characters long.
var (
	ErrSessionID = errors.New("invalid session id")
	ErrKey       = errors.New("invalid turn key")
)

// CheckSessionID returns nil for 1 to 128 characters of A-Z a-z 0-9 . _ ~ : @ +
// = and -, the first one a letter or a digit, and otherwise an error that wraps
// [ErrSessionID]. Ids are compared byte for byte: "A" and "a" are two sessions.
func CheckSessionID(id string) error {
	if id == "" {
		return fmt.Errorf("%w: it is empty", ErrSessionID)
	}
	if len(id) > MaxSessionID {
		return fmt.Errorf("%w: it has %d characters, at most %d are allowed", ErrSessionID, len(id), MaxSessionID)
	}
	if !alphanumeric(id[0]) {
		return fmt.Errorf("%w: the first character must be a letter or a digit", ErrSessionID)
	}
	for i := range len(id) {
		if c := id[i]; !alphanumeric(c) && !strings.ContainsRune("._~:@+=-", rune(c)) {
			return fmt.Errorf("%w: character %d is not one of A-Z a-z 0-9 . _ ~ : @ + = -", ErrSessionID, i+1)
		}
	}
	return nil
}

func alphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}

// ParseKey returns the turn key in the value of [HeaderKey]: 1 to 128 printable
// ASCII characters, either bare or as a quoted string in which only \" and \\
// are escaped. A bare key and the same key in quotes are one key. Any other
// value is an error that wraps [ErrKey].
func ParseKey(value string) (string, error) {
	key := strings.Trim(value, " \t")
	if strings.HasPrefix(key, `"`) {
		var err error
		if key, err = unquote(key); err != nil {
			return "", err
		}
	}
	return key, CheckKey(key)
}

// CheckKey returns nil for a key that [ParseKey] could return.
func CheckKey(key string) error {
	if key == "" {
		return fmt.Errorf("%w: it is empty", ErrKey)
	}
	if len(key) > MaxKey {
		return fmt.Errorf("%w: it has %d characters, at most %d are allowed", ErrKey, len(key), MaxKey)
	}
	for i := range len(key) {
		if key[i] < ' ' || key[i] > '~' {
			return fmt.Errorf("%w: character %d is not printable ASCII", ErrKey, i+1)
		}
	}
	return nil
}

func unquote(s string) (string, error) {
	var out strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			if i != len(s)-1 {
				return "", fmt.Errorf("%w: something follows the closing quote", ErrKey)
			}
			return out.String(), nil
		case '\\':
			i++
			if i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", fmt.Errorf(`%w: only \" and \\ may be escaped`, ErrKey)
			}
		}
		out.WriteByte(s[i])
	}
	return "", fmt.Errorf("%w: the closing quote is missing", ErrKey)
}

// QuoteKey writes a key as [HeaderKey] carries it: always quoted, so that
// leading and trailing spaces survive.
func QuoteKey(key string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
}

// NewSessionID returns a new session id of 128 random bits.
func NewSessionID() string { return randomHex() }

// NewKey returns a new turn key of 128 random bits.
func NewKey() string { return randomHex() }

func randomHex() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // documented never to fail: it crashes the process instead
	return hex.EncodeToString(b[:])
}

// DeriveSessionID returns the id of the session that a first turn opens when it
// has a turn key and no session id. The same secret, agent and key give the
// same id, so a retry finds its session; without the volume's secret nobody can
// guess one from a key.
func DeriveSessionID(secret []byte, agent, key string) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(agent + "\x00" + key))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// ValidAgent reports whether name can name an agent: 1 to 20 characters of a-z
// 0-9 and -, beginning with a letter and not ending in -. Short enough for
// every DNS name and socket path that is made of it.
func ValidAgent(name string) bool {
	if name == "" || len(name) > MaxAgent || name[0] < 'a' || name[0] > 'z' || name[len(name)-1] == '-' {
		return false
	}
	for i := range len(name) {
		if c := name[i]; c != '-' && !(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') {
			return false
		}
	}
	return true
}
