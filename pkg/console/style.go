package console

import (
	"strings"

	"charm.land/lipgloss/v2"
)

// Style is how a piece of text stands out. There are few on purpose: a screen
// is read by its alignment first.
type Style int

// The styles.
const (
	Plain  Style = iota
	Strong       // what a line is about
	Quiet        // meta data, labels, explanations
	Accent       // something to type or to open
	Good         // done, ready, held
	Warn         // works, but look at it
	Bad          // failed
)

// Render wraps each line of text in the style's sequences.
func (s Style) Render(text string) string {
	style := lipgloss.NewStyle()
	switch s {
	case Strong:
		style = style.Bold(true)
	case Quiet:
		style = style.Faint(true)
	case Accent:
		style = style.Foreground(lipgloss.Cyan)
	case Good:
		style = style.Foreground(lipgloss.Green)
	case Warn:
		style = style.Foreground(lipgloss.Yellow)
	case Bad:
		style = style.Foreground(lipgloss.Red).Bold(true)
	default:
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if line != "" {
			lines[i] = style.Render(line)
		}
	}
	return strings.Join(lines, "\n")
}
