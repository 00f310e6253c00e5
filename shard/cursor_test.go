package shard

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/cache"
	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
	"tsdbd/model/scan"
	"tsdbd/series"
)

var cursorRuns = flag.Int("cursor-runs", 30, "shards of TestCursorAgainstModel")

// naive is what a shard must hold: per series and time the value words, by
// place in modelFields; strings are interned by number.
type naive struct {
	rows map[model.SeriesID]map[int64]map[int]uint64
	text []string
}

var modelFields = []column.Field{
	{Key: "b", Type: model.Boolean},
	{Key: "f", Type: model.Float},
	{Key: "g", Type: model.Float},
	{Key: "i", Type: model.Integer},
	{Key: "s", Type: model.String},
	{Key: "u", Type: model.Unsigned},
}

// bench is a shard under test with its model.
type bench struct {
	t        *testing.T
	r        *rand.Rand
	s        *Shard
	fs       *vfstest.FS
	sf       *series.File
	table    *point.Table
	series   []*point.Series
	sequence uint64
	want     naive
	pending  *Snapshot
	options  Options // beyond those that open sets
	again    bool    // the last cursor had begun for another request
}

func newBench(t *testing.T, r *rand.Rand) *bench {
	fs := vfstest.New()
	if err := fs.MkdirAll("/db/shard-1"); err != nil {
		t.Fatal(err)
	}
	sf, err := series.Open(fs, "/db/series", series.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, r: r, fs: fs, sf: sf, table: point.NewTable(1)}
	b.options.Slabs = cache.NewSlabs(1 << 20)
	b.want.rows = map[model.SeriesID]map[int64]map[int]uint64{}
	for n := range 4 {
		sr := point.NewSeries(fmt.Sprintf("m,h=%d", n))
		ids := make([]model.SeriesID, 1)
		if err := sf.Claim([]string{sr.Key()}, ids); err != nil {
			t.Fatal(err)
		}
		sf.Confirm(ids)
		sr.SetID(ids[0])
		b.series = append(b.series, sr)
	}
	b.open()
	return b
}

func (b *bench) open() {
	opt := b.options
	opt.FS, opt.Series, opt.Range = b.fs, b.sf, model.AllTime
	s, err := Open("/db/shard-1", 1, opt)
	if err != nil {
		b.t.Fatal(err)
	}
	b.s, b.pending = s, nil
	if b.r.IntN(2) == 0 {
		s.maxFile = 1 // a file per series
	}
	if b.r.IntN(2) == 0 {
		s.cells = 1 + b.r.IntN(64) // caches in parts
	}
}

// write applies one entry: runs of regular or jittered times, some at the ends
// of int64, of rows with changing fields.
func (b *bench) write() {
	var batch point.Batch
	b.sequence++
	for range 1 + b.r.IntN(3) {
		sr := b.series[b.r.IntN(len(b.series))]
		n := []int{1, 3, 40, 1500, 2600}[b.r.IntN(5)]
		step := []int64{1, 10, 1000, 1 << 40}[b.r.IntN(4)]
		start := int64(b.r.IntN(4000)) * 10
		switch b.r.IntN(12) {
		case 0:
			n, step, start = 3, model.MaxTime, model.MinTime
		case 1:
			n, step, start = 4, 1<<61, model.MinTime+int64(b.r.IntN(5))
		}
		jitter := b.r.IntN(3) == 0
		sparse := b.r.IntN(3) == 0
		mask := 1 + b.r.IntN(1<<len(modelFields)-1)
		at := start
		for k := range n {
			if sparse && k%7 == 0 {
				mask = 1 + b.r.IntN(1<<len(modelFields)-1)
			}
			b.row(&batch, sr, at, mask)
			d := step
			if jitter {
				d += int64(b.r.IntN(5))
			}
			if at > model.MaxTime-d {
				break
			}
			at += d
		}
	}
	b.s.Apply(b.sequence, batch.Rows, batch.Values, batch.Strings)
}

func (b *bench) row(batch *point.Batch, sr *point.Series, at int64, mask int) {
	var fields []column.Field
	first := uint32(len(batch.Values))
	rows := b.want.rows[sr.ID()]
	if rows == nil {
		rows = map[int64]map[int]uint64{}
		b.want.rows[sr.ID()] = rows
	}
	if rows[at] == nil {
		rows[at] = map[int]uint64{}
	}
	for f, field := range modelFields {
		if mask>>f&1 == 0 {
			continue
		}
		fields = append(fields, field)
		v := uint64(b.r.IntN(1000))
		word := v
		switch field.Type {
		case model.Boolean:
			v &= 1
			word = v
		case model.Float:
			v = math.Float64bits(float64(v) - 500)
			word = v
		case model.Integer:
			v = uint64(int64(v) - 500)
			word = v
		case model.String:
			text := fmt.Sprint("t", v)
			word = column.StringWord(len(batch.Strings), len(text))
			batch.Strings = append(batch.Strings, text...)
			v = uint64(len(b.want.text))
			b.want.text = append(b.want.text, text)
		}
		batch.Values = append(batch.Values, word)
		rows[at][f] = v
	}
	batch.Rows = append(batch.Rows, point.Row{Series: sr, Layout: b.table.Layout("m", fields), Time: at, First: first})
}

func (b *bench) delete() {
	b.sequence++
	set := roaring.New()
	for _, sr := range b.series {
		if b.r.IntN(2) == 0 {
			set.Add(uint32(sr.ID()))
		}
	}
	times := b.times()
	if b.r.IntN(6) == 0 {
		times = model.AllTime
	}
	if err := b.s.Delete(b.sequence, set, times); err != nil {
		b.t.Fatal(err)
	}
	for id, rows := range b.want.rows {
		if set.Contains(uint32(id)) {
			for at := range rows {
				if times.Contains(at) {
					delete(rows, at)
				}
			}
		}
	}
}

// times returns a random range, its ends at, before or after a row's time.
func (b *bench) times() model.TimeRange {
	end := func() int64 {
		switch b.r.IntN(8) {
		case 0:
			return model.MinTime
		case 1:
			return model.MaxTime
		}
		for _, rows := range b.want.rows {
			for at := range rows {
				return min(max(at, model.MinTime+1)+int64(b.r.IntN(3)-1), model.MaxTime)
			}
		}
		return 0
	}
	lo, hi := end(), end()
	return model.TimeRange{Min: min(lo, hi), Max: max(lo, hi)}
}

func (b *bench) step() {
	switch k := b.r.IntN(12); {
	case k < 5:
		b.write()
	case k < 7:
		b.delete()
	case k < 8:
		if b.pending == nil {
			b.pending = b.s.Freeze(b.sequence) // stays frozen for a while
		}
	case k < 10:
		if b.pending == nil {
			b.pending = b.s.Freeze(b.sequence)
		}
		if b.pending != nil {
			if err := b.s.Flush(context.Background(), b.pending); err != nil {
				b.t.Fatal(err)
			}
			b.pending = nil
		}
	case k < 11:
		if _, err := b.s.Compact(context.Background(), true); err != nil {
			b.t.Fatal(err)
		}
	default:
		v := b.s.View() // the plan of a warm shard wants many files
		if n := len(v.set.files); n > 1 {
			lo := b.r.IntN(n - 1)
			hi := lo + 2 + b.r.IntN(n-lo-1)
			for lo > 0 && v.set.files[lo].splits(v.set.files[lo-1]) {
				lo--
			}
			for hi < n && v.set.files[hi].splits(v.set.files[hi-1]) {
				hi++
			}
			b.s.compacting.Lock()
			if err := b.s.merge(context.Background(), v, lo, hi, 1); err != nil {
				b.t.Fatal(err)
			}
			b.s.compacting.Unlock()
		}
		v.Release()
	}
}

func (b *bench) check() {
	b.t.Helper()
	req := scan.Request{Measurement: "m", Series: roaring.New(), Range: model.AllTime, Descending: b.r.IntN(2) == 0}
	if b.r.IntN(3) > 0 {
		req.Range = b.times()
	}
	for _, sr := range b.series {
		if b.r.IntN(4) > 0 {
			req.Series.Add(uint32(sr.ID()))
		}
	}
	var wanted []int
	for f := range modelFields {
		if b.r.IntN(2) == 0 {
			wanted = append(wanted, f)
			req.Fields = append(req.Fields, modelFields[f].Key)
		}
	}
	b.r.Shuffle(len(wanted), func(i, j int) {
		wanted[i], wanted[j] = wanted[j], wanted[i]
		req.Fields[i], req.Fields[j] = req.Fields[j], req.Fields[i]
	})
	// What must come.
	type cell struct {
		id model.SeriesID
		at int64
		f  int
	}
	want := map[cell]uint64{}
	for id, rows := range b.want.rows {
		for at, values := range rows {
			if !req.Series.Contains(uint32(id)) || !req.Range.Contains(at) {
				continue
			}
			for i, f := range wanted {
				if v, ok := values[f]; ok {
					want[cell{id, at, i}] = v
				}
			}
		}
	}
	v := b.s.View()
	defer v.Release()
	c := b.cursor(v, req)
	defer c.Close()
	seen := map[model.SeriesID]bool{}
	for id, ok := c.NextSeries(); ok; id, ok = c.NextSeries() {
		if seen[id] {
			b.t.Fatalf("series %d twice", id)
		}
		seen[id] = true
		var last model.TimeRange
		for ch, n := c.NextChunk(), 0; ch != nil; ch, n = c.NextChunk(), n+1 {
			stats := make([]scan.Stats, len(wanted))
			have := make([]bool, len(wanted))
			for i, f := range wanted {
				have[i] = ch.Stats(i, &stats[i])
				sum := scan.Stats{Count: -1}
				if known := ch.Sum(i, &sum); known != have[i] || known && sum.Count != stats[i].Count ||
					known && sum.Count > 0 && (sum.Sum != stats[i].Sum || sum.SumError != stats[i].SumError) ||
					known && sum.Count > 0 && (modelFields[f].Type == model.Integer || modelFields[f].Type == model.Unsigned) && (sum.Min != stats[i].Min || sum.Max != stats[i].Max) {
					b.t.Fatalf("series %d column %d: sum %+v, %v; statistics %+v, %v", id, i, sum, known, stats[i], have[i])
				}
				if n, known := ch.Count(i); have[i] && (!known || n != stats[i].Count) {
					b.t.Fatalf("series %d column %d: count %d, %v; statistics %+v", id, i, n, known, stats[i])
				}
			}
			ts, err := ch.Times()
			if err != nil {
				b.t.Fatal(err)
			}
			if len(ts) != ch.Len() || len(ts) == 0 || ts[0] != ch.Min() || ts[len(ts)-1] != ch.Max() {
				b.t.Fatalf("series %d: %d rows of %d, %d..%d", id, len(ts), ch.Len(), ch.Min(), ch.Max())
			}
			if n > 0 && (!req.Descending && ch.Min() <= last.Max || req.Descending && ch.Max() >= last.Min) {
				b.t.Fatalf("series %d: chunk %d..%d after %v", id, ch.Min(), ch.Max(), last)
			}
			last = model.TimeRange{Min: ch.Min(), Max: ch.Max()}
			valid := make([]bool, len(ts))
			for k, at := range ts {
				if k > 0 && at <= ts[k-1] || !req.Range.Contains(at) {
					b.t.Fatalf("series %d: time %d out of order or of %v", id, at, req.Range)
				}
				if step := ch.Step(); step != 0 && at != ch.Min()+int64(k)*step {
					b.t.Fatalf("series %d: row %d at %d, step %d from %d", id, k, at, step, ch.Min())
				}
			}
			for i, f := range wanted {
				col, err := ch.Column(i)
				if err != nil {
					b.t.Fatal(err)
				}
				known := slices.ContainsFunc(v.Fields("m"), func(f column.Field) bool { return f.Key == req.Fields[i] })
				if known != (col.Type == modelFields[f].Type) || !known && col.Type != model.Unknown {
					b.t.Fatalf("column %s of type %s, known %v", modelFields[f].Key, col.Type, known)
				}
				var s scan.Stats
				for k, at := range ts {
					if !col.IsValid(k) {
						continue
					}
					valid[k] = true
					key := cell{id, at, i}
					w, ok := want[key]
					if !ok {
						b.t.Fatalf("series %d %s at %d: phantom", id, modelFields[f].Key, at)
					}
					delete(want, key)
					got := word(col, k)
					if col.Type == model.String {
						if col.Strings[k] != b.want.text[w] {
							b.t.Fatalf("series %d %s at %d: %q, want %q", id, modelFields[f].Key, at, col.Strings[k], b.want.text[w])
						}
					} else if got != w {
						b.t.Fatalf("series %d %s at %d: %x, want %x", id, modelFields[f].Key, at, got, w)
					}
					s = addStats(s, col.Type, got, k)
				}
				if have[i] {
					sum := math.Float64frombits(stats[i].Sum) + stats[i].SumError
					if col.Type == model.Float && stats[i].Count > 0 && sum == math.Float64frombits(s.Sum) {
						stats[i].Sum, stats[i].SumError = s.Sum, 0
					}
					if col.Type == model.String {
						s, stats[i] = scan.Stats{Count: s.Count}, scan.Stats{Count: stats[i].Count}
					}
					if col.Type == model.Boolean {
						stats[i].Sum, s.Sum = 0, 0
					}
					if stats[i] != s {
						b.t.Fatalf("series %d %s: statistics %+v, want %+v", id, modelFields[f].Key, stats[i], s)
					}
				}
			}
			for k := range valid {
				if !valid[k] {
					b.t.Fatalf("series %d at %d: no wanted value in row", id, ts[k])
				}
			}
		}
	}
	if err := c.Err(); err != nil {
		b.t.Fatal(err)
	}
	for key, w := range want {
		b.t.Fatalf("lost: series %d %s at %d = %x (%d in all)", key.id, req.Fields[key.f], key.at, w, len(want))
	}
}

func word(v *column.Vector, k int) uint64 {
	switch v.Type {
	case model.Float:
		return math.Float64bits(v.Floats[k])
	case model.Integer:
		return uint64(v.Ints[k])
	case model.Unsigned:
		return v.Uints[k]
	case model.Boolean:
		if v.Bools[k] {
			return 1
		}
	}
	return 0
}

func addStats(s scan.Stats, t model.FieldType, w uint64, row int) scan.Stats {
	less := func(a, b uint64) bool {
		switch t {
		case model.Float:
			return math.Float64frombits(a) < math.Float64frombits(b)
		case model.Integer:
			return int64(a) < int64(b)
		}
		return a < b
	}
	if s.Count == 0 {
		s.Min, s.Max, s.First, s.FirstRow = w, w, w, row
	}
	s.Count++
	s.Last, s.LastRow = w, row
	if less(w, s.Min) {
		s.Min = w
	}
	if less(s.Max, w) {
		s.Max = w
	}
	if t == model.Float {
		s.Sum = math.Float64bits(math.Float64frombits(s.Sum) + math.Float64frombits(w))
	} else {
		s.Sum += w
	}
	return s
}

// TestCursorAgainstModel makes random shards, of files and caches that overlap
// with tombstones between their sequences, and compares scans of random
// series, fields and times with a map; statistics with the chunk's values.
func TestCursorAgainstModel(t *testing.T) {
	seed := testseed.Of(t)
	cursorModel(t, seed, testseed.Rounds(*cursorRuns))
}

// TestCursorAgainstModelSeeds repeats runs that once failed.
func TestCursorAgainstModelSeeds(t *testing.T) {
	for _, seed := range []uint64{
		1795206687882501155, // a merged file's empty column of a forgotten field kept its type
	} {
		cursorModel(t, seed, 8)
	}
}

func cursorModel(t *testing.T, seed uint64, runs int) {
	r := rand.New(rand.NewPCG(seed, 1))
	for range runs {
		b := newBench(t, r)
		for range 40 {
			b.step()
			b.check()
		}
		for range 2 { // what is frozen, then the rest: there is no log
			if b.pending == nil {
				b.pending = b.s.Freeze(b.sequence)
			}
			if b.pending == nil {
				continue
			}
			if err := b.s.Flush(context.Background(), b.pending); err != nil {
				t.Fatal(err)
			}
			b.pending = nil
		}
		if err := b.s.Close(); err != nil {
			t.Fatal(err)
		}
		b.open()
		for range 5 {
			b.check()
		}
		if err := b.s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// cursor opens a cursor. Every other one has begun to walk for another request before.
func (b *bench) cursor(v *View, req scan.Request) scan.Cursor {
	b.t.Helper()
	first := req
	if b.again = !b.again; b.again {
		first.Measurement, first.Fields = "elsewhere", slices.Clone(req.Fields[len(req.Fields)/2:])
		slices.Reverse(first.Fields)
	}
	c, err := v.Scan(context.Background(), first)
	if err != nil {
		b.t.Fatal(err)
	}
	if !b.again {
		return c
	}
	for range 3 {
		if _, ok := c.NextSeries(); ok {
			for ch := c.NextChunk(); ch != nil; ch = c.NextChunk() {
				for i := range first.Fields {
					if _, err := ch.Column(i); err != nil {
						b.t.Fatal(err)
					}
				}
			}
		}
	}
	c.Narrow(model.TimeRange{Min: req.Range.Max, Max: req.Range.Max})
	c.Again(req)
	return c
}
