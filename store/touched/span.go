package touched

import "slices"

// span is a range [from, to) of times, with the sequences of the entries that have touched
// rows there last.
type span struct {
	from, to       int64
	source, target uint64 // 0: none since the start of the log
}

// newer reports whether a span was touched by an entry that o does not know.
func (sp span) newer(o span) bool { return sp.source > o.source || sp.target > o.target }

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

// add appends a span, to the last one if that ends there and was touched by the same entries.
func (s spans) add(sp span) spans {
	if n := len(s); n > 0 && s[n-1].to == sp.from && s[n-1].source == sp.source && s[n-1].target == sp.target {
		s[n-1].to = sp.to
		return s
	}
	return append(s, sp)
}

// touch gives the times of a span its sequences, except where they have higher ones.
func (s spans) touch(sp span) spans {
	i, j := s.overlap(sp.from, sp.to)
	if j == i+1 && s[i].from <= sp.from && s[i].to >= sp.to {
		if !sp.newer(s[i]) {
			return s
		}
		if s[i].from == sp.from && s[i].to == sp.to {
			s[i].source, s[i].target = max(s[i].source, sp.source), max(s[i].target, sp.target)
			return s
		}
	}
	var pieces spans
	at := sp.from // of what no span has yet
	for _, old := range s[i:j] {
		switch {
		case old.from < at:
			pieces = pieces.add(span{old.from, at, old.source, old.target})
		case old.from > at:
			pieces = pieces.add(span{at, old.from, sp.source, sp.target})
		}
		lo, hi := max(old.from, sp.from), min(old.to, sp.to)
		pieces = pieces.add(span{lo, hi, max(old.source, sp.source), max(old.target, sp.target)})
		if old.to > hi {
			pieces = pieces.add(span{hi, old.to, old.source, old.target})
		}
		at = hi
	}
	if at < sp.to {
		pieces = pieces.add(span{at, sp.to, sp.source, sp.target})
	}
	return slices.Replace(s, i, j, pieces...)
}

// clear takes the times of a span out of those that no later entries have touched.
func (s spans) clear(sp span) spans {
	i, j := s.overlap(sp.from, sp.to)
	var left spans
	for _, old := range s[i:j] {
		if old.newer(sp) {
			left = append(left, old)
			continue
		}
		if old.from < sp.from {
			left = append(left, span{old.from, sp.from, old.source, old.target})
		}
		if old.to > sp.to {
			left = append(left, span{sp.to, old.to, old.source, old.target})
		}
	}
	return slices.Replace(s, i, j, left...)
}

// join joins spans that follow each other, or lie in one of some windows, which are disjoint
// and sorted.
func (s spans) join(windows []window) spans {
	out := s[:0]
	for _, sp := range s {
		n := len(out)
		if n == 0 || sp.from != out[n-1].to && !slices.ContainsFunc(windows, func(w window) bool { return w.from <= out[n-1].from && sp.to <= w.to }) {
			out = append(out, sp)
			continue
		}
		last := &out[n-1]
		last.to, last.source, last.target = sp.to, max(last.source, sp.source), max(last.target, sp.target)
	}
	return out
}

// first returns the start of the first span, end at most.
func (s spans) first(end int64) int64 {
	if len(s) == 0 {
		return end
	}
	return min(end, s[0].from)
}

// appendUpTo appends the spans up to a time. Those that follow each other are one.
func (s spans) appendUpTo(dst []Span, measurement string, before int64) []Span {
	first := len(dst)
	for _, sp := range s {
		if sp.from >= before {
			break
		}
		to := min(sp.to, before)
		if n := len(dst); n > first && sp.from == dst[n-1].To {
			dst[n-1].To = to
			continue
		}
		dst = append(dst, Span{measurement, sp.from, to})
	}
	return dst
}
