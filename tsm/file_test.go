package tsm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"tsdbd/internal/binio"
	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/column"
)

func TestRoundTrip(t *testing.T) {
	rng := newRand(t)
	for round := range 12 {
		n := []int{0, 1, 3, 63, 64, 65, 200}[rng.IntN(7)]
		if testing.Short() {
			n = min(n, 65)
		}
		series := randomSeries(rng, n)
		path := tempFile(t)
		opt := WriterOptions{MinSequence: 5, MaxSequence: 9, Level: 2}
		if round%2 == 0 {
			opt.IndexMemory = 1 // everything through scratch files
		}
		info := writeSeries(t, path, opt, series)
		r := openFile(t, path)
		if got := r.Info(); got != info {
			t.Fatalf("info after open\n%+v, written\n%+v", got, info)
		}
		checkInfo(t, info, series)
		if err := compareFile(r, series); err != nil {
			t.Fatal(err)
		}
		if err := r.Verify(context.Background()); err != nil {
			t.Fatal(err)
		}
		// In random order, with strangers between, also with the memory of released chunks.
		var s Series
		var c Chunk
		for range n {
			i := rng.IntN(n)
			if err := compareSeries(r, i, &series[i], &s, &c); err != nil {
				t.Fatal(err)
			}
			if rng.IntN(3) == 0 {
				c.Release()
			}
			id := model.SeriesID(rng.Uint32())
			o, ok, err := r.Find(id)
			if err != nil || ok && series[o].id != id {
				t.Fatalf("find %d: %d %v %v", id, o, ok, err)
			}
		}
		if _, err := os.Stat(path + ".keys"); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("scratch file left: %v", err)
		}
	}
}

func checkInfo(t *testing.T, info Info, series []testSeries) {
	t.Helper()
	var rows, values, chunks int64
	r := model.TimeRange{Min: 1, Max: 0}
	for i := range series {
		values += series[i].values()
		for _, c := range series[i].chunks {
			chunks++
			rows += int64(len(c.times))
			cr := model.TimeRange{Min: c.times[0], Max: c.times[len(c.times)-1]}
			if r.Empty() {
				r = cr
			}
			r = r.Union(cr)
		}
	}
	want := info
	want.Series, want.Rows, want.Values, want.Chunks, want.Range = len(series), rows, values, chunks, r
	want.MinSequence, want.MaxSequence, want.Level = 5, 9, 2
	if len(series) > 0 {
		want.MinKey, want.MaxKey = series[0].key, series[len(series)-1].key
	}
	if info != want {
		t.Fatalf("info\n%+v, want\n%+v", info, want)
	}
}

// The ends of what the format holds: largest chunks, keys, spans and numbers.
func TestBoundaries(t *testing.T) {
	rng := newRand(t)
	fields := []column.Field{
		{Key: "", Type: model.String},
		{Key: "b", Type: model.Boolean},
		{Key: "f", Type: model.Float},
		{Key: "i", Type: model.Integer},
		{Key: strings.Repeat("u", 65535), Type: model.Unsigned},
	}
	chunk := func(times ...int64) testChunk {
		c := testChunk{times: times}
		for _, f := range fields {
			c.cols = append(c.cols, randomVector(rng, f.Type, len(times)))
		}
		return c
	}
	long := make([]int64, MaxChunkRows)
	for i := range long {
		long[i] = int64(i) * 7
	}
	jitter := make([]int64, MaxChunkRows)
	for i := range jitter {
		jitter[i] = long[i]*1e6 + 1e12 + rng.Int64N(1e6)
	}
	lo, hi := model.MinTime, model.MaxTime
	sets := [][]testChunk{
		{chunk(lo), chunk(lo + 1), chunk(hi)},
		{chunk(lo, hi)},
		{chunk(lo, 0, hi)},
		{chunk(lo, lo/2, 0, hi/2)},
		{chunk(math.MinInt64, -1, math.MaxInt64)},
		{chunk(lo, lo+1, lo+2, lo+3, hi-3, hi-2, hi-1, hi), chunk(math.MaxInt64)},
		{chunk(long...), chunk(jitter...)},
		{chunk(-9223372036e9), chunk(9223372036e9)},
	}
	var series []testSeries
	for i, chunks := range sets {
		series = append(series, testSeries{id: model.SeriesID(math.MaxUint32 - uint32(i)*1000), key: fmt.Sprint("k", i), fields: fields, chunks: chunks})
	}
	for i := range 70 { // pages of the longest keys
		series = append(series, testSeries{
			id: model.SeriesID(1 + i*i), key: fmt.Sprintf("l%02d", i) + string(randomBytes(rng, model.MaxKeyLength-3)),
			chunks: []testChunk{{times: []int64{int64(i)}}},
		})
	}
	path := tempFile(t)
	writeSeries(t, path, WriterOptions{}, series)
	r := openFile(t, path)
	if err := compareFile(r, series); err != nil {
		t.Fatal(err)
	}
	if err := r.Verify(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// Size promises no more than the file takes in the end, and not much less.
func TestWriterSize(t *testing.T) {
	set := newWideSet(300, 200)
	w, err := Create(vfs.OS, tempFile(t), WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	last := int64(0)
	for i, k := range set.keys {
		if err := w.Series(model.SeriesID(i+1), k, set.fields); err != nil {
			t.Fatal(err)
		}
		if err := w.Append(set.times, set.cols[i%8]); err != nil {
			t.Fatal(err)
		}
		if n := w.Size(); n < last {
			t.Fatalf("size fell from %d to %d", last, n)
		} else {
			last = n
		}
	}
	info, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if last > info.Size+info.Size/20 || last < info.Size-info.Size/10 {
		t.Fatalf("size %d before Finish, %d after", last, info.Size)
	}
}

// The same calls give the same bytes, also through scratch files (W10).
func TestDeterministic(t *testing.T) {
	rng := newRand(t)
	series := randomSeries(rng, 130)
	a, b := tempFile(t), tempFile(t)
	ia := writeSeries(t, a, WriterOptions{}, series)
	ib := writeSeries(t, b, WriterOptions{IndexMemory: 1}, series)
	if string(readAll(t, a)) != string(readAll(t, b)) || ia.Checksum != ib.Checksum {
		t.Fatal("two files of the same rows differ")
	}
}

var mebibyte = strings.Repeat("x", 1<<20)

func TestWriterRefuses(t *testing.T) {
	f := []column.Field{{Key: "a", Type: model.Integer}, {Key: "b", Type: model.Float}}
	ints := func(v ...int64) column.Vector { return column.Vector{Type: model.Integer, Ints: v} }
	floats := func(v ...float64) column.Vector { return column.Vector{Type: model.Float, Floats: v} }
	ok := func(w *Writer) error { return w.Append([]int64{1, 2}, []column.Vector{ints(1, 2), floats(1, 2)}) }
	for name, do := range map[string]func(w *Writer) error{
		"no series":   ok,
		"id 0":        func(w *Writer) error { return w.Series(0, "m", f) },
		"empty key":   func(w *Writer) error { return w.Series(1, "", f) },
		"long key":    func(w *Writer) error { return w.Series(1, string(make([]byte, model.MaxKeyLength+1)), f) },
		"key order":   func(w *Writer) error { return errors.Join(w.Series(1, "m", f), w.Series(2, "l", f)) },
		"same key":    func(w *Writer) error { return errors.Join(w.Series(1, "m", f), w.Series(2, "m", f)) },
		"field order": func(w *Writer) error { return w.Series(1, "m", []column.Field{f[1], f[0]}) },
		"field type":  func(w *Writer) error { return w.Series(1, "m", []column.Field{{Key: "a"}}) },
		"columns":     func(w *Writer) error { _ = w.Series(1, "m", f); return w.Append([]int64{1}, []column.Vector{ints(1)}) },
		"no rows": func(w *Writer) error {
			_ = w.Series(1, "m", f)
			return w.Append(nil, []column.Vector{ints(), floats()})
		},
		"too many rows": func(w *Writer) error { _ = w.Series(1, "m", nil); return w.Append(make([]int64, MaxChunkRows+1), nil) },
		"rows": func(w *Writer) error {
			_ = w.Series(1, "m", f)
			return w.Append([]int64{1, 2}, []column.Vector{ints(1), floats(1, 2)})
		},
		"type": func(w *Writer) error {
			_ = w.Series(1, "m", f)
			return w.Append([]int64{1}, []column.Vector{floats(1), floats(1)})
		},
		"short bitmap": func(w *Writer) error {
			_ = w.Series(1, "m", f)
			v := ints(1)
			v.Valid = column.Bitmap{}
			return w.Append([]int64{1}, []column.Vector{v, floats(1)})
		},
		"time order": func(w *Writer) error {
			_ = w.Series(1, "m", f)
			return w.Append([]int64{2, 2}, []column.Vector{ints(1, 2), floats(1, 2)})
		},
		"too much text": func(w *Writer) error {
			_ = w.Series(1, "m", []column.Field{{Key: "s", Type: model.String}})
			v := column.Vector{Type: model.String}
			times := make([]int64, 1025)
			for i := range times {
				times[i] = int64(i)
				v.Strings = append(v.Strings, mebibyte)
			}
			return w.Append(times, []column.Vector{v})
		},
		"chunk order": func(w *Writer) error { _ = w.Series(1, "m", f); _ = ok(w); return ok(w) },
		"same id": func(w *Writer) error {
			_, err := errors.Join(w.Series(1, "m", f), ok(w), w.Series(1, "n", f), ok(w)), error(nil)
			_, err = w.Finish()
			return err
		},
	} {
		path := tempFile(t)
		w, err := Create(vfs.OS, path, WriterOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := do(w); err == nil {
			t.Errorf("%s: no error", name)
		}
		if _, err := w.Finish(); err == nil {
			t.Errorf("%s: finished after an error", name)
		}
		if err := w.Abort(); err != nil {
			t.Errorf("%s: abort: %v", name, err)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: file left: %v", name, err)
		}
	}
}

// A series without a chunk is not written, nor are its keys or ids.
func TestSeriesWithoutChunks(t *testing.T) {
	path := tempFile(t)
	w, err := Create(vfs.OS, path, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, key := range []string{"a", "b", "c"} {
		if err := w.Series(model.SeriesID(i+1), key, nil); err != nil {
			t.Fatal(err)
		}
		if key == "b" {
			if err := w.Append([]int64{7}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	info, err := w.Finish()
	if err != nil || info.Series != 1 || info.MinKey != "b" || info.MaxKey != "b" {
		t.Fatalf("%+v, %v", info, err)
	}
	if _, err := w.Finish(); err == nil {
		t.Fatal("finished twice")
	}
	if err := w.Abort(); err != nil {
		t.Fatal(err)
	}
	r := openFile(t, path)
	if _, ok, err := r.Find(1); ok || err != nil {
		t.Fatalf("found a series that was not written: %v", err)
	}
	if err := r.Load(1, new(Series)); err == nil || errors.Is(err, binio.ErrCorrupt) {
		t.Fatalf("load beyond the end: %v", err)
	}
	if _, err := r.Key(1); err == nil {
		t.Fatal("key beyond the end")
	}
	if _, err := r.ID(-1); err == nil {
		t.Fatal("id before the start")
	}
}

func TestReferences(t *testing.T) {
	rng := newRand(t)
	path := tempFile(t)
	series := randomSeries(rng, 5)
	writeSeries(t, path, WriterOptions{}, series)
	r, err := Open(vfs.OS, path)
	if err != nil {
		t.Fatal(err)
	}
	r.Acquire()
	r.Obsolete(true)
	for range 2 { // the second does nothing
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := compareFile(r, series); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal("removed under a reference")
	}
	if err := r.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Fatal("obsolete file was not removed")
	}
	for name, misuse := range map[string]func(){"acquire": r.Acquire, "release": func() { _ = r.Release() }} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s after the last release went unnoticed", name)
				}
			}()
			misuse()
		}()
	}
}
