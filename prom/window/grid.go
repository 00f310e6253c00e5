package window

import "math"

// staleBits are the bits of the value that ends a series: what a scrape that no
// longer finds a series writes.
const staleBits = 0x7ff0000000000002

// Absent is what a step without a value holds. Its bits are those of the marker
// that ends a series. No arithmetic gives it: it is a signaling NaN.
func Absent() float64 { return math.Float64frombits(staleBits) }

// IsAbsent reports whether v is the marker that ends a series, or a step without
// a value.
func IsAbsent(v float64) bool { return math.Float64bits(v) == staleBits }

// Grid is the evaluation times of a query in milliseconds: Start, Start+Step, and
// so on up to End. An instant query has one time; its Step is not 0 either.
type Grid struct {
	Start, End, Step int64
}

// Steps returns the number of evaluation times.
func (g Grid) Steps() int {
	if g.End < g.Start {
		return 0
	}
	return int((g.End-g.Start)/g.Step) + 1
}

// At returns the i-th evaluation time.
func (g Grid) At(i int) int64 { return g.Start + int64(i)*g.Step }

// Span is the milliseconds of [From, To). It is empty if To is not after From.
type Span struct{ From, To int64 }

// Empty reports whether the span has no time.
func (s Span) Empty() bool { return s.To <= s.From }

// Union returns the shortest span that has the times of both.
func (s Span) Union(o Span) Span {
	switch {
	case s.Empty():
		return o
	case o.Empty():
		return s
	}
	return Span{min(s.From, o.From), max(s.To, o.To)}
}

// Within returns the times that both have.
func (s Span) Within(o Span) Span { return Span{max(s.From, o.From), min(s.To, o.To)} }
