package downsample

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/meta"
)

// expire drops the first shard group of a policy as retention does.
func (h *harness) expire(policy string) error {
	rp, err := h.store.Catalog().RetentionPolicy("d", policy)
	if err != nil || len(rp.ShardGroups) == 0 {
		return err
	}
	if rp.Duration == 0 {
		return errors.New("the policy keeps rows for ever")
	}
	return h.store.Apply(context.Background(), meta.DropShardGroup{Database: "d", RetentionPolicy: policy, ID: rp.ShardGroups[0].ID, IfDuration: rp.Duration})
}

// TestModel: whatever is written, late or not, deleted and dropped, and wherever the
// server is killed, the target has what the aggregates over the source give.
func TestModel(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testseed.Of(t), 1))
	for range testseed.Rounds(12) {
		h := newHarness(t)
		h.rows = []int{0, 3, 50}[rnd.IntN(3)]
		h.now = time.Unix(0, 0).Add(48 * time.Hour)
		h.must("CREATE DATABASE d WITH SHARD DURATION 1d NAME raw; CREATE RETENTION POLICY t1 ON d DURATION INF REPLICATION 1 SHARD DURATION 1d; CREATE RETENTION POLICY t2 ON d DURATION INF REPLICATION 1 SHARD DURATION 7d; CREATE RETENTION POLICY t3 ON d DURATION INF REPLICATION 1 SHARD DURATION 1d")
		downsamples := []struct{ into, create, want string }{
			{"t1", "CREATE DOWNSAMPLE ON d FROM raw INTO t1 EVERY 1h AS mean, max, count, first, last, increase, distinct, percentile(9)", "SELECT sum(*), max(*), count(*), first(*), last(*), increase(*), sum_hll(f) AS distinct_f, sum_hll(g) AS distinct_g, sum_hll(s) AS distinct_s, sum_ddsketch(f) AS percentile_f, sum_ddsketch(g) AS percentile_g FROM raw./.*/ WHERE %s GROUP BY time(1h), * fill(none)"},
			{"t2", "CREATE DOWNSAMPLE ON d FROM raw WITH g min, g increase INTO t2 EVERY 1d GROUP BY b AS sum, min, increase WHERE a != 'x'", "SELECT sum(/^[fs]$/), min(*), increase(*) FROM raw./.*/ WHERE a != 'x' AND %s GROUP BY time(1d), b fill(none)"},
			{"t3", "CREATE DOWNSAMPLE ON d FROM t1./m[01]/ INTO t3 EVERY 6h WITHOUT (b) AS mean, max, distinct, percentile", "SELECT sum(*), max(*), count(*), sum_hll(f) AS distinct_f, sum_hll(g) AS distinct_g, sum_hll(s) AS distinct_s, sum_ddsketch(f) AS percentile_f, sum_ddsketch(g) AS percentile_g FROM raw./m[01]/ WHERE %s GROUP BY time(6h), a fill(none)"},
		}
		created := 0
		line := func() string {
			tags := ""
			if rnd.IntN(4) > 0 {
				tags += ",a=" + []string{"x", "y"}[rnd.IntN(2)]
			}
			if rnd.IntN(3) == 0 {
				tags += ",b=z"
			}
			fields := fmt.Sprintf("f=%d", rnd.IntN(50))
			switch rnd.IntN(4) {
			case 0:
				fields = fmt.Sprintf("g=%di", rnd.IntN(50))
			case 1:
				fields += fmt.Sprintf(",s=%q", fmt.Sprint(rnd.IntN(9)))
			}
			age := rnd.IntN(3600 * 6)
			if rnd.IntN(3) == 0 {
				age = rnd.IntN(3600 * 48)
			}
			return fmt.Sprintf("m%d%s %s %d\n", rnd.IntN(3), tags, fields, h.now.Unix()-int64(age))
		}
		check := func(what string) {
			t.Helper()
			if err := h.settle(); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			for _, c := range downsamples[:created] {
				d := h.store.Catalog().Database("d").Downsample(c.into)
				upTo := d.Start(h.now.Add(-settle(d.Current().Every)).UnixNano())
				want := h.contents(fmt.Sprintf(c.want, fmt.Sprintf("time >= 0 AND time < %d", upTo)))
				// A window that is longer since a change is not due yet: the rows of shorter ones are there.
				got := h.contents(fmt.Sprintf("SELECT * FROM %s./.*/ WHERE time < %d GROUP BY *", c.into, upTo))
				if maps.Equal(got, want) {
					continue
				}
				for _, k := range slices.Sorted(maps.Keys(want)) {
					if got[k] != want[k] {
						t.Errorf("%s: %s: %s has %q, want %q", what, c.into, k, got[k], want[k])
					}
				}
				for k := range got {
					if want[k] == "" {
						t.Errorf("%s: %s: %s has %q, want nothing", what, c.into, k, got[k])
					}
				}
				t.FailNow()
			}
		}
		for range 60 {
			h.now = h.now.Add(time.Duration(rnd.IntN(40)) * time.Minute)
			what := "write"
			switch rnd.IntN(15) {
			case 0:
				if created < len(downsamples) {
					what = downsamples[created].create
					h.must(what)
					created++
				}
			case 1:
				what = []string{
					"DELETE FROM raw.m0 WHERE a = 'y'", "DROP SERIES FROM m1 WHERE b = 'z'", "DROP MEASUREMENT m2", "DELETE FROM raw./m.*/ WHERE a = 'x'",
					fmt.Sprintf("DELETE FROM raw.m1 WHERE time > %d", h.now.Add(-20*time.Hour).UnixNano()),
				}[rnd.IntN(5)]
				h.must(what)
			case 2:
				if groups := h.store.Catalog().Database("d").RetentionPolicy("raw").ShardGroups; len(groups) > 0 && rnd.IntN(3) == 0 {
					what = fmt.Sprintf("DROP SHARD %d", groups[rnd.IntN(len(groups))].Shards[0].ID)
					h.must(what)
				}
			case 3:
				what = "crash"
				h.crash(1)
			case 4:
				what = "crash in the middle of a round"
				ctx, cancel := context.WithCancel(context.Background())
				n := rnd.IntN(20)
				h.fail = func(string, int) error {
					if n--; n < 0 {
						cancel()
						return context.Canceled
					}
					return nil
				}
				h.service.everyTime()
				h.service.round(ctx)
				cancel()
				h.fail = nil
				h.crash(rnd.Float64())
			case 5:
				what = "settled"
				check(what)
			case 7:
				if created > 0 {
					what = []string{
						"DELETE FROM t1./.*/ WHERE a = 'x'", fmt.Sprintf("DELETE FROM t1.m1 WHERE time > %d", h.now.Add(-9*time.Hour).UnixNano()),
						"DROP SERIES FROM m0 WHERE a = 'y'", "foreign rows",
					}[rnd.IntN(4)]
					if what == "foreign rows" {
						at := h.now.Add(-time.Duration(rnd.IntN(30)) * time.Hour)
						if h.store.Catalog().Database("d").RetentionPolicy("raw").ShardGroupAt(at.UnixNano()) == nil {
							continue // nothing says that they are wrong
						}
						if err := h.load("t1", fmt.Sprintf("m%d,a=x max_f=%d %d\nm0,c=new count_f=1i %d\n", rnd.IntN(3), rnd.IntN(50), at.Truncate(time.Hour).Unix(), at.Unix())); err != nil {
							t.Fatal(err)
						}
					} else {
						h.must(what)
					}
				}
			case 8:
				if groups := h.store.Catalog().Database("d").RetentionPolicy("t1").ShardGroups; len(groups) > 0 && created > 0 {
					what = fmt.Sprintf("DROP SHARD %d", groups[rnd.IntN(len(groups))].Shards[0].ID)
					h.must(what)
				}
			case 9:
				if created > 1 {
					every := []string{"6h", "12h", "1d", "1d tz('America/New_York')", "1mo tz('Asia/Kathmandu')"}[rnd.IntN(5)]
					what = "ALTER DOWNSAMPLE ON d FROM raw INTO t2 EVERY " + every
					h.must(what)
					length, zone, _ := strings.Cut(every, " ")
					downsamples[1].want = "SELECT sum(/^[fs]$/), min(*), increase(*) FROM raw./.*/ WHERE a != 'x' AND %s GROUP BY time(" + length + "), b fill(none) " + zone
				}
			case 6:
				what = "flush"
				h.store.FlushSoon()
			default:
				var lines string
				for range 1 + rnd.IntN(30) {
					lines += line()
				}
				if err := h.load("raw", lines); err != nil {
					t.Fatal(err)
				}
			}
		}
		h.now = h.now.Add(49 * time.Hour)
		check("at the end")
		before := h.written
		h.crash(1)
		check("after a restart")
		if h.written != before {
			t.Errorf("%d rows were written again", h.written-before)
		}
		_ = h.store.Close()
	}
}
