package syntax

import (
	"math"
	"strings"
	"time"
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

// overflows reports whether a text is a duration, such as 1w3d, of more nanoseconds than 63 bits hold.
func overflows(text string) bool {
	const most = math.MaxInt64
	var sum, n int64
	for i := 0; i < len(text); i++ {
		c := text[i]
		if isDigit(c) {
			if n > (most-9)/10 {
				return false // the grammar refuses the number
			}
			n = n*10 + int64(c-'0')
			continue
		}
		unit := time.Nanosecond
		switch {
		case c == 'n' && strings.HasPrefix(text[i:], "ns"):
			i++
		case c == 'm' && strings.HasPrefix(text[i:], "ms"):
			unit = time.Millisecond
			i++
		case c == 'u':
			unit = time.Microsecond
		case strings.HasPrefix(text[i:], "µ"):
			unit = time.Microsecond
			i += len("µ") - 1
		case c == 's':
			unit = time.Second
		case c == 'm':
			unit = time.Minute
		case c == 'h':
			unit = time.Hour
		case c == 'd':
			unit = 24 * time.Hour
		case c == 'w':
			unit = 7 * 24 * time.Hour
		default:
			return false // the grammar refuses the unit
		}
		if n > (most-sum)/int64(unit) {
			return true
		}
		sum, n = sum+n*int64(unit), 0
	}
	return false
}
