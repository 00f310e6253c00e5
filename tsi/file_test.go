package tsi

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"sync"
	"testing"

	"tsdbd/internal/binio"
	"tsdbd/internal/testkit/formats"
	"tsdbd/internal/testkit/load"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
)

func testFile(t testing.TB, fs *vfstest.FS, path string, n int) *File {
	t.Helper()
	x, _ := NewIndex(IndexOptions{})
	x.RegisterFields(&point.Layout{Measurement: "cpu", Fields: []column.Field{{Key: "usage", Type: model.Float}, {Key: "n", Type: model.Integer}}})
	x.RegisterFields(&point.Layout{Measurement: "none", Fields: []column.Field{{Key: "f", Type: model.String}}})
	for i := range n {
		x.AddSeries(model.SeriesID(i+1), fmt.Sprintf("cpu,dc=dc%d,host=host_%d", i%3, i))
		if i%10 == 0 {
			x.AddSeries(model.SeriesID(n+i+1), fmt.Sprintf("mem,host=host_%d", i))
		}
	}
	if _, err := x.Freeze().WriteFile(fs, path); err != nil {
		t.Fatal(err)
	}
	f, err := OpenFile(fs, path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// answers reads everything a file says.
func answers(f *File) (out []any, err error) {
	for _, m := range f.measured {
		b, err := f.bodyOf(m)
		if err != nil {
			return nil, err
		}
		out = append(out, m.name, m.fields, b.set.ToArray())
		for _, r := range b.tags {
			t, err := f.loadTag(b, r)
			if err != nil {
				return nil, err
			}
			out = append(out, r.key, t.Present.ToArray())
			c := t.Cursor(f)
			for c.Next() {
				ids, err := c.Posting.IDs(nil)
				if err != nil {
					return nil, err
				}
				out = append(out, string(c.Value), ids)
			}
			if c.Err() != nil {
				return nil, c.Err()
			}
		}
	}
	keys, err := f.keys()
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		if out = append(out, k.key, k.only); k.only != 0 {
			continue
		}
		t, err := f.measurementsByValue(k)
		if err != nil {
			return nil, err
		}
		c := t.Cursor(f)
		for c.Next() {
			numbers, err := c.Posting.IDs(nil)
			if err != nil {
				return nil, err
			}
			out = append(out, string(c.Value), numbers)
		}
		if c.Err() != nil {
			return nil, c.Err()
		}
	}
	set, err := f.Series()
	if err != nil {
		return nil, err
	}
	return append(out, set.ToArray()), nil
}

// TestFileLetsGo: a file keeps a bounded number of measurements open, and answers the
// same whichever they are.
func TestFileLetsGo(t *testing.T) {
	fs := newFS()
	x, _ := NewIndex(IndexOptions{})
	const n = 2*keptBodies + 7
	for i := range n {
		name := fmt.Sprintf("m%d", i)
		x.RegisterFields(&point.Layout{Measurement: name, Fields: []column.Field{{Key: "v", Type: model.Float}, {Key: fmt.Sprint("x", i/100), Type: model.Float}}})
		x.AddSeries(model.SeriesID(i+1), fmt.Sprintf("%s,host=h%d", name, i))
	}
	if _, err := x.Freeze().WriteFile(fs, "x.tsi"); err != nil {
		t.Fatal(err)
	}
	f, err := OpenFile(fs, "x.tsi")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Release()
	var want []any
	for range 3 {
		got, err := answers(f)
		if err != nil || want != nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("another answer, %v", err)
		}
		want = got
		open := 0
		for _, m := range f.measured {
			if m.body.value.Load() != nil {
				open++
			}
		}
		if open != keptBodies {
			t.Errorf("%d measurements are open, want %d", open, keptBodies)
		}
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 2 * n {
				m := f.measured[(i*7+g*n/4)%n]
				if b, err := f.bodyOf(m); err != nil || b.set.GetCardinality() != 1 || len(b.tags) != 1 {
					t.Errorf("%s: %v", m.name, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if len(f.kept.bodies) != keptBodies {
		t.Errorf("%d are kept", len(f.kept.bodies))
	}
}

func TestFileFlipEveryByte(t *testing.T) {
	fs := newFS()
	want, err := answers(testFile(t, fs, "x.tsi", 800))
	if err != nil {
		t.Fatal(err)
	}
	data := fs.Content("x.tsi")
	for i := range data {
		c := newFS()
		put(t, c, "x.tsi", data)
		if err := c.Flip("x.tsi", int64(i), 1<<(i%8)); err != nil {
			t.Fatal(err)
		}
		f, err := OpenFile(c, "x.tsi")
		if err == nil {
			err = f.Verify()
			if got, aerr := answers(f); aerr == nil && !reflect.DeepEqual(got, want) {
				t.Fatalf("flip at %d: other answers, no error", i)
			}
		}
		if !errors.Is(err, binio.ErrCorrupt) {
			t.Fatalf("flip at %d: %v", i, err)
		}
	}
	for n := range len(data) {
		if n > 200 && n < len(data)-200 && n%17 != 0 {
			continue
		}
		c := newFS()
		put(t, c, "x.tsi", data[:n])
		if _, err := OpenFile(c, "x.tsi"); !errors.Is(err, binio.ErrCorrupt) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
}

func TestFileFaults(t *testing.T) {
	for n := 1; ; n++ {
		fs := newFS()
		x, _ := NewIndex(IndexOptions{})
		x.AddSeries(1, "m,a=b")
		s := x.Freeze()
		ops := fs.FailFrom(n, errInjected)
		_, err := s.WriteFile(fs, "x.tsi")
		if ops() < n {
			if err != nil {
				t.Fatal(err)
			}
			return
		}
		if !errors.Is(err, errInjected) {
			t.Fatalf("op %d: %v", n, err)
		}
		fs.SetHook(nil)
		if _, err := s.WriteFile(fs, "x.tsi"); err != nil {
			t.Fatalf("again after op %d: %v", n, err)
		}
	}
}

func TestFileGolden(t *testing.T) {
	fs := newFS()
	testFile(t, fs, "x.tsi", 20)
	formats.Golden(t, "tsi-v2.golden", fs.Content("x.tsi"))
	testFile(t, fs, "y.tsi", 20)
	if !slices.Equal(fs.Content("x.tsi"), fs.Content("y.tsi")) {
		t.Fatal("the same series gave another file")
	}
	// A file with every kind of posting, by its hash.
	x, _ := NewIndex(IndexOptions{})
	for i, k := range load.HicardKeys(20000) {
		x.AddSeries(model.SeriesID(i+1), k)
	}
	info, err := x.Freeze().WriteFile(fs, "z.tsi")
	if err != nil {
		t.Fatal(err)
	}
	if info.Bytes != 187244 || info.Hash != 0x6ad89d23216d4177 {
		t.Fatalf("%d bytes, hash %#x", info.Bytes, info.Hash)
	}
}

// TestLongBounds reads a file in which the bounds of pages are whole values, as the first
// builds of 0.9.0 wrote them.
func TestLongBounds(t *testing.T) {
	fs := newFS()
	want, err := answers(testFile(t, fs, "x.tsi", 20))
	if err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile("testdata/tsi-v2-long-bounds.golden")
	if err != nil {
		t.Fatal(err)
	}
	put(t, fs, "old.tsi", old)
	f, err := OpenFile(fs, "old.tsi")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := answers(f); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%v, %v", got, err)
	}
}

// TestMergeEqualsOne: the file of all series and the merge of parts are equal
// byte for byte.
func TestMergeEqualsOne(t *testing.T) {
	fs := newFS()
	layout := &point.Layout{Measurement: "m", Fields: []column.Field{{Key: "v", Type: model.Float}}}
	write := func(path string, from, to, step int) *File {
		x, _ := NewIndex(IndexOptions{})
		x.RegisterFields(layout)
		for i := from; i < to; i += step {
			x.AddSeries(model.SeriesID(i+1), fmt.Sprintf("m,h=%06d,k=%d,l=%d", i, i%7, i/1000))
		}
		if _, err := x.Freeze().WriteFile(fs, path); err != nil {
			t.Fatal(err)
		}
		f, err := OpenFile(fs, path)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	write("all.tsi", 0, 9000, 1)
	parts := []*File{write("1.tsi", 0, 9000, 2), write("2.tsi", 1, 4000, 2), write("3.tsi", 3001, 9000, 2)}
	if _, err := MergeFiles(fs, "merged.tsi", parts, MergeOptions{}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(fs.Content("all.tsi"), fs.Content("merged.tsi")) {
		t.Fatal("merged file differs")
	}
	// A merge tells what it does in small parts, and ends with the pace.
	calls, sum := 0, 0
	stop := errors.New("stop")
	pace := func(n int) error {
		if calls++; n < paceBytes || n > 2*paceBytes {
			t.Errorf("told of %d bytes at once", n)
		}
		if sum += n; calls == 3 {
			return stop
		}
		return nil
	}
	if _, err := MergeFiles(fs, "stopped.tsi", parts, MergeOptions{Pace: pace}); !errors.Is(err, stop) || calls != 3 {
		t.Errorf("%v after %d calls", err, calls)
	}
	if fs.Content("stopped.tsi") != nil {
		t.Error("a stopped merge left its file")
	}
	calls, sum = 4, 0
	if _, err := MergeFiles(fs, "paced.tsi", parts, MergeOptions{Pace: pace}); err != nil {
		t.Fatal(err)
	}
	if size := len(fs.Content("paced.tsi")); sum < size/2 || sum > 8*size {
		t.Errorf("told of %d bytes for a file of %d", sum, size)
	}
}

// TestOldFile refuses a file of version 1 by its version. Its footer is shorter.
func TestOldFile(t *testing.T) {
	fs := newFS()
	testFile(t, fs, "x.tsi", 20)
	b := fs.Content("x.tsi")
	foot := slices.Clone(b[len(b)-footerBytes:])
	old := append(b[:len(b)-footerBytes], foot[:32]...) // without the place of the tag keys
	old = append(old, foot[48:]...)
	at := len(old) - footerOfOne
	binary.LittleEndian.PutUint32(old[len(old)-16:], 1)
	binary.LittleEndian.PutUint32(old[len(old)-12:], binio.PlacedChecksum(int64(at), old[at:len(old)-12]))
	put(t, fs, "y.tsi", old)
	if _, err := OpenFile(fs, "y.tsi"); !errors.Is(err, binio.ErrVersion) {
		t.Errorf("open: %v", err)
	}
}
