package window

import (
	"math"
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
	berlin := zone("Europe/Berlin")
	for _, c := range []struct {
		w     Windows
		parts any // a length, or Windows
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
		{calendar("1q", nil), calendar("1mo", nil), true},
		{calendar("1q", nil), calendar("2mo", nil), false},
		{calendar("1mo 4d", nil), calendar("1mo", nil), false},
		{calendar("1y", berlin), calendar("1mo", berlin), true},
		{calendar("1y", berlin), calendar("1mo", nil), false},
		{Windows{Every: 62 * 24 * hour}, calendar("1mo", nil), false},
		{Windows{Every: 7 * 24 * hour, Shift: 96 * hour, Loc: berlin}, Windows{Every: 24 * hour, Loc: berlin}, true},
		{Windows{Every: 24 * hour}, Windows{Every: 24 * hour, Loc: berlin}, false},
		{Windows{Every: 24 * hour, Loc: zone("Europe/Vienna")}, Windows{Every: 24 * hour, Loc: berlin}, false},
		{Windows{Every: 24 * hour, Shift: hour, Loc: berlin}, Windows{Every: 24 * hour, Loc: berlin}, false},
		{calendar("1mo 4d", berlin), Windows{Every: 24 * hour, Loc: berlin}, true},
		{calendar("1mo 4d", berlin), Windows{Every: 48 * hour, Loc: berlin}, false},
	} {
		from := time.Date(2023, 1, 15, 0, 0, 0, 0, time.UTC).UnixNano()
		parts, ok := c.parts.(Windows)
		if !ok {
			parts.Every = c.parts.(int64)
		}
		if got := c.w.Divided(&parts, from, from+400*24*hour); got != c.want {
			t.Errorf("%v by %v: %v", &c.w, &parts, got)
		}
	}
	// The whole of time: Berlin had no whole hours before 1893.
	w := Windows{Every: 24 * hour, Loc: zone("Europe/Berlin")}
	parts := Windows{Every: hour}
	if w.Divided(&parts, model.MinTime, model.MaxTime) || !w.Divided(&parts, 0, model.MaxTime) {
		t.Error("the bounds of time")
	}
}

// TestCount: the end of n windows is where Next comes to in n steps, and Count finds n of them,
// in zones that move their clocks and at the ends of time.
func TestCount(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testseed.Of(t), 5))
	lengths := []string{"1mo", "1q", "7mo", "2y", "24h", "48h", "168h"}
	for range 500 {
		w := Windows{}
		zone := []string{"", "Europe/Berlin", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Kathmandu"}[rnd.IntN(5)]
		if zone != "" {
			loc, err := Location(zone)
			if err != nil {
				t.Fatal(err)
			}
			w.Loc = loc
		}
		length := lengths[rnd.IntN(len(lengths))]
		if d, err := time.ParseDuration(length); err == nil {
			w.Every = int64(d)
		} else if !w.SetCalendar(length) {
			t.Fatal(length)
		}
		at := rnd.Int64N(int64(50*8766*time.Hour)) + int64(8766*time.Hour)
		if rnd.IntN(20) == 0 {
			at = model.MaxTime - rnd.Int64N(int64(3*8766*time.Hour))
		}
		n := 1 + rnd.IntN(100)
		first, end := w.Start(at), w.Start(at)
		for i := 0; i < n && end < model.MaxTime; i++ {
			if end = w.Next(end); i == 0 && w.End(at) != end && end < model.MaxTime {
				t.Fatalf("%v: the window of %d ends at %d, want %d", &w, at, w.End(at), end)
			}
		}
		got := w.After(at, int64(n))
		if end >= model.MaxTime {
			if got < model.MaxTime {
				t.Fatalf("%v: %d windows from %d end at %d, not after all time", &w, n, at, got)
			}
			continue
		}
		if got != end || w.Count(first, end) != int64(n) {
			t.Fatalf("%v: %d windows from %d end at %d, want %d; there are %d", &w, n, at, got, end, w.Count(first, end))
		}
	}
	w := Windows{Every: int64(time.Hour)}
	if w.After(0, math.MaxInt64) != AfterTime || w.End(model.MaxTime) != AfterTime || w.Count(5, 5) != 0 {
		t.Error("the ends of time")
	}
}

// TestOrdinal: ordinals grow with the windows, and say where they begin, also where clocks
// are moved and at the ends of time.
func TestOrdinal(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testseed.Of(t), 3))
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kathmandu", "America/St_Johns"}
	lengths := []int64{1, 3, 7e6, 7e9, 60e9, 1800e9, 2700e9, 3600e9, 5400e9, 7200e9, 86400e9, 7 * 86400e9, 36 * 3600e9}
	for i := range 2000 {
		loc, err := time.LoadLocation(zones[rnd.IntN(len(zones))])
		if err != nil {
			t.Fatal(err)
		}
		w := Windows{Every: lengths[rnd.IntN(len(lengths))], Loc: loc}
		w.Shift = rnd.Int64N(2*w.Every+1) - w.Every
		if i%5 == 0 {
			w.SetCalendar([]string{"1mo", "1q", "1y", "1mo 4d"}[rnd.IntN(4)])
		}
		at := []int64{rnd.Int64(), -rnd.Int64(), 1.5e18 + rnd.Int64N(1e18), model.MaxTime - rnd.Int64N(1e12), model.MinTime + w.Every + rnd.Int64N(1e12)}[rnd.IntN(5)]
		if _, moved := time.Unix(0, at).In(loc).ZoneBounds(); i%2 == 0 && !moved.IsZero() && moved.Unix() < model.MaxTime/1e9 {
			at = moved.UnixNano() - rnd.Int64N(3*w.Every+1)
		}
		start := w.Start(at)
		if start == model.MinTime {
			continue
		}
		for last := int64(0); start < model.MaxTime; start = w.Next(start) {
			n := w.Ordinal(start)
			if got := w.OfOrdinal(n); got != start {
				t.Fatalf("%+v: window %d has the ordinal %d, which is of %d", w, start, n, got)
			}
			if last != 0 && n <= last {
				t.Fatalf("%+v: window %d has the ordinal %d after %d", w, start, n, last)
			}
			if last = n; rnd.IntN(6) == 0 {
				break
			}
		}
	}
}

func TestAddMonths(t *testing.T) {
	const form = "2006-01-02T15:04"
	for _, c := range []struct {
		from   string
		months int
		want   string
	}{
		{"2023-03-15T10:00", -1, "2023-02-15T10:00"},
		{"2023-03-31T10:00", -1, "2023-02-28T10:00"},
		{"2024-03-31T10:00", -1, "2024-02-29T10:00"},
		{"2024-02-29T10:00", 12, "2025-02-28T10:00"},
		{"2023-12-31T23:59", 2, "2024-02-29T23:59"},
		{"2023-01-31T00:00", -3, "2022-10-31T00:00"},
	} {
		from, err := time.Parse(form, c.from)
		if err != nil {
			t.Fatal(err)
		}
		if got := AddMonths(from, c.months).Format(form); got != c.want {
			t.Errorf("%s and %d months: got %s, want %s", c.from, c.months, got, c.want)
		}
	}
}
