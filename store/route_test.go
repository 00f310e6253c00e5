package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/meta"
	"tsdbd/model/point"
)

// routeRow is one line of a random batch.
type routeRow struct {
	host    string
	timeTag bool
	fields  []routeField
	t       int64
}

type routeField struct{ key, text, read, kind string }

// naiveWrite says what a batch means: InfluxDB's rules, a row at a time. types
// are those registered so far, by shard group's start and field.
func naiveWrite(rows []routeRow, now int64, keep, past, future, group int64, types map[string]string, want points) (dropped int) {
	start := func(t int64) int64 {
		m := t % group
		if m < 0 {
			m += group
		}
		return t - m
	}
	inTime := func(t int64) bool {
		return (keep == 0 || t >= now-keep) && (past == 0 || t >= now-past) && (future == 0 || t <= now+future)
	}
	opened := map[int64]bool{}
	for _, r := range rows {
		if inTime(r.t) {
			opened[start(r.t)] = true
		}
	}
	store := func(r routeRow) bool {
		if r.timeTag {
			return false
		}
		var fields []routeField
		for _, f := range r.fields {
			if f.key != "time" {
				fields = append(fields, f)
			}
		}
		if len(fields) == 0 {
			return false
		}
		for _, f := range fields {
			have := types[fmt.Sprint(start(r.t), f.key)]
			if f.kind == "long" || have != "" && have != f.kind {
				return false
			}
		}
		// A row that is stored gives its fields their types, no other does.
		for _, f := range fields {
			types[fmt.Sprint(start(r.t), f.key)] = f.kind
			want[pointKey("m,host="+r.host, r.t, f.key)] = f.read
		}
		return true
	}
	limited := past > 0 || future > 0
	for _, r := range rows {
		if !inTime(r.t) && (limited || !opened[start(r.t)]) || !store(r) {
			dropped++
		}
	}
	return dropped
}

// TestRouteAgainstNaive writes random batches, of rows too old, too new, for
// several shards, refused ones, and compares what is stored and dropped.
func TestRouteAgainstNaive(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 5))
	fs := vfstest.New()
	now := time.Unix(1_700_000_000, 0)
	opt := testOptions(fs)
	opt.Now = func() time.Time { return now }
	s := openTest(t, fs, opt)
	defer s.Close()
	hour := int64(time.Hour)
	const group = int64(time.Hour)
	for run := range 300 {
		db := fmt.Sprint("db", run)
		spec := meta.RetentionPolicySpec{Name: "rp"}
		var keep, past, future int64
		if r.IntN(3) > 0 {
			keep = 24 * hour
		}
		d, g := time.Duration(keep), time.Duration(group)
		spec.Duration, spec.ShardGroupDuration = &d, &g
		if r.IntN(4) == 0 {
			past = 3 * hour
			p := time.Duration(past)
			spec.PastWriteLimit = &p
		}
		if r.IntN(4) == 0 {
			future = 2 * hour
			f := time.Duration(future)
			spec.FutureWriteLimit = &f
		}
		s.must(s.Apply(context.Background(), meta.CreateDatabase{Name: db, Policy: &spec}))
		want, types, n := points{}, map[string]string{}, 0
		for range 1 + r.IntN(3) {
			rows := make([]routeRow, 1+r.IntN(12))
			var b strings.Builder
			for i := range rows {
				row := routeRow{host: fmt.Sprint(r.IntN(3)), timeTag: r.IntN(20) == 0}
				row.t = now.UnixNano()
				switch r.IntN(5) {
				case 0: // at the floor, before and after it, in one group
					row.t -= 24*hour + int64(r.IntN(5)-2)*int64(time.Minute)
				case 1:
					row.t -= int64(r.IntN(40)) * hour
				case 2:
					row.t += int64(r.IntN(4)) * hour
				}
				for k, key := range []string{"a", "b", "time"} {
					if r.IntN(3) == 0 || k == 0 {
						n++
						f := routeField{key, fmt.Sprint(n), fmt.Sprint(n), "float"}
						switch {
						case key == "time" || r.IntN(12) > 1:
						case r.IntN(30) == 0 && run%50 == 0:
							f = routeField{key, `"` + strings.Repeat("x", 1<<20+1) + `"`, "", "string"}
							f.kind = "long"
						default:
							f = routeField{key, fmt.Sprint(n, "i"), fmt.Sprint(n, "i"), "integer"}
						}
						row.fields = append(row.fields, f)
					}
				}
				if r.IntN(25) == 0 {
					row.fields = []routeField{{"time", "1", "1", "float"}}
				}
				rows[i] = row
				b.WriteString("m,host=" + row.host)
				if row.timeTag {
					b.WriteString(",time=x")
				}
				for k, f := range row.fields {
					b.WriteString([]string{" ", ","}[min(k, 1)] + f.key + "=" + f.text)
				}
				fmt.Fprintf(&b, " %d\n", row.t)
			}
			dropped := naiveWrite(rows, now.UnixNano(), keep, past, future, group, types, want)
			got := 0
			var p *point.PartialWriteError
			if err := s.write(db, b.String()); errors.As(err, &p) {
				got = p.Dropped
			} else if err != nil {
				t.Fatal(err)
			}
			text := b.String()
			if len(text) > 4000 {
				text = "(long)"
			}
			if got != dropped {
				t.Fatalf("run %d: %d dropped (%v), want %d; keep %d past %d future %d now %d\n%s", run, got, p, dropped, keep/hour, past/hour, future/hour, now.UnixNano(), text)
			}
			if text := diff(s.read(db), want); text != "" {
				t.Fatalf("run %d: %s\n%s", run, text, b.String()[:min(b.Len(), 4000)])
			}
		}
		s.must(s.Apply(context.Background(), meta.DropDatabase{Name: db}))
	}
}

// TestGroupsOfABatch writes a batch over many shard groups, in any order, with
// some that are there: the catalog, which is written and synced as a whole,
// changes once.
func TestGroupsOfABatch(t *testing.T) {
	fs := vfstest.New()
	s := openTest(t, fs, testOptions(fs))
	defer func() { s.must(s.Close()) }()
	s.create("db")
	f := func(changes uint64, weeks ...int64) {
		t.Helper()
		before := s.Catalog().Index
		var lines strings.Builder
		for _, w := range weeks {
			fmt.Fprintf(&lines, "m v=1 %d\nm v=2 %d\n", origin+w*week, origin+w*week+1)
		}
		s.must(s.write("db", lines.String()))
		if got := s.Catalog().Index - before; got != changes {
			t.Errorf("weeks %v: %d changes of the catalog, want %d", weeks, got, changes)
		}
	}
	f(1, 7)
	f(0, 7)
	var many []int64
	for w := range int64(100) {
		many = append(many, w*37%100)
	}
	f(1, many...)
	f(0, many...)
	f(1, 3, 200, 5, 100, 200)
	// A row that the policy refuses makes no group.
	hour := time.Hour
	s.must(s.Apply(t.Context(), meta.AlterRetentionPolicy{Database: "db", Policy: meta.RetentionPolicySpec{Name: "autogen", PastWriteLimit: &hour}}))
	before := len(s.Catalog().Databases[0].RetentionPolicies[0].ShardGroups)
	if _, n := dropped(t, s.write("db", fmt.Sprintf("m v=1 %d\nm v=1 %d\n", origin+300*week, s.opt.Now().UnixNano()))); n != 1 {
		t.Errorf("%d points dropped, want 1", n)
	}
	if made := len(s.Catalog().Databases[0].RetentionPolicies[0].ShardGroups) - before; made != 1 {
		t.Errorf("%d groups made, want that of the present", made)
	}
}
