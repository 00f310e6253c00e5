package window

import (
	"math/rand/v2"
	"testing"
	"time"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
)

// TestCalendarWindows: windows of months begin at midnight of their first day
// in their zone, hold what is in them, and follow one another without a gap.
func TestCalendarWindows(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testseed.Of(t), 1))
	zones := []string{"", "Europe/Berlin", "America/Sao_Paulo", "Asia/Kathmandu", "Pacific/Apia"}
	lengths := []string{"1mo", "2mo", "1q", "1y", "5mo", "10y", "1mo 4d", "1q 36h"}
	for range 3000 {
		var w Windows
		if z := zones[rnd.IntN(len(zones))]; z != "" {
			loc, err := time.LoadLocation(z)
			if err != nil {
				t.Fatal(err)
			}
			w.Loc = loc
		}
		length := lengths[rnd.IntN(len(lengths))]
		if !w.SetCalendar(length) {
			t.Fatal(length)
		}
		at := rnd.Int64N(model.MaxTime)
		if rnd.IntN(2) == 0 {
			at = -at
		}
		start := w.Start(at)
		next := w.Next(start)
		if start > at || next <= at {
			t.Fatalf("%s in %v: %d is not in [%d, %d)", length, w.Loc, at, start, next)
		}
		if w.Start(start) != start || next < model.MaxTime && (w.Start(next) != next || w.Start(next-1) != start || w.Prev(next) != start) {
			t.Fatalf("%s in %v: [%d, %d) and its neighbours do not fit", length, w.Loc, start, next)
		}
		if next < model.MaxTime && next-start > w.Every+25*3600e9 { // a clock may be moved
			t.Fatalf("%s in %v: [%d, %d) is longer than %d", length, w.Loc, start, next, w.Every)
		}
		if w.Shift == 0 && start > model.MinTime {
			// A zone may skip the midnight.
			if local := time.Unix(0, start+2*3600e9).In(w.Loc); local.Day() != 1 {
				t.Fatalf("%s in %v begins at %s", length, w.Loc, local)
			}
			if months := (time.Unix(0, start+2*3600e9).In(w.Loc).Year()-1970)*12 + int(time.Unix(0, start+2*3600e9).In(w.Loc).Month()) - 1; months%w.Months != 0 {
				t.Fatalf("%s in %v begins %d months after 1970", length, w.Loc, months)
			}
		}
	}
	for _, text := range []string{"", "mo", "0mo", "-1mo", "1m", "1M", "1mo4d", "1mo 28d", "1mo -1d", "99999999999y", "1w"} {
		if w := (Windows{}); w.SetCalendar(text) {
			t.Errorf("%q is a calendar window", text)
		}
	}
	// The ends of time.
	w := Windows{}
	w.SetCalendar("1y")
	if got := w.Start(model.MinTime); got != model.MinTime {
		t.Errorf("the first window begins at %d", got)
	}
	last := w.Start(model.MaxTime)
	if want := time.Date(2262, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano(); last != want || w.Next(last) != model.MaxTime {
		t.Errorf("the last window is [%d, %d)", last, w.Next(last))
	}
}
