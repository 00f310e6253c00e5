package lineproto

import (
	"fmt"
	"strings"
)

// LineError is a line that was not added to the batch.
type LineError struct {
	Line   string // without leading blanks and the newline
	Reason string // InfluxDB's text
}

// Error returns the text InfluxDB answers for the line.
func (e *LineError) Error() string { return "unable to parse '" + e.Line + "': " + e.Reason }

// Errors reports the lines of a body that were not added to the batch.
type Errors struct {
	// Bad are the lines that do not parse, in the order of the body. Texts
	// are kept up to Options.MaxErrorBytes; BadLines counts all.
	Bad      []LineError
	BadLines int

	// Refused counts points that parse but cannot be stored whatever the
	// database holds: a field that occurs twice with different types, a
	// string that a batch cannot represent, or a name that line protocol cannot
	// give back. They are dropped points of a partial write; RefusedReason is the
	// first one's text.
	Refused       int
	RefusedReason string

	kept int // bytes of Bad
}

// Error returns the texts of the bad lines, one a line, as InfluxDB answers
// them; without bad lines the reason of the first refused point.
func (e *Errors) Error() string {
	if e.BadLines == 0 {
		return e.RefusedReason
	}
	var b strings.Builder
	for i := range e.Bad {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(e.Bad[i].Error())
	}
	if more := e.BadLines - len(e.Bad); more > 0 {
		fmt.Fprintf(&b, "\nand %d more lines", more)
	}
	return b.String()
}

func (e *Errors) addBad(line []byte, reason string, limit int) {
	e.BadLines++
	if e.kept > 0 && e.kept+len(line) > limit {
		e.kept = limit + 1 // keep the order: nothing after the first left out
		return
	}
	e.kept += len(line) + len(reason) + 32
	e.Bad = append(e.Bad, LineError{Line: string(line), Reason: reason})
}

func (e *Errors) addRefused(reason string) {
	if e.Refused == 0 {
		e.RefusedReason = reason
	}
	e.Refused++
}
