package prom

import (
	"bytes"
	"fmt"
)

// BadLines are the lines of a text that its reader has left out.
type BadLines struct {
	Count int
	First error // of the first of them, with its number
}

// ReadLines calls read with each line of a text that is not blank, without the blanks
// around it. bad is why a line is left out. err ends the text.
func ReadLines(text []byte, read func(line []byte) (bad, err error)) (left BadLines, err error) {
	for number := 1; len(text) > 0; number++ {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte("\n"))
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		bad, err := read(line)
		if err != nil {
			return left, err
		}
		if bad != nil {
			if left.Count++; left.Count == 1 {
				left.First = fmt.Errorf("line %d: %w", number, bad)
			}
		}
	}
	return left, nil
}
