package downsample

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"tsdbd/store/touched"
)

// Bounds of what is kept of windows that fail.
const (
	pauseMost    = 15 * time.Minute
	failuresMost = 1000 // of a downsample
	failuresTold = 3    // of them, by SHOW DOWNSAMPLES
)

// failures are the windows that could not be computed, by downsample. They are known as
// long as the process runs. All methods may be called by any number of goroutines.
type failures struct {
	mu   sync.Mutex
	list map[uint64][]failure // in order of measurement and time
}

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
	err         string
}

// pause returns how long windows rest that have failed some times.
func pause(every time.Duration, tries int) time.Duration {
	return min(settle(every)<<min(tries-1, 20), pauseMost)
}

// order returns the pieces of spans in the order in which they are to be computed: first
// what never failed, measurements without failures before others, then what failed and
// has rested. What rests is not there.
func (f *failures) order(id uint64, spans []touched.Span, now time.Time) []piece {
	f.mu.Lock()
	defer f.mu.Unlock()
	byName := map[string][]failure{}
	for _, x := range f.list[id] {
		byName[x.measurement] = append(byName[x.measurement], x)
	}
	var first, second, due []piece
	var resting []failure
	for _, sp := range spans {
		known := byName[sp.Measurement]
		if len(known) == 0 {
			first = append(first, piece{measurement: sp.Measurement, from: sp.From, to: sp.To})
			continue
		}
		at := sp.From
		lo, _ := slices.BinarySearchFunc(known, sp.From, func(x failure, from int64) int { return cmp.Compare(x.to, from+1) })
		for _, x := range known[lo:] {
			if x.from >= sp.To {
				break
			}
			from, to := max(at, x.from), min(sp.To, x.to)
			if from >= to {
				continue
			}
			if at < from {
				second = append(second, piece{measurement: sp.Measurement, from: at, to: from, most: 1})
			}
			at = to
			x.from, x.to = from, to
			if now.Before(x.again) && x.again.Sub(now) <= pauseMost { // else the clock was ahead
				resting = append(resting, x)
				continue
			}
			due = append(due, piece{measurement: sp.Measurement, from: from, to: to, tries: x.tries, most: 1, last: true, err: x.err})
		}
		if at < sp.To {
			second = append(second, piece{measurement: sp.Measurement, from: at, to: sp.To, most: 1})
		}
	}
	f.put(id, resting)
	slices.SortStableFunc(due, func(a, b piece) int { return cmp.Compare(a.tries, b.tries) })
	return slices.Concat(first, second, due)
}

// put replaces the failures of a downsample.
func (f *failures) put(id uint64, list []failure) {
	if len(list) == 0 {
		delete(f.list, id)
		return
	}
	slices.SortFunc(list, func(a, b failure) int {
		return cmp.Or(cmp.Compare(a.measurement, b.measurement), cmp.Compare(a.from, b.from))
	})
	f.list[id] = list
}

// add notes a failure.
func (f *failures) add(id uint64, x failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := f.list[id]
	i, _ := slices.BinarySearchFunc(list, x, func(a, b failure) int {
		return cmp.Or(cmp.Compare(a.measurement, b.measurement), cmp.Compare(a.from, b.from))
	})
	if i > 0 {
		if last := &list[i-1]; last.measurement == x.measurement && last.to == x.from && last.tries == x.tries && last.err == x.err {
			last.to, last.again = x.to, x.again
			return
		}
	}
	if len(list) >= failuresMost { // what is not noted is tried again without a pause
		return
	}
	f.list[id] = slices.Insert(list, i, x)
}

// keep notes what is left of pieces that failed before and were not tried again now. The
// first of them has come up to a time.
func (f *failures) keep(id uint64, left []piece, upTo int64) {
	for n, p := range left {
		if n == 0 {
			p.from = upTo
		}
		if p.tries > 0 && p.from < p.to {
			f.add(id, failure{measurement: p.measurement, from: p.from, to: p.to, tries: p.tries, err: p.err})
		}
	}
}

// forget drops the failures of downsamples that are gone.
func (f *failures) forget(present map[uint64]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range f.list {
		if !present[id] {
			delete(f.list, id)
		}
	}
}

// of returns the failures of a downsample.
func (f *failures) of(id uint64) []failure {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.list[id])
}

// failureText says which windows fail and why.
func failureText(list []failure) string {
	var parts []string
	for _, x := range list[:min(len(list), failuresTold)] {
		part := fmt.Sprintf("measurement %s, windows %s to %s: %s (failed %d times", x.measurement, timeText(x.from), timeText(x.to), x.err, x.tries)
		if !x.again.IsZero() {
			part += ", next at " + x.again.UTC().Format(time.RFC3339)
		}
		parts = append(parts, part+")")
	}
	if more := len(list) - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("and %d others", more))
	}
	return strings.Join(parts, "; ")
}

func timeText(at int64) string { return time.Unix(0, at).UTC().Format(time.RFC3339) }
