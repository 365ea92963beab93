package console

import (
	"slices"
	"strings"
)

// Shrink says what gives way when there are too few columns.
type Shrink int

// The ways to shrink.
const (
	Never  Shrink = iota // numbers, short words
	Middle               // ids and paths: both ends say something
	End                  // sentences
	Drop                 // what a row is understood without: left out, the last one first, so that Middle stays whole
	Wrap                 // sentences that must stay whole: in the last column, over several lines
)

// Cell is a piece of text in one style. Its text may be foreign.
type Cell struct {
	Text  string
	Style Style
}

// Column is one column of a [Table].
type Column struct {
	Title  string
	Right  bool // aligned to the right, for numbers
	Shrink Shrink
}

// Table is rows under titles. Every row has a cell for each column.
type Table struct {
	Columns []Column
	Rows    [][]Cell
}

const (
	gap     = 2  // columns between two columns
	minimum = 8  // what a shrinking column keeps, if it can
	spared  = 36 // what an id keeps at the cost of columns that can be left out: a UUID
)

// Table prints a table. Where the output has a width, no line is wider: columns
// that can be left out give way first, then the widest ones that may shrink.
func (o *Output) Table(t Table) {
	widths := make([]int, len(t.Columns))
	rows := make([][]Cell, len(t.Rows))
	for i, column := range t.Columns {
		widths[i] = Width(column.Title)
	}
	for r, row := range t.Rows {
		rows[r] = make([]Cell, len(row))
		for i, cell := range row {
			rows[r][i] = Cell{Line(cell.Text), cell.Style}
			widths[i] = max(widths[i], Width(rows[r][i].Text))
		}
	}
	columns := t.Columns
	if limit := o.Columns(); limit > 0 {
		kept := leaveOut(widths, columns, limit)
		columns, widths = pick(columns, kept), pick(widths, kept)
		for r := range rows {
			rows[r] = pick(rows[r], kept)
		}
		shrink(widths, columns, limit-gap*(len(widths)-1))
	}

	var out strings.Builder
	titles := make([]Cell, len(columns))
	for i, column := range columns {
		titles[i] = Cell{column.Title, Quiet}
	}
	writeRow(&out, titles, columns, widths)
	for _, row := range rows {
		writeRow(&out, row, columns, widths)
	}
	_, _ = o.Write([]byte(out.String())) // Failed tells
}

// leaveOut returns which columns stay. One that can be left out goes when that
// helps the ids: when they are whole without all of these, or would be cut to
// less than what is spared. Ids that are too long for the terminal in any case
// cost no column.
func leaveOut(widths []int, columns []Column, limit int) []int {
	var kept, least []int
	longest := 0
	for i, column := range columns {
		kept = append(kept, i)
		if column.Shrink != Drop {
			least = append(least, i)
		}
		if column.Shrink == Middle {
			longest = max(longest, widths[i])
		}
	}
	excess := func(of []int) int {
		sum := gap * (len(of) - 1)
		for _, i := range of {
			sum += widths[i]
		}
		return sum - limit
	}
	for excess(kept) > 0 && len(kept) > len(least) && (excess(least) <= 0 || longest-excess(kept) < spared) {
		last := 0
		for at, i := range kept {
			if columns[i].Shrink == Drop {
				last = at
			}
		}
		kept = slices.Delete(kept, last, last+1)
	}
	return kept
}

func pick[T any](of []T, kept []int) []T {
	out := make([]T, len(kept))
	for at, i := range kept {
		out[at] = of[i]
	}
	return out
}

// shrink takes columns from the widest that may give way until the sum fits.
func shrink(widths []int, columns []Column, room int) {
	sum := 0
	for _, w := range widths {
		sum += w
	}
	for ; sum > room; sum-- {
		widest := -1
		for i, column := range columns {
			if column.Shrink == Never || column.Shrink == Drop || widths[i] <= max(minimum, Width(column.Title)) {
				continue
			}
			if widest < 0 || widths[i] > widths[widest] {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}

func writeRow(out *strings.Builder, row []Cell, columns []Column, widths []int) {
	var line strings.Builder
	before := 0 // columns on the left of a cell
	for i, cell := range row {
		text := fit(cell.Text, widths[i], columns[i].Shrink)
		if columns[i].Shrink == Wrap && i == len(row)-1 {
			text = Fold(text, before+widths[i], strings.Repeat(" ", before))
		}
		before += widths[i] + gap
		pad := strings.Repeat(" ", max(0, widths[i]-Width(text)))
		if i > 0 {
			line.WriteString(strings.Repeat(" ", gap))
		}
		switch styled := cell.Style.Render(text); {
		case columns[i].Right:
			line.WriteString(pad + styled)
		case i == len(row)-1:
			line.WriteString(styled)
		default:
			line.WriteString(styled + pad)
		}
	}
	out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
}

func fit(text string, columns int, how Shrink) string {
	switch how {
	case Middle:
		return Elide(text, columns)
	case End:
		return Cut(text, columns)
	default:
		return text
	}
}

// Field is a labelled value. A value that is too wide shrinks as it says, and
// one that never shrinks is folded under itself.
type Field struct {
	Label  string
	Value  Cell
	Shrink Shrink
}

// Fields prints labelled values with the values aligned.
func (o *Output) Fields(fields ...Field) {
	label := 0
	for _, f := range fields {
		label = max(label, Width(f.Label))
	}
	indent := strings.Repeat(" ", label+gap)
	var out strings.Builder
	for _, f := range fields {
		text := Line(f.Value.Text)
		if limit := o.Columns(); limit > 0 {
			text = fit(text, max(minimum, limit-len(indent)), f.Shrink)
			text = Fold(text, limit, indent)
		}
		pad := strings.Repeat(" ", label-Width(f.Label)+gap)
		out.WriteString(Quiet.Render(f.Label) + pad + f.Value.Style.Render(text) + "\n")
	}
	_, _ = o.Write([]byte(out.String())) // Failed tells
}
