package window

import (
	"math/rand/v2"
	"testing"
	"time"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
)

func TestWindowsCoverTime(t *testing.T) {
	seed := testseed.Of(t)
	rnd := rand.New(rand.NewPCG(seed, 2))
	zones := []string{"", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "America/St_Johns"}
	for range 4000 {
		w := Windows{Every: []int64{1, 7e9, 60e9, 1800e9, 3600e9, 7200e9, 10800e9, 86400e9, 7 * 86400e9, 36 * 3600e9}[rnd.IntN(10)]}
		w.Shift = rnd.Int64N(2*w.Every+1) - w.Every
		w.Shift %= w.Every
		if z := zones[rnd.IntN(len(zones))]; z != "" && w.Every >= 60e9 {
			loc, err := time.LoadLocation(z)
			if err != nil {
				t.Fatal(err)
			}
			w.Loc = loc
		}
		at := rnd.Int64N(4e18) - 2e18
		if rnd.IntN(2) == 0 {
			// Near the changes of the clocks in 2021.
			at = []int64{1616893200, 1635642000, 1615705200, 1636264800, 1617463800}[rnd.IntN(5)]*1e9 + rnd.Int64N(3*86400e9) - 86400e9
		}
		s := w.Start(at)
		next := w.Next(s)
		switch {
		case s > at || next <= at:
			t.Fatalf("seed %d: %+v: window of %d is [%d, %d)", seed, w, at, s, next)
		case w.Start(s) != s:
			t.Fatalf("seed %d: %+v: start %d of %d belongs to %d", seed, w, s, at, w.Start(s))
		case w.Start(next) != next:
			t.Fatalf("seed %d: %+v: window after %d starts at %d, which belongs to %d", seed, w, s, next, w.Start(next))
		case w.Start(next-1) != s:
			t.Fatalf("seed %d: %+v: last instant %d of window %d belongs to %d", seed, w, next-1, s, w.Start(next-1))
		case w.Prev(next) != s:
			t.Fatalf("seed %d: %+v: window before %d is %d, not %d", seed, w, next, w.Prev(next), s)
		}
	}
}

func TestWindowsAtTheEnds(t *testing.T) {
	for _, every := range []int64{1, 10, 60e9, 7 * 86400e9} {
		w := Windows{Every: every}
		for _, at := range []int64{model.MinTime, model.MinTime + 1, -1, 0, 1, model.MaxTime - 1, model.MaxTime} {
			s := w.Start(at)
			if s > at {
				t.Errorf("window %d of %d starts after it: %d", every, at, s)
			}
			if n := w.Next(s); n <= at {
				t.Errorf("window %d after the one of %d starts at %d", every, at, n)
			}
		}
	}
	none := Windows{}
	if none.Start(5) != model.MinTime || ResultTime(none.Start(5)) != 0 {
		t.Error("without an interval all time is one window, shown as 0")
	}
}

// TestDivided: windows that are made of whole shorter windows, which begin at multiples of
// their length in UTC. Berlin moves its clocks by an hour, Lord Howe by half an hour.
func TestDivided(t *testing.T) {
	zone := func(name string) *time.Location {
		loc, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		return loc
	}
	hour := int64(time.Hour)
	calendar := func(text string, loc *time.Location) Windows {
		w := Windows{Loc: loc}
		if !w.SetCalendar(text) {
			t.Fatal(text)
		}
		return w
	}
	for _, c := range []struct {
		w     Windows
		every int64
		want  bool
	}{
		{Windows{}, hour, false},
		{Windows{Every: 6 * hour, Shift: -hour}, hour, true},
		{Windows{Every: 6 * hour, Shift: hour / 2}, hour, false},
		{Windows{Every: hour * 3 / 2}, hour, false},
		{Windows{Every: hour}, 2 * hour, false},
		{Windows{Every: 24 * hour, Loc: zone("Europe/Berlin")}, hour, true},
		{Windows{Every: 24 * hour, Loc: zone("Europe/Berlin")}, 2 * hour, false},
		{Windows{Every: 24 * hour, Loc: zone("Asia/Kathmandu")}, hour, false},
		{Windows{Every: 24 * hour, Loc: zone("Asia/Kathmandu")}, hour / 4, true},
		{Windows{Every: 24 * hour, Loc: zone("Australia/Lord_Howe")}, hour, false},
		{Windows{Every: 24 * hour, Loc: zone("Australia/Lord_Howe")}, hour / 2, true},
		{calendar("1mo", nil), 24 * hour, true},
		{calendar("1q", nil), 48 * hour, false},
		{calendar("1mo 4d", nil), 24 * hour, true},
		{calendar("1mo 4h", nil), 24 * hour, false},
		{calendar("1y", zone("Europe/Berlin")), 24 * hour, false},
		{calendar("1y", zone("Europe/Berlin")), hour, true},
	} {
		from := time.Date(2023, 1, 15, 0, 0, 0, 0, time.UTC).UnixNano()
		if got := c.w.Divided(c.every, from, from+400*24*hour); got != c.want {
			t.Errorf("%+v by %v: %v", c.w, time.Duration(c.every), got)
		}
	}
	// The whole of time: Berlin had no whole hours before 1893.
	w := Windows{Every: 24 * hour, Loc: zone("Europe/Berlin")}
	if w.Divided(hour, model.MinTime, model.MaxTime) || !w.Divided(hour, 0, model.MaxTime) {
		t.Error("the bounds of time")
	}
}
