package touched

import "slices"

// span is a range [from, to) of times that an entry has touched last.
type span struct {
	from, to int64
	sequence uint64
}

// spans are disjoint and in order of time.
type spans []span

// overlap returns the positions [i, j) of the spans that overlap [from, to).
func (s spans) overlap(from, to int64) (i, j int) {
	if n := len(s); n > 0 && s[n-1].from <= from { // new rows are in the latest window
		if s[n-1].to > from {
			return n - 1, n
		}
		return n, n
	}
	i, _ = slices.BinarySearchFunc(s, from, func(sp span, from int64) int {
		if sp.to <= from {
			return -1
		}
		return 1
	})
	for j = i; j < len(s) && s[j].from < to; j++ {
	}
	return i, j
}

// touch gives [from, to) a sequence, except where it has a higher one.
func (s spans) touch(from, to int64, sequence uint64) spans {
	i, j := s.overlap(from, to)
	if j == i+1 && s[i].from <= from && s[i].to >= to {
		if s[i].sequence >= sequence {
			return s
		}
		if s[i].from == from && s[i].to == to {
			s[i].sequence = sequence
			return s
		}
	}
	var left, pieces spans
	var right spans
	at := from
	for _, old := range s[i:j] {
		if old.sequence >= sequence {
			if at < old.from {
				pieces = append(pieces, span{at, old.from, sequence})
			}
			pieces = append(pieces, old)
			at = max(at, old.to)
			continue
		}
		if old.from < from {
			left = append(left, span{old.from, from, old.sequence})
		}
		if old.to > to {
			right = append(right, span{to, old.to, old.sequence})
		}
	}
	if at < to {
		pieces = append(pieces, span{at, to, sequence})
	}
	return slices.Replace(s, i, j, slices.Concat(left, pieces, right)...)
}

// clear takes [from, to) out of the spans that have no higher sequence.
func (s spans) clear(from, to int64, sequence uint64) spans {
	i, j := s.overlap(from, to)
	var left spans
	for _, old := range s[i:j] {
		if old.sequence > sequence {
			left = append(left, old)
			continue
		}
		if old.from < from {
			left = append(left, span{old.from, from, old.sequence})
		}
		if old.to > to {
			left = append(left, span{to, old.to, old.sequence})
		}
	}
	return slices.Replace(s, i, j, left...)
}

// join joins spans that are at most gap apart, if they touch or lie in one of some windows.
func (s spans) join(gap int64, within []window) spans {
	out := s[:0]
	for _, sp := range s {
		// The gap may be longer than an int64.
		if n := len(out); n > 0 && uint64(sp.from-out[n-1].to) <= uint64(gap) && (sp.from == out[n-1].to || covered(within, out[n-1].from, sp.to)) {
			out[n-1].to = sp.to
			out[n-1].sequence = max(out[n-1].sequence, sp.sequence)
			continue
		}
		out = append(out, sp)
	}
	return out
}

// covered reports whether one window contains [from, to). windows are disjoint and sorted.
func covered(windows []window, from, to int64) bool {
	i, _ := slices.BinarySearchFunc(windows, from, func(w window, from int64) int {
		if w.to <= from {
			return -1
		}
		return 1
	})
	return i < len(windows) && windows[i].from <= from && to <= windows[i].to
}
