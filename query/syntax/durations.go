package syntax

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/influxdata/influxql"
)

// checkDurations returns an error for the first duration of a text that nanoseconds cannot
// hold. The grammar lets it wrap around: DURATION 30501w would keep 72 hours.
func checkDurations(text string) error {
	if !hasOverflow(text) {
		return nil
	}
	for _, t := range tokenize(text) {
		if t.tok == influxql.DURATIONVAL && overflows(t.text) {
			line := text[strings.LastIndexByte(text[:t.start], '\n')+1 : t.start]
			return &influxql.ParseError{
				Message: "overflowed duration " + t.text + ": choose a smaller duration or INF",
				Pos:     influxql.Pos{Line: strings.Count(text[:t.start], "\n"), Char: utf8.RuneCountInString(line)},
			}
		}
	}
	return nil
}

// hasOverflow reports whether any part of a text, perhaps of a name or string, is a duration
// that overflows.
func hasOverflow(text string) bool {
	for i := 0; i < len(text); {
		if !isDigit(text[i]) {
			i++
			continue
		}
		_, n := scanNumber(text[i:])
		if overflows(text[i : i+n]) {
			return true
		}
		i += n
	}
	return false
}

// overflows reports whether a text is a duration, such as 1w3d, of more nanoseconds than 63 bits
// hold. What the grammar refuses does not overflow.
func overflows(text string) bool {
	const digits = "0123456789"
	for sum := int64(0); text != ""; {
		after := strings.TrimLeft(text, digits)
		n, err := strconv.ParseInt(text[:len(text)-len(after)], 10, 64)
		end := strings.IndexAny(after, digits)
		if end < 0 {
			end = len(after)
		}
		unit, uerr := influxql.ParseDuration("1" + after[:end])
		if err != nil || uerr != nil {
			return false
		}
		if n > (math.MaxInt64-sum)/int64(unit) {
			return true
		}
		sum, text = sum+n*int64(unit), after[end:]
	}
	return false
}
