package downsample

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"tsdbd/meta"
	"tsdbd/store/touched"
)

// Bounds of what is kept of windows that fail.
const (
	pauseMost     = 15 * time.Minute
	failuresMost  = 1000 // of a downsample
	failuresShown = 3    // of them, by SHOW DOWNSAMPLES
)

// failures are the windows of a downsample that could not be computed, in order of
// measurement and time, none twice.
type failures []failure

// failure is a range of windows of a measurement, all of which failed as often.
type failure struct {
	measurement string
	from, to    int64
	tries       int
	err         string    // of the latest try
	again       time.Time // of the next try
}

// piece is a span that is to be computed.
type piece struct {
	measurement string
	from, to    int64
	tries       int   // that have failed
	most        int64 // windows that are computed at once; 0: no bound is known
	last        bool  // others come first
}

// pause returns how long windows rest that have failed some times.
func pause(every time.Duration, tries int) time.Duration {
	return min(settle(every)<<min(tries-1, 20), pauseMost)
}

// order returns the pieces of spans in the order in which they are to be computed: first
// what never failed, then what failed and has rested. It returns the failures that are in
// the spans as well: the others were computed, or need not be.
func (f failures) order(spans []touched.Span, now time.Time) (pieces []piece, left failures) {
	var rested []piece
	for _, sp := range spans {
		p := piece{measurement: sp.Measurement, from: sp.From}
		i, j := f.find(sp.Measurement, sp.From, sp.To)
		for _, x := range f[i:j] {
			p.most = 1
			x.from, x.to = max(x.from, sp.From), min(x.to, sp.To)
			left = append(left, x)
			if !now.Before(x.again) || x.again.Sub(now) > pauseMost { // then the clock was ahead
				rested = append(rested, piece{x.measurement, x.from, x.to, x.tries, 1, true})
			}
			if p.to = x.from; p.from < p.to {
				pieces = append(pieces, p)
			}
			p.from = x.to
		}
		if p.to = sp.To; p.from < p.to {
			pieces = append(pieces, p)
		}
	}
	slices.SortFunc(left, func(a, b failure) int {
		return cmp.Or(cmp.Compare(a.measurement, b.measurement), cmp.Compare(a.from, b.from))
	})
	slices.SortStableFunc(rested, func(a, b piece) int { return cmp.Compare(a.tries, b.tries) })
	return append(pieces, rested...), left
}

// find returns the positions [i, j) of the failures of a measurement in [from, to).
func (f failures) find(measurement string, from, to int64) (i, j int) {
	i, _ = slices.BinarySearchFunc(f, from, func(x failure, from int64) int {
		return cmp.Or(cmp.Compare(x.measurement, measurement), cmp.Compare(x.to, from+1))
	})
	for j = i; j < len(f) && f[j].measurement == measurement && f[j].from < to; j++ {
	}
	return i, j
}

// without returns the failures without windows of a measurement. f must not be used any more.
func (f failures) without(measurement string, from, to int64) failures {
	i, j := f.find(measurement, from, to)
	var left failures
	for _, x := range f[i:j] {
		before, after := x, x
		if before.to = from; x.from < from {
			left = append(left, before)
		}
		if after.from = to; x.to > to {
			left = append(left, after)
		}
	}
	return slices.Replace(f, i, j, left...)
}

// with returns the failures with x in place of earlier ones. f must not be used any more.
func (f failures) with(x failure) failures {
	f = f.without(x.measurement, x.from, x.to)
	i, _ := f.find(x.measurement, x.from, x.to)
	if i > 0 {
		if last := &f[i-1]; last.measurement == x.measurement && last.to == x.from && last.tries == x.tries && last.err == x.err {
			last.to, last.again = x.to, x.again
			return f
		}
	}
	if len(f) >= failuresMost { // what is not noted is tried again without a pause
		return f
	}
	return slices.Insert(f, i, x)
}

// windows returns how many windows fail.
func (f failures) windows(d *meta.Downsample) (n int64) {
	for _, x := range f {
		n += d.Windows(x.from, x.to)
	}
	return n
}

// String says which windows fail and why.
func (f failures) String() string {
	var parts []string
	for _, x := range f[:min(len(f), failuresShown)] {
		parts = append(parts, fmt.Sprintf("measurement %s, windows %s to %s: %s (failed %d times, next at %s)", x.measurement,
			timeText(time.Unix(0, x.from)), timeText(time.Unix(0, x.to)), x.err, x.tries, timeText(x.again)))
	}
	if more := len(f) - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("and %d others", more))
	}
	return strings.Join(parts, "; ")
}

func timeText(at time.Time) string { return at.UTC().Format(time.RFC3339) }
