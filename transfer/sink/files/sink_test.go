package files_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tsdbd/exchange"
	"tsdbd/exchange/rows"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/store"
	"tsdbd/transfer/journal"
	"tsdbd/transfer/mover"
	"tsdbd/transfer/sink/files"
)

var (
	monday = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	aWeek  = 7 * 24 * int64(time.Hour)
)

// row is a row of tests: integers by the names of fields.
type row struct {
	key    string
	at     int64
	fields map[string]int64
}

// list is a reader of rows, which are sorted.
type list struct {
	rows   []row
	floats bool // the values are floats
	err    error
}

func (l *list) Next(context.Context) (*rows.Run, error) {
	if len(l.rows) == 0 {
		if l.err != nil {
			return nil, l.err
		}
		return nil, io.EOF
	}
	n := 1
	for n < len(l.rows) && l.rows[n].key == l.rows[0].key {
		n++
	}
	part := l.rows[:n]
	l.rows = l.rows[n:]
	run := &rows.Run{Key: part[0].key}
	names := map[string]bool{}
	for _, r := range part {
		for f := range r.fields {
			names[f] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		kind := model.Integer
		if l.floats {
			kind = model.Float
		}
		run.Fields = append(run.Fields, column.Field{Key: name, Type: kind})
		v := column.Vector{Type: kind}
		for _, r := range part {
			x, ok := r.fields[name]
			if !ok {
				v.AppendNull()
				continue
			}
			one := column.Vector{Type: kind, Ints: []int64{x}, Floats: []float64{float64(x)}}
			v.AppendFrom(&one, 0)
		}
		run.Cols = append(run.Cols, v)
	}
	for _, r := range part {
		run.Times = append(run.Times, r.at)
	}
	return run, nil
}

func (l *list) Close() error { return nil }

// part returns rows as a part of d.autogen.
func part(id uint64, times model.TimeRange, all ...row) *mover.Part {
	return &mover.Part{Name: mover.Shard(id, "d", "autogen"), Database: "d", Policy: "autogen", ID: id, Times: times, Values: int64(len(all)), Open: func(_ context.Context, within model.TimeRange, _ mover.Refuse) (rows.Reader, error) {
		chosen := slices.DeleteFunc(slices.Clone(all), func(r row) bool { return !within.Contains(r.at) })
		return &list{rows: chosen}, nil
	}}
}

func source(parts ...*mover.Part) *mover.List {
	return &mover.List{
		All:   mover.Catalog{Databases: []*meta.Database{{Name: "d", DefaultRetentionPolicy: "autogen", RetentionPolicies: []*meta.RetentionPolicy{{Name: "autogen", ShardGroupDuration: time.Duration(aWeek), ReplicaN: 1}}}}},
		Items: parts,
	}
}

// into moves a source into a store.
func into(t testing.TB, from mover.Source, st *store.Store, opt mover.Options) (*mover.Stats, error) {
	return mover.Run(t.Context(), from, files.New(st), opt)
}

// refused opens a file for refused rows, and returns a function that reads it.
func refused(t testing.TB) (*mover.Refused, func() string) {
	name := filepath.Join(t.TempDir(), "refused")
	r, err := mover.OpenRefused(name, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r, func() string {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
		}
		return string(b)
	}
}

func openStore(t testing.TB) *store.Store {
	t.Helper()
	st, err := store.Open(t.TempDir(), store.Options{RetentionInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return st
}

// content returns what a policy of a store has, a row a line.
func content(t testing.TB, st *store.Store, database, policy string) string {
	t.Helper()
	v, err := st.View(database, policy, model.AllTime)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Release()
	var lines []string
	for _, sh := range v.Shards() {
		for _, m := range sh.Measurements() {
			set, err := sh.Select(t.Context(), m, nil)
			if err != nil {
				t.Fatal(err)
			}
			fields := sh.Fields(m)
			var names []string
			for _, f := range fields {
				names = append(names, f.Key)
			}
			c, err := sh.Scan(t.Context(), scan.Request{Measurement: m, Series: set, Fields: names, Range: model.AllTime})
			if err != nil {
				t.Fatal(err)
			}
			for id, ok := c.NextSeries(); ok; id, ok = c.NextSeries() {
				key, err := v.SeriesKey(id)
				if err != nil {
					t.Fatal(err)
				}
				for ch := c.NextChunk(); ch != nil; ch = c.NextChunk() {
					times, err := ch.Times()
					if err != nil {
						t.Fatal(err)
					}
					for i, at := range times {
						line := fmt.Sprintf("%s %d", key, (at-monday)/int64(time.Hour))
						for f := range fields {
							v, err := ch.Column(f)
							if err != nil {
								t.Fatal(err)
							}
							switch {
							case !v.IsValid(i) || v.Len() == 0:
							case v.Type == model.Integer:
								line += fmt.Sprintf(" %s=%di", fields[f].Key, v.Ints[i])
							case v.Type == model.Float:
								line += fmt.Sprintf(" %s=%v", fields[f].Key, v.Floats[i])
							}
						}
						lines = append(lines, line)
					}
				}
			}
			if err := c.Err(); err != nil {
				t.Fatal(err)
			}
			c.Close()
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func hour(n int) int64 { return monday + int64(n)*int64(time.Hour) }

func at(key string, hours int, f string, v int64) row {
	return row{key, hour(hours), map[string]int64{f: v}}
}

// TestIntoMerges loads parts that meet in shards: the later part wins, field by field.
func TestIntoMerges(t *testing.T) {
	week := model.TimeRange{Min: monday, Max: monday + aWeek - 1}
	src := source(
		part(1, week, at("m,h=a", 1, "x", 1), at("m,h=a", 2, "x", 2), at("m,h=c", 1, "x", 9)),
		part(2, week, row{"m,h=a", hour(2), map[string]int64{"x": 20, "y": 5}}, at("m,h=a", 3, "y", 6), at("m,h=b", 0, "y", 7)),
		part(3, model.TimeRange{Min: week.Max + 1, Max: week.Max + aWeek}, at("m,h=a", 7*24, "x", 3)),
	)
	st := openStore(t)
	res, err := into(t, src, st, mover.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const want = "m,h=a 1 x=1i\nm,h=a 168 x=3i\nm,h=a 2 x=20i y=5i\nm,h=a 3 y=6i\nm,h=b 0 y=7i\nm,h=c 1 x=9i"
	if got := content(t, st, "d", ""); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if res.Parts != 2 || res.Joined != 0 || res.Values != 7 || len(res.Missing()) > 0 || res.Databases != 1 || res.Policies != 1 || res.Bytes == 0 {
		t.Errorf("%+v, missing %v", res, res.Missing())
	}
	for name, m := range res.Target {
		if m.Series != 3 || name.Database != "d" {
			t.Errorf("%v has %d series", name, m.Series)
		}
	}
}

// TestIntoOtherGroups loads into a store whose shard groups are shorter, or longer, than
// those of the source, and in which some shards have points.
func TestIntoOtherGroups(t *testing.T) {
	var all []row
	var want []string
	for i := range 14 * 24 {
		all = append(all, at("m,h=a", i, "x", int64(i)))
		want = append(want, fmt.Sprintf("m,h=a %d x=%di", i, i))
	}
	slices.Sort(want)
	parts := []*mover.Part{part(1, model.TimeRange{Min: monday, Max: monday + aWeek - 1}, all[:7*24]...), part(2, model.TimeRange{Min: monday + aWeek, Max: monday + 2*aWeek - 1}, all[7*24:]...)}
	for _, c := range []struct {
		groups          time.Duration
		shards, written int
	}{{24 * time.Hour, 14, 1}, {30 * 24 * time.Hour, 1, 1}, {time.Duration(aWeek), 2, 1}} {
		st := openStore(t)
		if err := st.Apply(t.Context(), meta.CreateDatabase{Name: "d", Policy: &meta.RetentionPolicySpec{Name: "autogen", ShardGroupDuration: &c.groups}}); err != nil {
			t.Fatal(err)
		}
		early := source(part(9, model.TimeRange{Min: monday, Max: monday + int64(time.Hour)}, at("m,h=a", 0, "x", -1), at("m,h=z", 0, "x", -1)))
		if _, err := into(t, early, st, mover.Options{}); err != nil {
			t.Fatal(err)
		}
		var notes []string
		res, err := into(t, source(parts...), st, mover.Options{Note: func(text string) { notes = append(notes, text) }})
		if err != nil {
			t.Fatal(err)
		}
		if got := content(t, st, "d", ""); got != strings.Join(want, "\n")+"\nm,h=z 0 x=-1i" {
			t.Errorf("groups of %s:\n%s", c.groups, got)
		}
		if res.Parts < c.shards || res.Joined != c.written || len(res.Missing()) > 0 || res.Values != int64(len(all)) {
			t.Errorf("groups of %s: %+v, missing %v", c.groups, res, res.Missing())
		}
		if told := len(notes) > 0 && strings.Contains(notes[0], "stays as it is"); told != (c.groups != time.Duration(aWeek)) {
			t.Errorf("groups of %s: notes %q", c.groups, notes)
		}
	}
}

// TestIntoFarApart loads a shard of the source with a row in 1800 and one in 2200 into shards of
// an hour: only those are made that have rows.
func TestIntoFarApart(t *testing.T) {
	first, last := time.Date(1800, 1, 2, 3, 4, 5, 6, time.UTC).UnixNano(), time.Date(2200, 1, 2, 3, 4, 5, 6, time.UTC).UnixNano()
	st := openStore(t)
	src := source(part(1, model.AllTime, row{"m,h=a", first, map[string]int64{"x": 1}}, row{"m,h=a", first + 1, map[string]int64{"x": 2}}, row{"m,h=a", last, map[string]int64{"x": 3}}),
		part(2, model.AllTime))
	src.All.Databases[0].RetentionPolicies[0].ShardGroupDuration = time.Hour
	for round := range 2 {
		res, err := into(t, src, st, mover.Options{})
		groups := st.Catalog().Database("d").RetentionPolicies[0].ShardGroups
		if err != nil || res.Parts != 2 || res.Values != 3 || len(groups) != 2 || len(res.Missing()) > 0 {
			t.Errorf("round %d: %v, %+v, %d groups", round, err, res, len(groups))
		}
	}
}

// TestIntoExpired leaves out what the policy would have dropped, and tells so.
func TestIntoExpired(t *testing.T) {
	src := source(part(1, model.TimeRange{Min: monday, Max: monday + aWeek - 1}, at("m,h=a", 1, "x", 1)), part(2, model.TimeRange{Min: monday + aWeek, Max: monday + 2*aWeek - 1}, at("m,h=a", 7*24, "x", 2)))
	src.All.Databases[0].RetentionPolicies[0].Duration = time.Duration(aWeek)
	st := openStore(t)
	var notes []string
	res, err := into(t, src, st, mover.Options{
		Now:  func() time.Time { return time.Unix(0, monday+2*aWeek+int64(time.Hour)) },
		Note: func(text string) { notes = append(notes, text) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := content(t, st, "d", ""); got != "m,h=a 168 x=2i" || res.Expired != 1 || res.Parts != 1 || len(notes) != 1 || !strings.Contains(notes[0], "shard 1 of d.autogen is left out as far as it is older") {
		t.Errorf("%s\n%+v, %q", got, res, notes)
	}
}

// TestIntoConflicts hands over values whose type is not that of their field: in one part,
// among parts that meet, and in a shard that has points.
func TestIntoConflicts(t *testing.T) {
	week := model.TimeRange{Min: monday, Max: monday + aWeek - 1}
	floats := part(2, week)
	floats.Open = func(context.Context, model.TimeRange, mover.Refuse) (rows.Reader, error) {
		return &list{floats: true, rows: []row{at("m,h=a", 5, "x", 7), {"m,h=b", hour(1), map[string]int64{"x": 8, "z": 9}}}}, nil
	}
	st := openStore(t)
	for round, want := range []string{
		"m,h=a 1 x=1i\nm,h=b 1 z=9",
		"m,h=a 1 x=1i\nm,h=b 1 z=9",
	} {
		failed, text := refused(t)
		res, err := into(t, source(part(1, week, at("m,h=a", 1, "x", 1)), floats), st, mover.Options{Failed: failed})
		if err != nil {
			t.Fatal(err)
		}
		if got := content(t, st, "d", ""); got != want || len(res.Missing()) > 0 {
			t.Errorf("round %d: %s, missing %v", round, got, res.Missing())
		}
		if res.Refused < 2 || len(res.Reasons) != 1 || res.Reasons[0].Values != res.Refused || !strings.Contains(res.Reasons[0].Text, `input field "x" on measurement "m" is type float, already exists as type integer`) {
			t.Errorf("round %d: %+v", round, res)
		}
		if !strings.HasPrefix(text(), "# CONTEXT-DATABASE:d\n# CONTEXT-RETENTION-POLICY:autogen\nm,h=a x=7 ") {
			t.Errorf("round %d: %s", round, text())
		}
		if round == 0 {
			floats.Open = func(context.Context, model.TimeRange, mover.Refuse) (rows.Reader, error) {
				return &list{floats: true, rows: []row{at("m,h=a", 5, "x", 7), at("m,h=b", 1, "x", 8)}}, nil
			}
		}
	}
}

// TestIntoResumes breaks off at each part, and goes on with the journal.
func TestIntoResumes(t *testing.T) {
	broken := errors.New("disk on fire")
	st := openStore(t)
	name := filepath.Join(t.TempDir(), "journal")
	var want []string
	for failing := range 4 {
		var parts []*mover.Part
		want = nil
		for i := range 4 {
			p := part(uint64(i), model.TimeRange{Min: monday + int64(i)*aWeek, Max: monday + int64(i+1)*aWeek - 1}, at("m,h=a", i*7*24, "x", int64(i)))
			if i == failing && failing < 3 {
				p.Open = func(context.Context, model.TimeRange, mover.Refuse) (rows.Reader, error) {
					return &list{rows: []row{at("m,h=a", i*7*24, "x", -1)}, err: broken}, nil
				}
			}
			parts = append(parts, p)
			want = append(want, fmt.Sprintf("m,h=a %d x=%di", i*7*24, i))
		}
		j, err := journal.Open(name, "test")
		if err != nil {
			t.Fatal(err)
		}
		res, err := into(t, source(parts...), st, mover.Options{Journal: j, Workers: 1})
		if failing < 3 && !errors.Is(err, broken) || failing == 3 && err != nil {
			t.Fatal(err)
		}
		if res.Earlier != max(failing-1, 0) {
			t.Errorf("%d shards were finished before, in round %d", res.Earlier, failing)
		}
		if strings.Contains(content(t, st, "d", ""), "x=-1") {
			t.Error("a shard that broke off has rows")
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(want)
	if got := content(t, st, "d", ""); got != strings.Join(want, "\n") {
		t.Errorf("%s", got)
	}
	// What was dropped since is loaded again.
	g := st.Catalog().Database("d").RetentionPolicies[0].ShardGroups[2]
	if err := st.Apply(t.Context(), meta.DropShardGroup{Database: "d", RetentionPolicy: "autogen", ID: g.ID}); err != nil {
		t.Fatal(err)
	}
	j, err := journal.Open(name, "test")
	if err != nil {
		t.Fatal(err)
	}
	last := part(2, model.TimeRange{Min: monday + 2*aWeek, Max: monday + 3*aWeek - 1}, at("m,h=a", 2*7*24, "x", 2))
	res, err := into(t, source(last), st, mover.Options{Journal: j})
	if got := content(t, st, "d", ""); err != nil || res.Earlier != 0 || res.Parts != 1 || got != strings.Join(want, "\n") {
		t.Errorf("%v, %+v\n%s", err, res, got)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestIntoResumesWithFlaws breaks off after a shard with refused values: they are in the
// file of refusals by then, and the import that goes on says so. In a directory that was
// made again the journal has nothing.
func TestIntoResumesWithFlaws(t *testing.T) {
	broken := errors.New("killed")
	name := filepath.Join(t.TempDir(), "journal")
	week := model.TimeRange{Min: monday, Max: monday + aWeek - 1}
	next := model.TimeRange{Min: monday + aWeek, Max: monday + 2*aWeek - 1}
	mixed := part(2, week)
	mixed.Open = func(_ context.Context, _ model.TimeRange, refuse mover.Refuse) (rows.Reader, error) {
		refuse("a bad name", &rows.Run{Key: "#m", Fields: []column.Field{{Key: "x", Type: model.Integer}}, Rows: column.Rows{Times: []int64{1}, Cols: []column.Vector{{Type: model.Integer, Ints: []int64{1}}}}})
		return &list{floats: true, rows: []row{at("m,h=a", 5, "x", 7)}}, nil
	}
	last := part(3, next, at("m,h=a", 7*24, "x", 2))
	whole := last.Open
	failed, text := refused(t)
	last.Open = func(context.Context, model.TimeRange, mover.Refuse) (rows.Reader, error) {
		if !strings.Contains(text(), "m,h=a x=7 ") {
			t.Errorf("the journal has the shard, and the file of refusals %q", text())
		}
		return nil, broken
	}
	st := openStore(t)
	damaged := true
	again := func(st *store.Store) (*mover.Stats, error) {
		j, err := journal.Open(name, "test")
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		return into(t, source(part(1, week, at("m,h=a", 1, "x", 1)), mixed, last), st, mover.Options{Journal: j, Workers: 1, Failed: failed, Damaged: func() bool { return damaged }})
	}
	if res, err := again(st); !errors.Is(err, broken) || res.EarlierFlaws || res.Refused != 2 || res.EarlierRefused.Count != 0 {
		t.Fatalf("%v, %+v", err, res)
	}
	last.Open, damaged = whole, false
	if res, err := again(st); err != nil || res.Earlier != 1 || res.Refused != 0 || !res.EarlierFlaws || res.EarlierRefused.Count != 2 ||
		len(res.EarlierRefused.Reasons) != 2 || res.EarlierRefused.Reasons[0] != "a bad name" || !strings.Contains(res.EarlierRefused.Reasons[1], "is type float, already exists as type integer") {
		t.Errorf("%v, %+v", err, res)
	}
	other := openStore(t)
	if res, err := again(other); err != nil || res.Earlier != 0 || res.EarlierRefused.Count != 0 || content(t, other, "d", "") != content(t, st, "d", "") {
		t.Errorf("in a new directory: %v, %+v", err, res)
	}
}

// TestIntoCatalog gives users, grants, queries, and subscriptions, and leaves what exists.
func TestIntoCatalog(t *testing.T) {
	hash, err := meta.HashPassword("secret")
	if err != nil {
		t.Fatal(err)
	}
	src := source()
	src.All.Users = []*meta.User{{Name: "u", Hash: hash, Privileges: map[string]meta.Privilege{"d": meta.ReadPrivilege}}, {Name: "old", Hash: hash, Admin: true}}
	d := src.All.Databases[0]
	d.ContinuousQueries = []meta.ContinuousQuery{{Name: "q", Query: "CREATE CONTINUOUS QUERY q ON d BEGIN SELECT mean(x) INTO y FROM m GROUP BY time(1h) END"}}
	d.RetentionPolicies[0].Subscriptions = []meta.Subscription{{Name: "s", Mode: "ALL", Destinations: []string{"udp://127.0.0.1:1"}}}
	day := &meta.RetentionPolicy{Name: "day", Duration: 24 * time.Hour, ShardGroupDuration: time.Hour, ReplicaN: 2, FutureWriteLimit: time.Minute, PastWriteLimit: 2 * time.Hour}
	d.RetentionPolicies = append(d.RetentionPolicies, day)
	src.All.Databases = append(src.All.Databases, &meta.Database{Name: "_internal", RetentionPolicies: []*meta.RetentionPolicy{day}})
	st := openStore(t)
	if err := st.Apply(t.Context(), meta.CreateUser{Name: "old", Hash: "$2a$10$" + strings.Repeat("x", 53)}); err != nil {
		t.Fatal(err)
	}
	var notes []string
	res, err := into(t, src, st, mover.Options{Note: func(text string) { notes = append(notes, text) }})
	if err != nil {
		t.Fatal(err)
	}
	c := st.Catalog()
	u, old, rp := c.User("u"), c.User("old"), c.Database("d").RetentionPolicy("day")
	if u == nil || !meta.CheckPassword(u.Hash, "secret") || u.Privileges["d"] != meta.ReadPrivilege || old.Admin || len(notes) != 2 || !strings.HasSuffix(notes[1], `ALTER RETENTION POLICY "day" ON "d" FUTURE LIMIT 1m PAST LIMIT 2h`) || notes[0] != "1 of 2 users are there already and stay as they are" {
		t.Errorf("%+v, %+v, %q", u, old, notes)
	}
	if rp == nil || rp.Duration != day.Duration || rp.ShardGroupDuration != day.ShardGroupDuration || rp.ReplicaN != 2 || rp.FutureWriteLimit != day.FutureWriteLimit || rp.PastWriteLimit != day.PastWriteLimit || c.Database("d").DefaultRetentionPolicy != "autogen" || c.Database("_internal") != nil {
		t.Errorf("%+v", c.Database("d"))
	}
	if res.Defined != (exchange.Defined{Users: 1, Queries: 1, Subscriptions: 1}) || res.Policies != 2 {
		t.Errorf("%+v", res)
	}
	// The database that servers keep about themselves comes by its name, and gets another.
	if _, err := into(t, src, st, mover.Options{Filter: exchange.Filter{Database: "_internal"}, NewDatabase: "stats"}); err != nil || st.Catalog().Database("stats").RetentionPolicy("day") == nil {
		t.Errorf("%v", err)
	}
}
