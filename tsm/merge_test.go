package tsm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"testing"

	"tsdbd/internal/binio"
	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
)

// Copying every chunk whole gives the same file as writing the rows.
func TestAppendEncodedIdentity(t *testing.T) {
	rng := newRand(t)
	for range 4 {
		series := randomSeries(rng, 100)
		path, out := tempFile(t), tempFile(t)
		writeSeries(t, path, WriterOptions{}, series)
		copyFile(t, openFile(t, path), out)
		if string(readAll(t, path)) != string(readAll(t, out)) {
			t.Fatal("the copy differs")
		}
	}
}

// Dense blocks hold the same rows, whether they are written or copied, and a
// copy of them is the same again.
func TestDense(t *testing.T) {
	rng := newRand(t)
	var series []testSeries
	for i := range 40 {
		s := testSeries{id: model.SeriesID(i + 1), key: fmt.Sprintf("m,n=%03d", i), fields: []column.Field{{Key: "f", Type: model.Float}, {Key: "i", Type: model.Integer}, {Key: "u", Type: model.Unsigned}}}
		rows := 1 + rng.IntN(3000)
		all := testChunk{cols: []column.Vector{{Type: model.Float}, {Type: model.Integer}, {Type: model.Unsigned}}}
		at, walk := int64(0), 50.0
		valid := column.NewBitmap(rows)
		for k := range rows {
			at += 10e9 + int64(rng.NormFloat64()*float64(i%3)*1e6)
			walk += rng.NormFloat64()
			all.times = append(all.times, at)
			all.cols[0].Floats = append(all.cols[0].Floats, math.Round(walk)/10)
			all.cols[1].Ints = append(all.cols[1].Ints, int64(walk))
			all.cols[2].Uints = append(all.cols[2].Uints, uint64(1e6+walk))
			if rng.IntN(3) > 0 {
				valid.Set(k)
			}
		}
		if i%2 == 0 {
			all.cols[1].Valid = valid
		}
		s.chunks = []testChunk{all}
		series = append(series, s)
	}
	plain, dense, copied, again := tempFile(t), tempFile(t), tempFile(t), tempFile(t)
	writeSeries(t, plain, WriterOptions{}, series)
	writeSeries(t, dense, WriterOptions{Dense: true}, series)
	copyFileWith(t, openFile(t, plain), copied, WriterOptions{Dense: true})
	copyFile(t, openFile(t, dense), again)
	if err := compareFile(openFile(t, dense), series); err != nil {
		t.Error(err)
	}
	want := string(readAll(t, dense))
	if string(readAll(t, copied)) != want || string(readAll(t, again)) != want {
		t.Error("a copy of dense blocks, or into them, differs")
	}
	if was, is := len(readAll(t, plain)), len(want); is > was*19/20 {
		t.Errorf("%d bytes dense, %d else", is, was)
	}
}

// Two files whose series alternate in time merge into one with the union of
// the fields; fields that a chunk's file lacked are null there.
func TestAppendEncodedUnion(t *testing.T) {
	rng := newRand(t)
	series := randomSeries(rng, 120)
	all := []column.Field{{Key: "a", Type: model.Integer}, {Key: "f00", Type: model.Boolean}, {Key: "zz", Type: model.Float}}
	var left, right []testSeries
	want := make([]testSeries, len(series))
	for i := range series {
		s := &series[i]
		want[i] = testSeries{id: s.id, key: s.key}
		// The union of the series' own fields and those of all that do not
		// clash with them.
		union := map[string]model.FieldType{}
		for _, f := range all {
			union[f.Key] = f.Type
		}
		for _, f := range s.fields {
			union[f.Key] = f.Type
		}
		want[i].fields = sortedFields(union)
		half := rng.IntN(len(s.chunks) + 1)
		l, r := *s, *s
		l.chunks, r.chunks = s.chunks[:half], s.chunks[half:]
		if len(l.chunks) > 0 {
			left = append(left, l)
		}
		if len(r.chunks) > 0 {
			right = append(right, r)
		}
		for _, c := range s.chunks {
			rows := len(c.times)
			wc := testChunk{times: c.times}
			for _, f := range want[i].fields {
				v := column.Vector{Type: f.Type, Valid: column.NewBitmap(rows)}
				v.Resize(rows)
				for j, own := range s.fields {
					if own == f {
						v = c.cols[j]
					}
				}
				wc.cols = append(wc.cols, v)
			}
			want[i].chunks = append(want[i].chunks, wc)
		}
	}
	lp, rp, out := tempFile(t), tempFile(t), tempFile(t)
	writeSeries(t, lp, WriterOptions{}, left)
	writeSeries(t, rp, WriterOptions{}, right)
	files := []*Reader{openFile(t, lp), openFile(t, rp)}
	w, err := Create(vfs.OS, out, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var s Series
	for i := range want {
		if err := w.Series(want[i].id, want[i].key, want[i].fields); err != nil {
			t.Fatal(err)
		}
		for _, r := range files {
			o, ok, err := r.Find(want[i].id)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				continue
			}
			if err := r.Load(o, &s); err != nil {
				t.Fatal(err)
			}
			for k := range s.Chunks {
				if err := w.AppendEncoded(t.Context(), r, &s, k); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	info, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	r := openFile(t, out)
	if err := compareFile(r, want); err != nil {
		t.Fatal(err)
	}
	if err := r.Verify(context.Background()); err != nil {
		t.Fatal(err)
	}
	var values int64
	for i := range series {
		values += series[i].values()
	}
	if info.Values != values {
		t.Fatalf("%d values, want %d", info.Values, values)
	}
}

func sortedFields(m map[string]model.FieldType) (out []column.Field) {
	for _, key := range []string{"a", "f00", "f01", "f02", "f03", "f04", "f05", "f06", "f07", "f08", "f09", "f10", "f11", "zz"} {
		if t, ok := m[key]; ok {
			out = append(out, column.Field{Key: key, Type: t})
		}
	}
	return out
}

func TestAppendEncodedRefuses(t *testing.T) {
	path := tempFile(t)
	series := sampleSeries()
	writeSeries(t, path, WriterOptions{}, series)
	r := openFile(t, path)
	var s Series
	if err := r.Load(2, &s); err != nil {
		t.Fatal(err)
	}
	other := append([]column.Field(nil), s.Fields...)
	other[1].Type = model.Integer
	for name, do := range map[string]func(w *Writer) error{
		"no series": func(w *Writer) error { return w.AppendEncoded(t.Context(), r, &s, 0) },
		"fewer fields": func(w *Writer) error {
			_ = w.Series(1, "m", s.Fields[1:])
			return w.AppendEncoded(t.Context(), r, &s, 0)
		},
		"other type": func(w *Writer) error { _ = w.Series(1, "m", other); return w.AppendEncoded(t.Context(), r, &s, 0) },
		"no chunk":   func(w *Writer) error { _ = w.Series(1, "m", s.Fields); return w.AppendEncoded(t.Context(), r, &s, 1) },
		"time order": func(w *Writer) error {
			_ = w.Series(1, "m", s.Fields)
			_ = w.AppendEncoded(t.Context(), r, &s, 0)
			return w.AppendEncoded(t.Context(), r, &s, 0)
		},
		"other file's series": func(w *Writer) error {
			_ = w.Series(1, "m", s.Fields)
			return w.AppendEncoded(t.Context(), r, new(Series), 0)
		},
	} {
		w, err := Create(vfs.OS, tempFile(t), WriterOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := do(w); err == nil {
			t.Errorf("%s: no error", name)
		}
		if err := w.Abort(); err != nil {
			t.Error(err)
		}
	}
}

// Damage in a source chunk stops the copy: it is never given a new checksum.
func TestAppendEncodedDamaged(t *testing.T) {
	path := tempFile(t)
	series := sampleSeries()
	writeSeries(t, path, WriterOptions{}, series)
	data := readAll(t, path)
	for _, c := range dataChunks(t, data) {
		for at := c.off; at < c.off+c.size; at++ {
			data[at] ^= 0x10
			r, err := Open(bytesFS{data: data}, "x.tsm")
			if err != nil {
				t.Fatal(err)
			}
			w, err := Create(nullFS{}, "out.tsm", WriterOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var s Series
			err = nil
			for i := 0; i < r.Len() && err == nil; i++ {
				if err = r.Load(i, &s); err != nil {
					break
				}
				if err = w.Series(s.ID, series[i].key, s.Fields); err != nil {
					break
				}
				for k := range s.Chunks {
					if err = w.AppendEncoded(t.Context(), r, &s, k); err != nil {
						break
					}
				}
			}
			if !errors.Is(err, binio.ErrCorrupt) {
				t.Fatalf("flip at %d: %v", at, err)
			}
			data[at] ^= 0x10
		}
	}
}

// nullFS creates files that go nowhere.
type nullFS struct{ vfs.FS }

type nullFile struct{ vfs.File }

func (nullFS) Create(string) (vfs.File, error)     { return nullFile{}, nil }
func (nullFS) Remove(string) error                 { return nil }
func (nullFile) Write(b []byte) (int, error)       { return len(b), nil }
func (nullFile) Close() error                      { return nil }
func (nullFile) Sync() error                       { return nil }
func (nullFile) ReadAt([]byte, int64) (int, error) { return 0, errors.New("nothing there") }

// failFS fails the n-th operation on files.
type failFS struct {
	vfs.FS
	left *int
}

type failFile struct {
	vfs.File
	fs failFS
}

var errInjected = errors.New("injected")

func (fs failFS) step() error {
	*fs.left--
	if *fs.left == 0 {
		return errInjected
	}
	return nil
}

func (fs failFS) Create(name string) (vfs.File, error) {
	if err := fs.step(); err != nil {
		return nil, err
	}
	f, err := fs.FS.Create(name)
	return failFile{f, fs}, err
}

func (f failFile) Write(b []byte) (int, error) {
	if err := f.fs.step(); err != nil {
		n, _ := f.File.Write(b[:len(b)/2])
		return n, err
	}
	return f.File.Write(b)
}

func (f failFile) ReadAt(b []byte, off int64) (int, error) {
	if err := f.fs.step(); err != nil {
		return 0, err
	}
	return f.File.ReadAt(b, off)
}

func (f failFile) Sync() error {
	if err := f.fs.step(); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f failFile) Close() error {
	err := f.fs.step()
	return errors.Join(err, f.File.Close())
}

// Whatever call fails, the writer says so and leaves nothing behind.
func TestWriterFaults(t *testing.T) {
	rng := newRand(t)
	series := randomSeries(rng, 150)
	for n := 1; ; n++ {
		left := n
		fs := failFS{FS: vfs.OS, left: &left}
		path := tempFile(t)
		err := func() error {
			w, err := Create(fs, path, WriterOptions{IndexMemory: 2})
			if err != nil {
				return err
			}
			defer func() { _ = w.Abort() }()
			for i := range series {
				s := &series[i]
				if err := w.Series(s.id, s.key, s.fields); err != nil {
					return err
				}
				for _, c := range s.chunks {
					if err := w.Append(c.times, c.cols); err != nil {
						return err
					}
				}
			}
			_, err = w.Finish()
			return err
		}()
		if left > 0 {
			if err != nil {
				t.Fatalf("without a fault: %v", err)
			}
			if n < 8 {
				t.Fatalf("only %d operations", n)
			}
			t.Logf("failed each of %d operations", n-1)
			return
		}
		if !errors.Is(err, errInjected) {
			t.Fatalf("fault %d: %v", n, err)
		}
		for _, name := range []string{path, path + ".keys", path + ".entries"} {
			if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
				t.Fatalf("fault %d: %s is left: %v", n, name, err)
			}
		}
	}
}

// Many goroutines read one file while blocks are verified for the first time.
func TestConcurrentReaders(t *testing.T) {
	rng := newRand(t)
	series := randomSeries(rng, 150)
	path := tempFile(t)
	writeSeries(t, path, WriterOptions{}, series)
	r := openFile(t, path)
	var wg sync.WaitGroup
	for range 4 {
		r.Acquire()
		wg.Go(func() {
			if err := compareFile(r, series); err != nil {
				t.Error(err)
			}
			if err := r.Release(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// The hot path allocates nothing once its buffers have grown, which go from a released chunk
// to another one.
func TestScanDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("pools drop items under the race detector")
	}
	path := tempFile(t)
	writeWide(t, path, 130, 100)
	r := openFile(t, path)
	var s Series
	walk := func() {
		var c Chunk
		defer c.Release()
		for i := range r.Len() {
			if err := r.Load(i, &s); err != nil {
				t.Fatal(err)
			}
			for k := range s.Chunks {
				if err := r.Chunk(&s, k, &c); err != nil {
					t.Fatal(err)
				}
				if _, err := c.Times(); err != nil {
					t.Fatal(err)
				}
				for f := range s.Fields {
					if _, err := c.Column(f); err != nil {
						t.Fatal(err)
					}
					if !c.Stats(f, new(scan.Stats)) {
						t.Fatal("no statistics")
					}
				}
			}
			if _, ok, err := r.Find(s.ID); !ok || err != nil {
				t.Fatal(err)
			}
		}
	}
	walk()
	if n := testing.AllocsPerRun(5, walk); n > 0 {
		t.Errorf("%v allocations a walk", n)
	}
}
