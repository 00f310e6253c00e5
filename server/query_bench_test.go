package server

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"tsdbd/httpapi"
	"tsdbd/internal/testkit/load"
	"tsdbd/store"
)

// BenchmarkShortQuery asks the small questions of a dashboard, each for random
// hosts and times: what a query costs before and after the data. The handler is
// called as net/http would call it.
func BenchmarkShortQuery(b *testing.B) {
	const hosts, steps = 100, 24 * 360 // a day, a row every 10 s
	s := openScaled(b, store.Options{})
	g := load.NewDevops(hosts, steps)
	w := &scaleWriter{s: s, unit: 1}
	for {
		var n int
		if w.body, n = g.Next(w.body[:0], 10_000); n == 0 {
			break
		}
		if err := w.send(); err != nil {
			b.Fatal(err)
		}
	}
	s.settle()
	h := httpapi.New(httpapi.Options{Writer: engine{Store: s.store}, Query: s.query})
	defer h.Close()
	r := rand.New(rand.NewPCG(1, 1))
	clock := func(step int) string {
		return time.Unix(0, load.DevopsTime(step)).UTC().Format(time.RFC3339)
	}
	for _, c := range []struct {
		name   string
		fields string
		hosts  int
		hours  int
		every  string
	}{
		{"1-1-1", "max(usage_user)", 1, 1, "1m"},
		{"1-1-12", "max(usage_user)", 1, 12, "1m"},
		{"1-8-1", "max(usage_user)", 8, 1, "1m"},
		{"5-1-1", "max(usage_user),max(usage_system),max(usage_idle),max(usage_nice),max(usage_iowait)", 1, 1, "1m"},
		{"all-1-8", "max(*)", 1, 8, "1h"},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var names []string
				for _, n := range r.Perm(hosts)[:c.hosts] {
					names = append(names, fmt.Sprintf("hostname = 'host_%d'", n))
				}
				first := r.IntN(steps - c.hours*360)
				q := fmt.Sprintf("SELECT %s FROM cpu WHERE (%s) AND time >= '%s' AND time < '%s' GROUP BY time(%s)",
					c.fields, strings.Join(names, " or "), clock(first), clock(first+c.hours*360), c.every)
				req := httptest.NewRequest(http.MethodGet, "/query?db=db&q="+url.QueryEscape(q), nil)
				rec := httptest.NewRecorder()
				if h.ServeHTTP(rec, req); rec.Code != http.StatusOK || !strings.Contains(rec.Body.String(), `"values"`) {
					b.Fatal(rec.Code, rec.Body)
				}
			}
		})
	}
}
