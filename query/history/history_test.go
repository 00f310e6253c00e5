package history

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"tsdbd/query/admission"
)

// plain has no passwords to take out.
func plain(text string) string { return text }

// TestNormal lists texts with what is shown of their shape.
func TestNormal(t *testing.T) {
	for _, c := range [][2]string{
		{"SELECT v FROM cpu WHERE time > now() - 1h", "SELECT v FROM cpu WHERE time > now() - 1h"},
		{"SELECT v FROM cpu WHERE time >= 1767571200000ms and time <= 1767571260000ms", "SELECT v FROM cpu WHERE time >= ? and time <= ?"},
		{"SELECT v FROM cpu WHERE time >= '2026-01-05T00:00:00Z' AND host = 'a'", "SELECT v FROM cpu WHERE time >= '?' AND host = 'a'"},
		{"SELECT v FROM cpu WHERE time < '2026-01-05 12:30:00.5' AND a > 1", "SELECT v FROM cpu WHERE time < '?' AND a > 1"},
		{"SELECT v FROM cpu WHERE time>=1767571200000000000", "SELECT v FROM cpu WHERE time>=?"},
		{"SELECT v FROM cpu WHERE time > 1767571200s - 5m", "SELECT v FROM cpu WHERE time > ? - 5m"},
		{"SELECT v FROM cpu WHERE time > -1767571200s", "SELECT v FROM cpu WHERE time > -?"},
		{"SELECT v FROM cpu WHERE id = 123456789 AND day = '2026-01-0'", "SELECT v FROM cpu WHERE id = 123456789 AND day = '2026-01-0'"},
		{`SELECT "2026" FROM cpu12345678901, a.1767571200, d-2026-01-05`, `SELECT "2026" FROM cpu12345678901, a.1767571200, d-2026-01-05`},
		{"sum(rate(http_requests[5m])) @ 1767571200.123 offset 1h", "sum(rate(http_requests[5m])) @ ? offset 1h"},
		{"----------------", "----------------"},
		{"1767571200,1767571201,2026-01-05", "?,?,?"},
		{"1767571200000", "?"},
		{"", ""},
	} {
		if got := normal(c[0]); got != c[1] {
			t.Errorf("%s\n got %s\nwant %s", c[0], got, c[1])
		}
	}
	// A password that is cut through must not be shown, and neither must a long name.
	long := normal(strings.Repeat("a ", maxText/2-10) + "http://u:secret" + strings.Repeat("x", 100) + "@h")
	if !strings.HasSuffix(long, "a …") || strings.Contains(long, "secret") {
		t.Errorf("the end of a long text is %q", long[len(long)-30:])
	}
	if got := normal(strings.Repeat("x", 2*maxText)); got != "…" {
		t.Errorf("a long word is shown as %d bytes", len(got))
	}
}

// FuzzNormal normalizes any text: the result is bounded and has no literal left, and shapes
// that look alike are one.
func FuzzNormal(f *testing.F) {
	f.Add("SELECT v FROM cpu WHERE time >= 1767571200000ms and a = 'x'")
	f.Add("'2026-01-05")
	f.Add("`\\")
	h := New(plain)
	f.Fuzz(func(t *testing.T, text string) {
		once := normal(text)
		if len(once) > maxText+len("…") {
			t.Fatalf("%d bytes of %d", len(once), len(text))
		}
		start, end := literal(text)
		if start < 0 || end < start || end > len(text) {
			t.Fatalf("literal from %d to %d of %d", start, end, len(text))
		}
		if start == end && h.key(&admission.Ended{Text: text}) == h.key(&admission.Ended{Text: text + "1767571200000 "}) {
			t.Fatal("a time more is another shape")
		}
	})
}

// TestHour goes through an hour and a half with a dashboard, a slow query and a failure.
func TestHour(t *testing.T) {
	h := New(func(text string) string { return strings.ReplaceAll(text, "secret", "[REDACTED]") })
	begin := time.Date(2026, 1, 5, 12, 1, 0, 0, time.UTC)
	add := func(minute int, text, user string, took time.Duration, rows int64, failed bool) {
		h.Add(&admission.Ended{
			Text: text, Language: admission.InfluxQL, Database: "d", User: user, At: begin.Add(time.Duration(minute) * time.Minute), Took: took, Rows: rows, Failed: failed,
		})
	}
	for minute := range 90 {
		add(minute, fmt.Sprintf("SELECT v FROM cpu WHERE time > %dms", begin.UnixMilli()+int64(minute)), "ann", time.Second, 10, minute == 80)
	}
	add(10, "SELECT slow", "bob", time.Hour, 1, false)
	add(89, "SELECT slow", "bob", 3*time.Minute, 1, false)
	add(89, "SET PASSWORD FOR ann = 'secret'", "ann", time.Millisecond, 0, false)
	now := begin.Add(89 * time.Minute) // 13:30
	list, from, _ := h.Since(now.Add(-time.Hour), nil)
	if want := time.Date(2026, 1, 5, 12, 30, 0, 0, time.UTC); !from.Equal(want) {
		t.Errorf("from %v, want %v", from, want)
	}
	show := func(list []Query) (out string) {
		for _, q := range list {
			out += fmt.Sprintf("%s %s n=%d e=%d %v worst %v rows=%d last %s\n", q.User, q.Text, q.Count, q.Errors, q.Took, q.Worst, q.Rows, q.Last.Format("15:04"))
		}
		return out
	}
	// The queries of the first 29 minutes are over.
	want := `bob SELECT slow n=1 e=0 3m0s worst 3m0s rows=1 last 13:30
ann SELECT v FROM cpu WHERE time > ? n=61 e=1 1m1s worst 1s rows=610 last 13:30
ann SET PASSWORD FOR ann = '[REDACTED]' n=1 e=0 1ms worst 1ms rows=0 last 13:30
`
	if got := show(list); got != want {
		t.Errorf("all:\n%swant\n%s", got, want)
	}
	list, _, _ = h.Since(now, func(user string) bool { return user == "ann" })
	want = `ann SELECT v FROM cpu WHERE time > ? n=1 e=0 1s worst 1s rows=10 last 13:30
ann SET PASSWORD FOR ann = '[REDACTED]' n=1 e=0 1ms worst 1ms rows=0 last 13:30
`
	if got := show(list); got != want {
		t.Errorf("ann's of the last slot:\n%swant\n%s", got, want)
	}
	if list, _, _ := h.Since(now.Add(time.Hour), nil); len(list) != 0 {
		t.Errorf("an hour later there is %v", list)
	}
}

// TestBounds adds more shapes than there is room for, of short texts and of long ones: what
// took the longest stays, and the sum of the bytes is right.
func TestBounds(t *testing.T) {
	for _, size := range []int{10, 5000} {
		h := New(plain)
		at := time.Unix(1e9, 0)
		h.Add(&admission.Ended{Text: "dear", At: at.Add(-time.Second), Took: time.Hour})
		for i := range 3 * maxShapes {
			h.Add(&admission.Ended{Text: fmt.Sprintf("%d %s", i, strings.Repeat("x ", size/2)), At: at, Took: time.Millisecond})
			if len(h.mu.shapes) > maxShapes || h.mu.bytes > maxBytes {
				t.Fatalf("%d shapes of %d bytes", len(h.mu.shapes), h.mu.bytes)
			}
		}
		sum := 0
		for _, s := range h.mu.shapes {
			sum += s.bytes()
		}
		list, _, forgotten := h.Since(at, nil)
		if list[0].Text != "dear" || sum != h.mu.bytes || len(list) != len(h.mu.shapes) || int(forgotten)+len(list) != 3*maxShapes+1 {
			t.Errorf("first is %s; %d shapes, %d forgotten, %d bytes by count, %d in fact", list[0].Text, len(list), forgotten, h.mu.bytes, sum)
		}
		// Shapes of the hour before go first, however long they took.
		for i := range 1800 {
			h.Add(&admission.Ended{Text: fmt.Sprintf("new %d %s", i, strings.Repeat("x ", size/2)), At: at.Add(2 * Kept), Took: time.Millisecond})
		}
		if list, _, now := h.Since(at, nil); list[0].Text == "dear" || size == 10 && now != forgotten {
			t.Errorf("after two hours the first is %q, %d forgotten", list[0].Text, now-forgotten)
		}
	}
}

// TestTogether adds from many goroutines while others look.
func TestTogether(t *testing.T) {
	h := New(plain)
	at := time.Unix(1e9, 0)
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 500 {
				h.Add(&admission.Ended{Text: fmt.Sprint("q", i%50), At: at, Rows: 1})
				if i%100 == g {
					h.Since(at, nil)
				}
			}
		})
	}
	all.Wait()
	list, _, _ := h.Since(at, nil)
	n := int64(0)
	for _, q := range list {
		n += q.Count
	}
	if len(list) != 50 || n != 4000 {
		t.Errorf("%d shapes of %d queries", len(list), n)
	}
}

// BenchmarkNew is what a query costs whose shape is new, while others have to go.
func BenchmarkNew(b *testing.B) {
	h := New(plain)
	e := &admission.Ended{At: time.Unix(1767574800, 0)}
	n := 0
	for b.Loop() {
		n++
		e.Text, e.Took = fmt.Sprintf("SELECT last(v) FROM m WHERE id = %d", n), time.Duration(n*7919%1000)
		h.Add(e)
	}
}

// BenchmarkAdd is what a query costs whose shape is known.
func BenchmarkAdd(b *testing.B) {
	for name, text := range map[string]string{
		"short":     "SELECT last(v) FROM m",
		"grafana":   `SELECT mean("usage_user") FROM "cpu" WHERE ("host" =~ /^(ash|birch)$/) AND time >= 1767571200000ms and time <= 1767574800000ms GROUP BY time(10s), "host" fill(null)`,
		"dashboard": `sum by (instance, mode) (rate(node_cpu_seconds_total{job="node",instance=~"10.0.0.*",mode!="idle"}[5m]))`,
	} {
		b.Run(name, func(b *testing.B) {
			h := New(plain)
			e := &admission.Ended{Text: text, Language: admission.InfluxQL, Database: "telegraf", User: "grafana", At: time.Unix(1767574800, 0), Took: time.Millisecond, Rows: 60}
			for b.Loop() {
				h.Add(e)
			}
		})
	}
}
