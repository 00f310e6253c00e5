package metadata

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/model/scan/scantest"
)

// TestRead reads what Append and others have written.
func TestRead(t *testing.T) {
	store := scantest.New()
	store.Create("db", "autogen")
	store.Write(t, "db", "autogen", "h", strings.Join([]string{
		`__metadata__,metric=up type="gauge",help="Old.",unit="" 1`,
		`__metadata__,metric=up type="gauge",help="Is it up?",unit="" 20000`,
		`__metadata__,metric=up,more=x type="counter",help="Another.",unit="" 30`,
		`__metadata__,metric=old type="counter",help="Gone \"since\".",unit="seconds" 2`,
		`__metadata__,metric=odd unit="bytes" 3`,
		`__metadata__ type="gauge" 3`,
		`up value=1 1`,
	}, "\n"))
	f := func(opt ReadOptions, want ...string) {
		t.Helper()
		entries, err := Read(context.Background(), store, "db", "autogen", opt)
		got := []string{}
		for _, e := range entries {
			got = append(got, fmt.Sprintf("%s|%s|%s|%s", e.Metric, e.Type, e.Help, e.Unit))
		}
		if err != nil {
			got = append(got, err.Error())
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%+v: %q, want %q", opt, got, want)
		}
	}
	const up, old, odd = "up|gauge|Is it up?|", `old|counter|Gone "since".|seconds`, "odd|unknown||bytes"
	f(ReadOptions{}, odd, old, up)
	f(ReadOptions{Limit: 2}, odd, old)
	f(ReadOptions{Metric: "old"}, old)
	f(ReadOptions{Metric: "none"})
	full := errors.New("no memory")
	left := int64(1 << 20)
	charge := func(n int64) error {
		if left -= n; left < 0 {
			return full
		}
		return nil
	}
	f(ReadOptions{Charge: charge}, odd, old, up)
	if used := int64(1<<20) - left; used < 3*entryBytes {
		t.Errorf("%d bytes are charged", used)
	}
	left = 2 * entryBytes
	if _, err := Read(context.Background(), store, "db", "autogen", ReadOptions{Charge: charge}); !errors.Is(err, full) {
		t.Errorf("without memory: %v", err)
	}
	if _, err := Read(context.Background(), store, "none", "", ReadOptions{}); !errors.Is(err, meta.ErrDatabaseNotFound) {
		t.Errorf("no database: %v", err)
	}

	// The rows of two hours count, wherever they are.
	lines := func(series string, rows ...string) {
		t.Helper()
		for _, r := range rows {
			help, at, _ := strings.Cut(r, " ")
			store.Write(t, "db", "autogen", "s", fmt.Sprintf(`__metadata__,metric=%s type="gauge",help="%s" %s`, series, help, at))
		}
	}
	lines("several", "gone 80000", "edge 86400", "one 90000", "two 90030", "one 93600")
	lines("several,more=x", "three 93000", "two 93030", "gone 86000")
	lines("week", "before 345590", "after 345610") // shards begin between them
	f(ReadOptions{Metric: "several"}, "several|gauge|one|", "several|gauge|two|", "several|gauge|three|", "several|gauge|edge|")
	f(ReadOptions{Metric: "several", PerMetric: 2}, "several|gauge|one|", "several|gauge|two|")
	f(ReadOptions{Metric: "week"}, "week|gauge|after|", "week|gauge|before|")
	f(ReadOptions{Limit: 3, PerMetric: 1}, odd, old, "several|gauge|one|")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Read(ctx, store, "db", "autogen", ReadOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	if n := store.Views(); n != 0 {
		t.Errorf("%d views are left", n)
	}
}

func TestAppend(t *testing.T) {
	f := func(e Entry, want string) {
		t.Helper()
		batch := &point.Batch{}
		got := "ok"
		if err := Append(point.NewBuilder(point.NewTable(1), batch), &e, 5); err != nil {
			got = err.Error()
		} else if r := batch.Rows[0]; len(batch.Rows) != 1 || r.Time != 5 || len(r.Layout.Fields) != 3 || string(batch.Strings) != e.Type+e.Help+e.Unit {
			t.Errorf("%+v: %+v %q", e, r, batch.Strings)
		} else {
			got = r.Series.Key()
		}
		if got != want {
			t.Errorf("%+v: %s, want %s", e, got, want)
		}
	}
	f(Entry{Metric: "up", Type: "gauge", Help: "Two\nlines.", Unit: ""}, `__metadata__,metric=up`)
	f(Entry{Metric: "a\nb", Type: "gauge"}, `tag "metric" of "__metadata__" contains a newline`)
	f(Entry{Metric: "a\xff", Type: "gauge"}, `name of metric "a\xff" is not valid UTF-8`)
	f(Entry{Metric: "up", Type: "gauge", Help: "\xff"}, `help of metric "up" is not valid UTF-8`)
	f(Entry{Metric: "up", Type: "gauge", Help: strings.Repeat("x", maxText+1)}, `help of metric "up" is longer than 65536 bytes`)
	f(Entry{Metric: "up", Type: "gauge", Unit: "\xff"}, `unit of metric "up" is not valid UTF-8`)
	if _, tags := model.ParseSeriesKey(`__metadata__,metric=up`, nil); tags[0].Key != metricTag {
		t.Error(tags)
	}
}

// TestRecent: an entry is written once an hour, and when anything of it changes.
func TestRecent(t *testing.T) {
	var r Recent
	now := time.Unix(7200, 0)
	up := Entry{Metric: "up", Type: "gauge", Help: "Is it up?"}
	changed, other := up, up
	changed.Help, other.Metric = "Up.", "down"
	fresh := func(at time.Time, database uint32, rp string, entries ...Entry) int {
		return len(r.Fresh(entries, database, rp, at))
	}
	write := func(at time.Time, entries ...Entry) { r.Written(entries, 1, "a", at) }
	f := func(got, want int) {
		t.Helper()
		if got != want {
			t.Errorf("%d are fresh, want %d", got, want)
		}
	}
	f(fresh(now, 1, "a", up, other), 2)
	f(fresh(now, 1, "a", up, other), 2) // it may have failed
	write(now, up)
	f(fresh(now, 1, "a", up), 0)
	f(fresh(now, 1, "a", changed, up, other), 2)
	f(fresh(now, 1, "a", changed, other, changed, other), 2)
	f(fresh(now, 2, "a", up), 1)
	f(fresh(now, 1, "b", up), 1)
	f(fresh(now.Add(time.Hour-1), 1, "a", up), 0)
	f(fresh(now.Add(time.Hour), 1, "a", up), 1)
	write(now.Add(time.Hour), up)
	f(fresh(now.Add(time.Hour), 1, "a", up), 0)
	for i := range 3 * maxRecent {
		write(now.Add(time.Hour), Entry{Metric: fmt.Sprint(i)})
	}
	f(fresh(now.Add(time.Hour), 1, "a", Entry{Metric: fmt.Sprint(3*maxRecent - 1)}), 0)
	if n := len(r.mu.known); n > maxRecent {
		t.Errorf("%d entries are known", n)
	}
}
