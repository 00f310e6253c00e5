package encode

import (
	"errors"
	"slices"

	"tsdbd/query/result"
)

// ErrRowLimit ends the statements when the answer has as many rows as a RowLimit allows.
var ErrRowLimit = errors.New("max-row-limit reached")

// RowLimit cuts the results of one answer to Left rows.
type RowLimit struct{ Left int }

// Cut returns the part of a result within the limit. done reports that the limit is
// reached, and more that the last series has more rows.
func (l *RowLimit) Cut(res *result.Result) (part *result.Result, done, more bool) {
	for i, s := range res.Series {
		if s.Rows < l.Left {
			l.Left -= s.Rows
			continue
		}
		short := *s
		if s.Rows > l.Left {
			short.Values, short.Rows, short.Partial = slices.Clone(s.Values), l.Left, true
			for c := range short.Values {
				if short.Values[c].Len() > 0 { // a column of nulls has no values
					short.Values[c] = s.Values[c].Slice(0, l.Left)
				}
			}
		}
		l.Left = 0
		cut := *res
		cut.Series = append(slices.Clone(res.Series[:i]), &short)
		return &cut, true, short.Partial
	}
	return res, false, false
}
