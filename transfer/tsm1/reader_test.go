package tsm1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"tsdbd/exchange/rows"
	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/transfer/tsm1/tsm1test"
)

// cell is a place of a value.
type cell struct {
	series, field string
	t             int64
}

// cells are values as text.
type cells map[cell]string

func cellText(v *column.Vector, i int) string {
	switch v.Type {
	case model.String:
		return "string " + v.Strings[i]
	case model.Boolean:
		return fmt.Sprint("boolean ", v.Bools[i])
	}
	return fmt.Sprint(v.Type, " ", tsm1test.Word(v, i))
}

func (c cells) put(series, field string, r *column.Rows) {
	for i, t := range r.Times {
		c[cell{series, field, t}] = cellText(&r.Cols[0], i)
	}
}

func (c cells) drop(match func(series, field string, t int64) bool) {
	maps.DeleteFunc(c, func(k cell, _ string) bool { return match(k.series, k.field, k.t) })
}

func (c cells) diff(want cells) string {
	var out []string
	for k, v := range want {
		if got, ok := c[k]; !ok || got != v {
			out = append(out, fmt.Sprintf("%+v: %q, want %q", k, got, v))
		}
	}
	for k, v := range c {
		if _, ok := want[k]; !ok {
			out = append(out, fmt.Sprintf("%+v: %q, want nothing", k, v))
		}
	}
	slices.Sort(out)
	if len(out) == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d values differ:\n%s", len(out), len(want), strings.Join(out[:min(len(out), 10)], "\n"))
}

// found is what a source reported.
type found struct {
	mu      sync.Mutex
	damage  []string
	refused map[string]cells
	reasons map[string]string // the first ones
}

func (f *found) options() Options {
	f.refused, f.reasons = map[string]cells{}, map[string]string{}
	return Options{
		Damage: func(path string, offset int64, err error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.damage = append(f.damage, fmt.Sprintf("%s:%d: %v", filepath.Base(path), offset, err))
		},
	}
}

// The kinds of refusals.
const (
	badName    = "a bad name"
	typeClash  = "has values of type"
	longString = "has a string of"
	notANumber = "is not a number"
)

func kindOf(reason string) string {
	for _, kind := range []string{typeClash, longString, notANumber} {
		if strings.Contains(reason, kind) {
			return kind
		}
	}
	return badName
}

// refuse is a Refused.
func (f *found) refuse(reason string, run *rows.Run) {
	what := kindOf(reason)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refused[what] == nil {
		f.refused[what], f.reasons[what] = cells{}, reason
	}
	f.refused[what].add(run)
}

func (c cells) add(run *rows.Run) {
	for i, f := range run.Fields {
		for row, t := range run.Times {
			if v := &run.Cols[i]; v.IsValid(row) {
				c[cell{run.Key, f.Key, t}] = cellText(v, row)
			}
		}
	}
}

// readAll reads all shards of a source. It checks the order of series and rows.
func readAll(t *testing.T, s *Source, times model.TimeRange, refused Refused) cells {
	t.Helper()
	out := cells{}
	for _, sh := range s.Shards() {
		r, err := s.Rows(t.Context(), sh, times, refused)
		if err != nil {
			t.Fatal(err)
		}
		readRows(t, r, out)
	}
	return out
}

func readRows(t *testing.T, r rows.Reader, out cells) {
	t.Helper()
	defer func() { _ = r.Close() }()
	key, latest := "", int64(0)
	var fields []column.Field
	for {
		run, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		n := run.Len()
		if n == 0 || n > rows.MaxRows || len(run.Cols) != len(run.Fields) || !slices.IsSorted(run.Times) {
			t.Fatalf("%s: %d rows, %d columns for %d fields", run.Key, n, len(run.Cols), len(run.Fields))
		}
		if run.Key < key || run.Key == key && (run.Times[0] <= latest || !slices.Equal(run.Fields, fields)) {
			t.Fatalf("%s %v at %d after %s %v at %d", run.Key, run.Fields, run.Times[0], key, fields, latest)
		}
		key, latest, fields = run.Key, run.Times[n-1], slices.Clone(run.Fields)
		for i := range run.Cols {
			if run.Cols[i].Len() != n || run.Cols[i].Type != fields[i].Type {
				t.Fatalf("%s: column %d has %d of %d rows", run.Key, i, run.Cols[i].Len(), n)
			}
		}
		out.add(run)
	}
}

// shardTree is a directory of InfluxDB with one shard.
type shardTree struct{ root, data, wal string }

func newTree(t *testing.T) shardTree {
	t.Helper()
	root := t.TempDir()
	d := shardTree{root, filepath.Join(root, "data", "db", "rp", "7"), filepath.Join(root, "wal", "db", "rp", "7")}
	for _, dir := range []string{d.data, d.wal} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (d shardTree) tsm(t *testing.T, generation int, b []byte) {
	t.Helper()
	write(t, filepath.Join(d.data, fmt.Sprintf("%09d-000000001.tsm", generation)), b)
}

func (d shardTree) tombstones(t *testing.T, generation int, b []byte) {
	t.Helper()
	write(t, filepath.Join(d.data, fmt.Sprintf("%09d-000000001.tombstone", generation)), b)
}

func (d shardTree) segment(t *testing.T, number int, b []byte) {
	t.Helper()
	write(t, filepath.Join(d.wal, fmt.Sprintf("_%05d.wal", number)), b)
}

func (d shardTree) open(t *testing.T, f *found) *Source {
	t.Helper()
	s, err := Open(d.root, f.options())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// spellings are series whose order, or spelling, differs between InfluxDB and tsdbd.
var spellings = []struct{ raw, key string }{
	{"cpu", "cpu"},
	{"cpu!", "cpu!"},
	{`cpu"`, `cpu"`},
	{"cpu#", "cpu#"},
	{"cpu#!", "cpu#!"},
	{"cpu,h=a", "cpu,h=a"},
	{"cpu,h=a!", "cpu,h=a!"},
	{"cpu,h=a!b", "cpu,h=a!b"},
	{"cpu,h=a!!", "cpu,h=a!!"},
	{`cpu,h=a"`, `cpu,h=a"`},
	{"cpu,h=a#!", "cpu,h=a#!"},
	{"cpu,h=a,z=1", "cpu,h=a,z=1"},
	{"cpu,h=b", "cpu,h=b"},
	{`m\=x,t=1`, `m=x,t=1`},
	{`m\"x,t=1`, `m"x,t=1`},
	{`m\ x,t=1`, `m\ x,t=1`},
	{`m,t=a\=b\,c`, `m,t=a\=b\,c`},
	{`m,t=a=b`, `m,t=a\=b`},
	{`m,t\ u=\ü`, `m,t\ u=\ü`},
	{"m,t=a/b:c", "m,t=a/b:c"},
	{"\xe2\x82\xac\xe2\x82\xac,\x00=p,h=x,\xff=f", "p,h=x"},
}

var allTypes = []model.FieldType{model.Float, model.Integer, model.Unsigned, model.String, model.Boolean}

// columnKeys are the keys of columns of all spellings, in the order of InfluxDB.
type columnKey struct {
	raw, key, field string
	kind            model.FieldType
}

func columnKeys() (out []columnKey) {
	for _, n := range spellings {
		for i, f := range []string{"a", "ab", "value x", "z"} {
			measurement := model.SeriesMeasurement(n.key)
			out = append(out, columnKey{n.raw, n.key, strings.ReplaceAll(f, " ", "_"), allTypes[(len(measurement)+i)%5]})
		}
	}
	slices.SortFunc(out, func(a, b columnKey) int {
		return strings.Compare(a.raw+separator+a.field, b.raw+separator+b.field)
	})
	return out
}

// TestRows reads shards of several files, tombstones and logs, and compares the rows with
// those of a map. Half of the shards are read in very little memory.
func TestRows(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 8))
	rounds := 12
	if testing.Short() {
		rounds = 6
	}
	windows := 0
	for round := range rounds {
		d, want := newTree(t), cells{}
		keys := columnKeys()
		deleted := func() (list []tsm1test.Delete) {
			for _, k := range keys {
				if r.IntN(3) == 0 {
					lo := int64(1e18) + r.Int64N(1e12)
					list = append(list, tsm1test.Delete{Key: k.raw + separator + k.field, Times: model.TimeRange{Min: lo, Max: lo + r.Int64N(1e13)}})
				}
			}
			r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
			return list
		}
		matches := func(list []tsm1test.Delete, version int) func(series, field string, t int64) bool {
			raw := map[string][]tsm1test.Delete{}
			for _, k := range keys {
				for _, g := range list {
					if g.Key == k.raw+separator+k.field || g.Prefix && strings.HasPrefix(k.raw+separator+k.field, g.Key) {
						raw[k.key+" "+k.field] = append(raw[k.key+" "+k.field], g)
					}
				}
			}
			return func(series, field string, t int64) bool {
				return slices.ContainsFunc(raw[series+" "+field], func(g tsm1test.Delete) bool { return version == 1 || g.Times.Contains(t) })
			}
		}
		for generation := range 1 + r.IntN(4) {
			var f tsm1test.File
			file := cells{}
			for _, k := range keys {
				if r.IntN(4) == 0 {
					continue
				}
				start := int64(1e18) + r.Int64N(1e12)*int64(r.IntN(2))
				var blocks []column.Rows
				for range 1 + r.IntN(3) {
					var rows column.Rows
					rows, start = tsm1test.Rows(r, k.kind, start, 1+r.IntN(1000)*r.IntN(2))
					blocks = append(blocks, rows)
					file.put(k.key, k.field, &rows)
				}
				f.Add(k.raw, k.field, blocks...)
			}
			d.tsm(t, generation+1, f.Bytes())
			if version := r.IntN(6); version >= 1 && version <= 4 {
				list := deleted()
				if version == 4 {
					list = append(list, tsm1test.Delete{Key: "cpu,h=a", Prefix: true, Times: model.TimeRange{Min: 1e18, Max: 1e18 + 1e10}})
				}
				d.tombstones(t, generation+1, tsm1test.Tombstones(version, list...))
				file.drop(matches(list, version))
			}
			maps.Copy(want, file)
		}
		log := cells{}
		for number := range r.IntN(3) {
			var s tsm1test.Segment
			for range r.IntN(200) {
				k := keys[r.IntN(len(keys))]
				rows, _ := tsm1test.Rows(r, k.kind, 1e18+r.Int64N(1e12), 1+r.IntN(20))
				if r.IntN(2) == 0 {
					slices.Reverse(rows.Times)
				}
				log.put(k.key, k.field, &rows)
				s.Write(k.raw, k.field, rows)
				switch r.IntN(40) {
				case 0:
					list := deleted()
					g := list[:min(1, len(list))]
					for _, one := range g {
						s.DeleteRange(one.Times, one.Key)
					}
					log.drop(matches(g, 2))
				case 1:
					list := deleted()
					var keys []string
					for _, g := range list {
						keys = append(keys, g.Key)
					}
					if len(keys) > 0 {
						s.Delete(keys...)
					}
					log.drop(matches(list, 1))
				}
			}
			d.segment(t, number+1, s.Bytes)
		}
		maps.Copy(want, log)

		var f found
		s := d.open(t, &f)
		if round%2 == 1 {
			s.limits = limits{log: 8000, tombstones: 3000, late: 64 << 20, cells: 1 + r.IntN(200)}
			windows++
		}
		times := model.AllTime
		if round%3 == 2 {
			times = model.TimeRange{Min: 1e18 + r.Int64N(1e12), Max: 1e18 + r.Int64N(1e14)}
			want.drop(func(_, _ string, t int64) bool { return !times.Contains(t) })
		}
		got := readAll(t, s, times, f.refuse)
		if diff := got.diff(want); diff != "" {
			t.Fatalf("round %d: %s", round, diff)
		}
		if len(f.damage) > 0 || len(f.refused) > 0 {
			t.Fatalf("round %d: damage %q, refused %v", round, f.damage, f.reasons)
		}
	}
	if windows == 0 {
		t.Error("no shard was read in little memory")
	}
}

func rowsOf(kind model.FieldType, n int, times ...int64) column.Rows {
	v := column.Vector{Type: kind}
	for i := range times {
		switch kind {
		case model.String:
			v.Strings = append(v.Strings, fmt.Sprint(n+i))
		case model.Boolean:
			v.Bools = append(v.Bools, (n+i)%2 == 0)
		case model.Float:
			v.Floats = append(v.Floats, float64(n+i))
		default:
			v.AppendWord(uint64(n+i), nil)
		}
	}
	return column.Rows{Times: times, Cols: []column.Vector{v}}
}

// TestRefused keeps what can be stored, and reports the rest by its reason.
func TestRefused(t *testing.T) {
	d := newTree(t)
	long := rowsOf(model.String, 1, 10, 20, 30)
	long.Cols[0].Strings[1] = strings.Repeat("x", column.MaxStringLength+1)
	nan := rowsOf(model.Float, 1, 40, 50)
	nan.Cols[0].Floats[0] = math.NaN()
	var first, second tsm1test.File
	first.Add("a\nb", "f", rowsOf(model.Float, 1, 1, 2))
	first.Add("cpu", "", rowsOf(model.Float, 1, 5))
	first.Add("cpu", "clash", rowsOf(model.Float, 1, 1), rowsOf(model.Float, 2, 2))
	first.Add("cpu", "s", long)
	first.Add(`cpu,a=\`, "f", rowsOf(model.Float, 3, 1))
	first.Add("cpu,time=1", "f", rowsOf(model.Float, 3, 1))
	second.Add("#cpu", "f", rowsOf(model.Float, 3, 1))
	second.Add("cpu", "\tf", rowsOf(model.Integer, 7, 2, 3))
	second.Add("cpu", "clash", rowsOf(model.Integer, 7, 2, 3))
	var log tsm1test.Segment
	log.Write("cpu", "f", nan)
	log.Write("cpu", "clash", rowsOf(model.String, 7, 4))
	log.Write("b\nc", "f", rowsOf(model.Integer, 7, 4))
	d.tsm(t, 1, first.Bytes())
	d.tsm(t, 2, second.Bytes())
	d.segment(t, 1, log.Bytes)

	var f found
	s := d.open(t, &f)
	got := readAll(t, s, model.AllTime, f.refuse)
	want := cells{}
	f1, f2, f3 := rowsOf(model.Float, 1, 1, 2), rowsOf(model.String, 1, 10), rowsOf(model.String, 3, 30)
	want.put("cpu", "clash", &f1)
	want.put("cpu", "s", &f2)
	want.put("cpu", "s", &f3)
	last := rowsOf(model.Float, 2, 50)
	want.put("cpu", "f", &last)
	if diff := got.diff(want); diff != "" {
		t.Error(diff)
	}
	values := func(list ...any) cells { // series, field, rows
		out := cells{}
		for ; len(list) > 0; list = list[3:] {
			r := list[2].(column.Rows)
			out.put(list[0].(string), list[1].(string), &r)
		}
		return out
	}
	longest, notNumber := long.Slice(1, 2, nil), nan.Slice(0, 1, nil)
	for what, want := range map[string]cells{
		badName: values("a\nb", "f", rowsOf(model.Float, 1, 1, 2), "cpu", "", rowsOf(model.Float, 1, 5), `cpu,a=\`, "f", rowsOf(model.Float, 3, 1),
			"cpu,time=1", "f", rowsOf(model.Float, 3, 1), "#cpu", "f", rowsOf(model.Float, 3, 1), "cpu", "\tf", rowsOf(model.Integer, 7, 2, 3),
			"b\nc", "f", rowsOf(model.Integer, 7, 4)),
		typeClash:  values("cpu", "clash", rowsOf(model.Integer, 7, 2, 3), "cpu", "clash", rowsOf(model.String, 7, 4)),
		longString: values("cpu", "s", longest),
		notANumber: values("cpu", "f", notNumber),
	} {
		if diff := f.refused[what].diff(want); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	for what, want := range map[string]string{
		notANumber: `field "f" of cpu is not a number`,
		badName:    `measurement "#cpu" begins as a comment`,
		longString: `field "s" of cpu has a string of 1048577 bytes, 1048576 are the limit`,
		typeClash:  `field "clash" of cpu has values of type integer, most are of`,
	} {
		if got := f.reasons[what]; !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	if len(f.damage) > 0 {
		t.Error(f.damage)
	}
}

// TestOverlap reads blocks of one file that overlap, as no InfluxDB writes them: the later
// one wins.
func TestOverlap(t *testing.T) {
	d, want := newTree(t), cells{}
	var f tsm1test.File
	blocks := []column.Rows{rowsOf(model.Integer, 0, 1, 2, 3, 4, 5, 6), rowsOf(model.Integer, 10, 3, 5, 7), rowsOf(model.Integer, 20, 5, 6), rowsOf(model.Integer, 30, 8)}
	for i := range blocks {
		want.put("m", "f", &blocks[i])
	}
	f.Add("m", "f", blocks...)
	d.tsm(t, 1, f.Bytes())
	var found found
	if diff := readAll(t, d.open(t, &found), model.AllTime, nil).diff(want); diff != "" || len(found.damage) > 0 {
		t.Error(diff, found.damage)
	}
}

// TestManyLate bounds the memory of series that are out of order.
func TestManyLate(t *testing.T) {
	d := newTree(t)
	var f tsm1test.File
	for i := range 200 {
		f.Add(fmt.Sprintf("m,t=%04d!", i), "f", rowsOf(model.Float, i, 1))
		f.Add(fmt.Sprintf("m,t=%04d", i), "f", rowsOf(model.Float, i, 1))
	}
	d.tsm(t, 1, f.Bytes())
	var found found
	s := d.open(t, &found)
	if n := len(readAll(t, s, model.AllTime, nil)); n != 400 || len(found.damage) > 0 {
		t.Errorf("%d values, damage %q", n, found.damage)
	}
	s.limits.late = 5000
	if n := len(readAll(t, s, model.AllTime, nil)); n >= 400 || n < 100 || len(found.damage) != 1 || !strings.Contains(found.damage[0], "too many series out of order") {
		t.Errorf("%d values, damage %q", n, found.damage)
	}
}

// TestCancel ends a reader with its context.
func TestCancel(t *testing.T) {
	d := newTree(t)
	var f tsm1test.File
	f.Add("m", "f", rowsOf(model.Float, 1, 1))
	d.tsm(t, 1, f.Bytes())
	s := d.open(t, &found{})
	r, err := s.Rows(t.Context(), s.Shards()[0], model.AllTime, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Next: %v", err)
	}
	if _, err := s.Rows(ctx, s.Shards()[0], model.AllTime, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Rows: %v", err)
	}
}

// TestWantedEnds: a reader asks its context also between series that are not wanted.
func TestWantedEnds(t *testing.T) {
	d := newTree(t)
	var file tsm1test.File
	for _, key := range []string{"a", "b", "c"} {
		file.Add(key, "f", rowsOf(model.Float, 1, 2))
	}
	d.tsm(t, 1, file.Bytes())
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	s, err := Open(d.root, Options{Wanted: func(string) bool {
		asked++
		cancel()
		return false
	}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Rows(t.Context(), s.Shards()[0], model.AllTime, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Next(ctx); !errors.Is(err, context.Canceled) || asked != 1 {
		t.Errorf("%v after %d series", err, asked)
	}
}

// TestWanted reads the measurements that are chosen, from files, late ones, and the log.
func TestWanted(t *testing.T) {
	d := newTree(t)
	var file tsm1test.File
	row := rowsOf(model.Float, 1, 2)
	for _, key := range []string{"cpu,h=a", "cpu,h=b", "disk\\,x,h=a", "mem,h=a", "\u00e4,h=a"} {
		file.Add(key, "f", row)
	}
	d.tsm(t, 1, file.Bytes())
	var log tsm1test.Segment
	log.Write("mem,h=c", "f", row)
	log.Write("cpu,h=c", "f", row)
	write(t, filepath.Join(d.wal, "_00001.wal"), log.Bytes)
	asked := map[string]int{}
	s, err := Open(d.root, Options{Wanted: func(name string) bool {
		asked[name]++
		return name == "cpu" || name == "disk,x"
	}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Rows(t.Context(), s.Shards()[0], model.AllTime, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var got []string
	for {
		run, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, run.Key)
	}
	if want := "cpu,h=a cpu,h=b cpu,h=c disk\\,x,h=a"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %s", got, want)
	}
	if len(asked) != 4 || asked["cpu"] != 1 {
		t.Errorf("asked for %v", asked)
	}
}
