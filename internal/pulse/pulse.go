// Package pulse has tickers that tick together. Each wake-up of an idle process costs more
// than what its loops then do: those that have nothing to do wake it at one time.
package pulse

import "time"

// NewTicker returns a ticker. Its first tick comes after d, the others at whole multiples
// of d by the clock as it is now, the second up to 2d after the first. Who stops it must not
// receive from it any more: before 2d have passed it starts again.
func NewTicker(d time.Duration) *time.Ticker {
	t := time.NewTicker(d)
	if past := time.Duration(time.Now().UnixNano()) % d; past != 0 {
		time.AfterFunc(2*d-past, func() { t.Reset(d) })
	}
	return t
}
