package partial

import (
	"math"
	"math/bits"
	"slices"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/admission"
)

// valueRun is a part of the values of one state, in the order in which they were folded.
// They are held by their keys: words that sort as the values do.
type valueRun struct {
	keys  []uint64 // the room behind them is that of the next values
	times []int64  // of a slot that keeps times, else nil
	prev  int32    // the run before of the same state, or -1
}

// runBytes is the memory of a valueRun.
const runBytes = 56

// blockValues is the most values that get room at once, 64 kB.
const blockValues = 8 << 10

// keep adds the values of rows [lo, hi) to a state.
func (w *Worker) keep(st *State, sl *Slot, v *column.Vector, lo, hi int) bool {
	met := false
	for lo < hi {
		r := w.t.runOf(st, sl)
		upTo := min(hi, lo+cap(r.keys)-len(r.keys))
		before := len(r.keys)
		r.keys = appendKeys(r.keys, v, lo, upTo)
		if sl.Timed {
			r.times = append(r.times, compact(w.Times, v.Valid, lo, upTo, w.ibuf)...)
		}
		st.N += int64(len(r.keys) - before)
		met = met || len(r.keys) > before
		lo = upTo
	}
	return met
}

// runOf returns the run to which the next values of a state go. It has room. It is valid
// until the next one is made.
func (t *Table) runOf(st *State, sl *Slot) *valueRun {
	next := valueRun{prev: -1}
	if n := len(t.runs); n > 0 {
		last := &t.runs[n-1]
		if len(last.keys) < cap(last.keys) && sl.Timed == (last.times != nil) {
			if st.N > 0 && st.A == uint64(n-1) {
				return last
			}
			next.keys, last.keys = last.keys[len(last.keys):], slices.Clip(last.keys)
			next.times, last.times = last.times[len(last.times):], slices.Clip(last.times)
		}
	}
	if next.keys == nil {
		t.room = min(max(2*t.room, 64), blockValues)
		next.keys = make([]uint64, 0, t.room)
		t.Bytes += 8 * int64(t.room)
		if sl.Timed {
			next.times = make([]int64, 0, t.room)
			t.Bytes += 8 * int64(t.room)
		}
	}
	t.addRun(st, next)
	return &t.runs[len(t.runs)-1]
}

// addRun makes a run the last one of a state.
func (t *Table) addRun(st *State, r valueRun) {
	if r.prev = -1; st.N > 0 {
		r.prev = int32(st.A)
	}
	before := cap(t.runs)
	st.A = uint64(len(t.runs))
	t.runs = append(t.runs, r)
	t.Bytes += runBytes * int64(cap(t.runs)-before)
}

// mergeRuns adds the runs of state s of table o to state d.
func (t *Table) mergeRuns(d, s *State, o *Table) {
	for i := int32(s.A); i >= 0; i = o.runs[i].prev {
		r := o.runs[i]
		t.addRun(d, valueRun{keys: slices.Clip(r.keys), times: slices.Clip(r.times)})
		d.N += int64(len(r.keys))
	}
}

// runsOf returns the keys of a state, run by run. They are valid until the next call.
func (t *Table) runsOf(st *State) [][]uint64 {
	t.parts = t.parts[:0]
	for i := int32(st.A); i >= 0; i = t.runs[i].prev {
		t.parts = append(t.parts, t.runs[i].keys)
	}
	return t.parts
}

// ranker returns the ranker of the table.
func (t *Table) ranker() *Ranker {
	if t.ranks == nil {
		t.ranks = &Ranker{}
	}
	return t.ranks
}

// Ranked returns the value of a rank, counted from 0, as a word. If the slot keeps times it
// returns the time of the row as well: equal values rank by their times, in the direction of
// the table. A value that a sketch gives has the time 0.
func (t *Table) Ranked(sl *Slot, st *State, rank int) (word uint64, at int64) {
	if st.B > 0 {
		return t.estimated(sl, st, rank), 0
	}
	key, nth := t.ranker().key(t.Stop, t.runsOf(st), rank)
	if !sl.Timed {
		return wordOfKey(sl.Type, key), 0
	}
	var times []uint64
	for i := int32(st.A); i >= 0; i = t.runs[i].prev {
		r := &t.runs[i]
		for k, x := range r.keys {
			if x == key {
				times = append(times, keyOfInt(r.times[k]))
			}
		}
	}
	if t.Desc {
		nth = len(times) - 1 - nth
	}
	time, _ := t.ranker().key(t.Stop, [][]uint64{times}, nth)
	return wordOfKey(sl.Type, key), int64(wordOfKey(model.Integer, time))
}

// Middle returns the two values in the middle as words, the same one twice if the number of
// values is odd.
func (t *Table) Middle(sl *Slot, st *State) (low, high uint64) {
	if st.B > 0 {
		return t.estimated(sl, st, int((st.N-1)/2)), t.estimated(sl, st, int(st.N/2))
	}
	runs, n := t.runsOf(st), int(st.N)
	key, _ := t.ranker().key(t.Stop, runs, (n-1)/2)
	low = wordOfKey(sl.Type, key)
	if n%2 == 1 {
		return low, low
	}
	upTo, next := 0, uint64(math.MaxUint64) // the values up to key, and the one behind them
	for _, part := range runs {
		if t.Stop.After(len(part)) {
			break
		}
		for _, x := range part {
			if x <= key {
				upTo++
			} else {
				next = min(next, x)
			}
		}
	}
	if upTo > n/2 {
		return low, low
	}
	return low, wordOfKey(sl.Type, next)
}

// digitBits bounds the digits of a Ranker: their counts stay in the first cache.
const digitBits = 11

// fewKeys is up to how many keys are sorted, which costs less than a round.
const fewKeys = 12

// Ranker finds values by their rank. It holds memory that is used again.
type Ranker struct {
	counts [1 << digitBits]uint32
	keys   []uint64
	rows   []uint64
}

// Row returns the row among [lo, hi) of a column without nulls whose value has a rank,
// counted from 0. Rows of equal value rank in their order.
func (r *Ranker) Row(stop *admission.Stopper, v *column.Vector, lo, hi, rank int) int {
	r.rows = appendKeys(slices.Grow(r.rows[:0], hi-lo), v, lo, hi)
	key, nth := r.key(stop, [][]uint64{r.rows}, rank)
	for i, x := range r.rows {
		if x == key {
			if nth == 0 {
				return lo + i
			}
			nth--
		}
	}
	return lo
}

// key returns the key of a rank, counted from 0, and the rank among those that are equal to
// it. Each round cuts the distance of the smallest and the largest key into equal intervals
// and goes on with the keys of the one that has the rank. It leaves parts as they are. If
// the stopper ends, the answer is any key.
func (r *Ranker) key(stop *admission.Stopper, parts [][]uint64, rank int) (key uint64, nth int) {
	for first := true; ; first = false {
		low, high, n := uint64(math.MaxUint64), uint64(0), 0
		for _, part := range parts {
			if stop.After(len(part)) {
				return low, 0
			}
			n += len(part)
			for _, x := range part {
				low, high = min(low, x), max(high, x)
			}
		}
		if n <= fewKeys {
			few := make([]uint64, 0, fewKeys)
			for _, part := range parts {
				few = append(few, part...)
			}
			slices.Sort(few)
			return few[rank], rank - slices.Index(few, few[rank])
		}
		shift := max(0, bits.Len64(high-low)-min(digitBits, bits.Len(uint(n)))) & 63
		counts := r.counts[:(high-low)>>shift+1]
		clear(counts)
		for _, part := range parts {
			if stop.After(len(part)) {
				return low, 0
			}
			for _, x := range part {
				counts[(x-low)>>shift]++
			}
		}
		digit := uint64(0)
		for ; rank >= int(counts[digit]); digit++ {
			rank -= int(counts[digit])
		}
		if low += digit << shift; shift == 0 {
			return low, rank
		}
		size := int(counts[digit])
		if first {
			r.keys = slices.Grow(r.keys[:0], size+1)
		}
		left, k := r.keys[:size+1], 0
		for _, part := range parts {
			if stop.After(len(part)) {
				return low, 0
			}
			for _, x := range part {
				left[k] = x // stays if it is of the interval
				if (x-low)>>shift == 0 {
					k++
				}
			}
		}
		parts = [][]uint64{left[:size]}
	}
}

// appendKeys appends the keys of the values of rows [lo, hi).
func appendKeys(dst []uint64, v *column.Vector, lo, hi int) []uint64 {
	if v.Valid != nil {
		for i := lo; i < hi; i++ {
			if v.IsValid(i) {
				dst = append(dst, keyOf(v.Type, v.Word(i)))
			}
		}
		return dst
	}
	n := len(dst)
	dst = dst[:n+hi-lo]
	keys := dst[n:]
	switch v.Type {
	case model.Float:
		for i, x := range v.Floats[lo:hi] {
			keys[i] = keyOfFloat(math.Float64bits(x))
		}
	case model.Integer:
		for i, x := range v.Ints[lo:hi] {
			keys[i] = keyOfInt(x)
		}
	case model.Unsigned:
		copy(keys, v.Uints[lo:hi])
	}
	return dst
}

// keyOf returns the bits of a number as a word that sorts as the number does, -0 before 0.
func keyOf(t model.FieldType, word uint64) uint64 {
	switch t {
	case model.Float:
		return keyOfFloat(word)
	case model.Integer:
		return keyOfInt(int64(word))
	}
	return word
}

func keyOfFloat(word uint64) uint64 { return word ^ (uint64(int64(word)>>63) | 1<<63) }

func keyOfInt(x int64) uint64 { return uint64(x) ^ 1<<63 }

// wordOfKey is the inverse of keyOf.
func wordOfKey(t model.FieldType, key uint64) uint64 {
	switch {
	case t == model.Unsigned:
		return key
	case t == model.Float && key>>63 == 0:
		return ^key
	}
	return key ^ 1<<63
}
