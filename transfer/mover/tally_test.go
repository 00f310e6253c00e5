package mover

import (
	"fmt"
	"slices"
	"testing"
)

// TestReasons: what was refused is counted by its reason, in which the number of lines does not
// count. A part that is moved once more counts once. A part that fails has its reasons too.
func TestReasons(t *testing.T) {
	m := &Move{}
	part := func(again bool, f func(t *Tally)) {
		tally := &Tally{m: m}
		defer tally.close()
		for f(tally); again; again = false {
			tally.undo()
			f(tally)
		}
	}
	part(true, func(t *Tally) {
		for i := range int64(2 * maxReasons) { // of one kind
			t.Refused(fmt.Sprintf("partial write: a dropped=%d for database: d", i+1), i+1)
		}
		t.Refused("b", 3)
		t.Wrote(5)
	})
	part(false, func(t *Tally) { t.Refused("partial write: a dropped=1 for database: d", 1) })
	n := int64(2*maxReasons) * (2*maxReasons + 1) / 2
	want := []Reason{{"partial write: a dropped=1 for database: d", n + 1}, {"b", 3}}
	if s := &m.mu.stats; s.Refused != n+4 || s.Written != 5 || !slices.Equal(s.Reasons, want) {
		t.Errorf("%+v, want %v", s, want)
	}
	// Reasons that come back to none leave no trace.
	gone := &Tally{m: m}
	gone.Refused("c", 1)
	gone.undo()
	gone.close()
	for i := range 2 * maxReasons {
		part(false, func(t *Tally) { t.Refused(fmt.Sprint("one of many ", i), 1) })
	}
	s := &m.mu.stats
	if len(s.Reasons) != maxReasons || slices.ContainsFunc(s.Reasons, func(r Reason) bool { return r.Text == "c" }) || s.Refused != n+4+2*maxReasons {
		t.Errorf("%d reasons, %d refused: %v", len(s.Reasons), s.Refused, s.Reasons)
	}
}
