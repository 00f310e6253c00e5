package downsample

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/quantiles"
	"tsdbd/internal/testkit/testseed"
	"tsdbd/meta"
	"tsdbd/query/downsample"
)

// sample is a value that the test knows of.
type sample struct {
	at    int64 // seconds
	host  string
	value float64
}

// TestPercentiles holds percentiles and medians against sorted values, of days of which some have
// expired, by a downsample of hours and by a chain of it: exact where the rows are, and within the
// bound elsewhere. A crash, late rows, and series that become one change nothing.
func TestPercentiles(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testseed.Of(t), 48))
	for range testseed.Rounds(3) {
		h := &harness{t: t, use: downsample.Complete}
		h.begin()
		h.now = time.Unix(0, 0).Add(6 * 24 * time.Hour)
		h.must("CREATE DATABASE d WITH SHARD DURATION 1d NAME raw; CREATE RETENTION POLICY hours ON d DURATION INF REPLICATION 1 SHARD DURATION 1d; CREATE RETENTION POLICY days ON d DURATION INF REPLICATION 1 SHARD DURATION 7d; " +
			"CREATE DOWNSAMPLE ON d FROM raw INTO hours EVERY 1h AS percentile(95); CREATE DOWNSAMPLE ON d FROM hours INTO days EVERY 1d WITHOUT (host) AS percentile")
		var all []sample
		write := func(n int) {
			var lines strings.Builder
			for range n {
				s := sample{rnd.Int64N(6 * 86400), string(rune('a' + rnd.IntN(3))), math.Round(100*math.Exp(rnd.NormFloat64()*2)) / 100}
				if rnd.IntN(5) == 0 {
					s.value = -s.value
				}
				if slices.ContainsFunc(all, func(o sample) bool { return o.at == s.at }) {
					continue
				}
				all = append(all, s)
				fmt.Fprintf(&lines, "m,host=%s v=%v %d\n", s.host, s.value, s.at)
			}
			if err := h.load("raw", lines.String()); err != nil {
				t.Fatal(err)
			}
			if err := h.settle(); err != nil {
				t.Fatal(err)
			}
		}
		check := func(expired int64) {
			t.Helper()
			h.rewrite = true
			defer func() { h.rewrite = false }()
			for _, group := range []string{"time(1d)", "time(6h), host", "time(1d, 6h)", "host"} {
				every := map[string]int64{"time(6h), host": 21600, "host": 6 * 86400}[group]
				if every == 0 {
					every = 86400
				}
				offset := int64(0)
				if group == "time(1d, 6h)" {
					offset = 21600
				}
				byHost := strings.Contains(group, "host")
				windows := map[string][]float64{}
				for _, s := range all {
					host := ""
					if byHost {
						host = ",host=" + s.host
					}
					begin := int64(math.Floor(float64(s.at-offset)/float64(every)))*every + offset
					key := "m" + host + " " + time.Unix(begin, 0).UTC().Format("2006-01-02T15:04:05Z")
					windows[key] = append(windows[key], s.value)
				}
				percent := []int{1, 50, 95, 100}[rnd.IntN(4)]
				got := h.contents(fmt.Sprintf("SELECT percentile(v, %d) AS p, median(v) AS q FROM m WHERE time >= 0 AND time < 6d GROUP BY %s fill(none)", percent, group))
				for key, values := range windows {
					slices.Sort(values)
					_, text, _ := strings.Cut(key, " ")
					at, _ := time.Parse("2006-01-02T15:04:05Z", text)
					bound := 0.0
					if at.Unix() < expired {
						bound = quantiles.Error * (1 + 1e-9)
					}
					n := len(values)
					if rank := int(math.Floor(float64(n*percent)/100+0.5)) - 1; rank >= 0 {
						near(t, key, got[key], "p", values[rank], bound*math.Abs(values[rank]))
					}
					low, high := values[(n-1)/2], values[n/2]
					near(t, key, got[key], "q", low+(high-low)/2, bound*(math.Abs(low)+math.Abs(high))/2+1e-12)
				}
			}
		}
		write(400)
		check(math.MinInt64)
		write(200)
		policy, err := h.store.Catalog().RetentionPolicy("d", "raw")
		if err != nil {
			t.Fatal(err)
		}
		h.must("ALTER RETENTION POLICY raw ON d DURATION 3d")
		for _, g := range policy.ShardGroups[:3] {
			if err := h.store.Apply(t.Context(), meta.DropShardGroup{Database: "d", RetentionPolicy: "raw", ID: g.ID, IfDuration: 72 * time.Hour}); err != nil {
				t.Fatal(err)
			}
		}
		check(3 * 86400)
		h.crash(1)
		check(3 * 86400)
		h.must("UPDATE m SET host = 'a' WHERE host = 'b'")
		for i := range all {
			if all[i].host == "b" {
				all[i].host = "a"
			}
		}
		if err := h.settle(); err != nil {
			t.Fatal(err)
		}
		check(3 * 86400)
	}
}

// near wants a cell of a row to be a value, up to a bound.
func near(t *testing.T, key, row, name string, want, bound float64) {
	t.Helper()
	m := regexp.MustCompile(`\b` + name + `=(\S+)`).FindStringSubmatch(row)
	if m == nil {
		t.Fatalf("%s: %q has no %s, want %v", key, row, name, want)
	}
	if got, err := strconv.ParseFloat(m[1], 64); err != nil || math.Abs(got-want) > bound {
		t.Fatalf("%s: %s is %s, want %v within %v", key, name, m[1], want, bound)
	}
}
