package httpapi

import (
	"errors"
	"slices"

	"tsdbd/query/result"
)

// errRowLimit ends the statements when the answer has MaxRowLimit rows.
var errRowLimit = errors.New("max-row-limit reached")

// rowLimit cuts the results of one answer to Limits.MaxRowLimit rows.
type rowLimit struct{ left int }

// cut returns the part of a result within the limit. done reports that the limit is
// reached, and more that the last series has more rows.
func (l *rowLimit) cut(res *result.Result) (part *result.Result, done, more bool) {
	for i, s := range res.Series {
		if s.Rows < l.left {
			l.left -= s.Rows
			continue
		}
		short := *s
		if s.Rows > l.left {
			short.Values, short.Rows, short.Partial = slices.Clone(s.Values), l.left, true
			for c := range short.Values {
				if short.Values[c].Len() > 0 { // a column of nulls has no values
					short.Values[c] = s.Values[c].Slice(0, l.left)
				}
			}
		}
		l.left = 0
		cut := *res
		cut.Series = append(slices.Clone(res.Series[:i]), &short)
		return &cut, true, short.Partial
	}
	return res, false, false
}
