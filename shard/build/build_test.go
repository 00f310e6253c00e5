package build_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/series"
	"tsdbd/shard/build"
	"tsdbd/tsi"
	"tsdbd/tsm"
)

const dir = "/shard"

// builder returns a builder in an empty directory.
func builder(t testing.TB, fs *vfstest.FS, opt build.Options) *build.Builder {
	t.Helper()
	if err := fs.MkdirAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := fs.MkdirAll("/series"); err != nil {
		t.Fatal(err)
	}
	var err error
	if opt.Series, err = series.Open(fs, "/series", series.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = opt.Series.Close() })
	number := uint64(0)
	opt.FS, opt.Dir, opt.Sequence = fs, dir, 7
	opt.Number = func() uint64 { number++; return number }
	if opt.MaxFile == 0 {
		opt.MaxFile = 1 << 30
	}
	b, err := build.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// contents reads files back: the rows of each series as text, by file.
func contents(t testing.TB, fs *vfstest.FS, files *build.Files) (out []map[string]string) {
	t.Helper()
	for _, rec := range files.TSM {
		r, err := tsm.Open(fs, dir+"/"+rec.Name)
		if err != nil {
			t.Fatal(err)
		}
		info := r.Info()
		if info.Size != rec.Size || info.Checksum != rec.Checksum || info.MinSequence != 7 || info.MaxSequence != 7 || rec.MaxSequence != 7 || info.Level != 9 {
			t.Errorf("%+v is recorded as %+v", info, rec)
		}
		got := map[string]string{}
		var s tsm.Series
		var c tsm.Chunk
		for i := range r.Len() {
			key, err := r.Key(i)
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Load(i, &s); err != nil {
				t.Fatal(err)
			}
			var text []byte
			for k := range s.Chunks {
				if err := r.Chunk(&s, k, &c); err != nil {
					t.Fatal(err)
				}
				times, err := c.Times()
				if err != nil {
					t.Fatal(err)
				}
				cols := make([]*column.Vector, len(s.Fields))
				for f := range s.Fields {
					if cols[f], err = c.Column(f); err != nil {
						t.Fatal(err)
					}
				}
				for row, at := range times {
					text = appendRow(text, at, s.Fields, row, cols)
				}
			}
			got[key] = string(text)
		}
		out = append(out, got)
		if err := r.Release(); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func appendRow(text []byte, at int64, fields []column.Field, row int, cols []*column.Vector) []byte {
	text = fmt.Append(text, at)
	for f, v := range cols {
		if v.IsValid(row) {
			switch v.Type {
			case model.Float:
				text = fmt.Appendf(text, " %s=%v", fields[f].Key, v.Floats[row])
			case model.Integer:
				text = fmt.Appendf(text, " %s=%di", fields[f].Key, v.Ints[row])
			case model.String:
				text = fmt.Appendf(text, " %s=%q", fields[f].Key, v.Strings[row])
			}
		}
	}
	return append(text, '\n')
}

// index returns the keys of the series in the index, by measurement and host.
func index(t testing.TB, fs *vfstest.FS, files *build.Files) (hosts []string, fields []column.Field) {
	t.Helper()
	var open []*tsi.File
	for _, rec := range files.TSI {
		f, err := tsi.OpenFile(fs, dir+"/"+rec.Name)
		if err != nil {
			t.Fatal(err)
		}
		if f.Info().Bytes != rec.Size {
			t.Errorf("%s has %d bytes, not %d", rec.Name, f.Info().Bytes, rec.Size)
		}
		open = append(open, f)
	}
	x, err := tsi.NewIndex(tsi.IndexOptions{Files: open})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	v := x.View()
	defer v.Release()
	if hosts, err = v.Charged(func(int64) error { return nil }).TagValues("m", "host", nil); err != nil {
		t.Fatal(err)
	}
	return hosts, v.Fields("m")
}

// TestBuilder builds random series, with small bounds so that there are several files and
// parts of the index, and reads them back. It reuses the memory of rows and texts.
func TestBuilder(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 1))
	for _, c := range []struct {
		name                string
		maxFile, indexBytes int64
		most                int // rows of a series
		files               int
	}{
		{"one file", 1 << 30, 1 << 20, testseed.Rounds(3000), 1},
		{"several files and parts", 40 << 10, 4 << 10, 300, 2},
		{"a row each", 1 << 30, 1 << 10, 1, 1},
	} {
		fs := vfstest.New()
		b := builder(t, fs, build.Options{MaxFile: c.maxFile, IndexBytes: c.indexBytes})
		want := map[string][]byte{}
		var names []string
		fields := []column.Field{{Key: "f", Type: model.Float}, {Key: "i", Type: model.Integer}, {Key: "s", Type: model.String}}
		var rows column.Rows
		types := []model.FieldType{model.Float, model.Integer, model.String}
		text := make([]byte, 8)
		for n := range 200 {
			host := fmt.Sprintf("h%04d", n)
			key := "m,host=" + host
			if refused, err := b.Series(key, fields); err != nil || len(refused) > 0 {
				t.Fatal(refused, err)
			}
			names = append(names, host)
			at := int64(0)
			for left := 1 + r.IntN(c.most); left > 0; {
				run := min(1+r.IntN(1024), left)
				left -= run
				rows.Reset(types)
				for range run {
					at += 1 + r.Int64N(3)
					rows.Times = append(rows.Times, at)
					only := r.IntN(4)
					for f := range rows.Cols {
						v := &rows.Cols[f]
						if only < 3 && only != f {
							v.AppendNull()
							continue
						}
						one := column.Vector{Type: v.Type, Floats: []float64{r.Float64()}, Ints: []int64{r.Int64()}}
						if v.Type == model.String {
							copy(text, fmt.Sprintf("%08d", r.IntN(1e8)))
							one.Strings = []string{string(text)}
						}
						v.AppendFrom(&one, 0)
					}
				}
				cols := []*column.Vector{&rows.Cols[0], &rows.Cols[1], &rows.Cols[2]}
				for row, at := range rows.Times {
					want[key] = appendRow(want[key], at, fields, row, cols)
				}
				if err := b.Append(&rows); err != nil {
					t.Fatal(err)
				}
				for i := range rows.Cols[2].Strings {
					rows.Cols[2].Strings[i] = "changed"
				}
			}
		}
		files, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, part := range contents(t, fs, files) {
			for key, text := range part {
				if got[key] != "" {
					t.Errorf("%s: %s is in two files", c.name, key)
				}
				got[key] = text
			}
		}
		for key, text := range want {
			if got[key] != string(text) {
				t.Fatalf("%s: %s\n%.300s\nwant\n%.300s", c.name, key, got[key], text)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: %d series of %d", c.name, len(got), len(want))
		}
		if len(files.TSM) < c.files || c.files == 1 && len(files.TSM) > 1 || len(files.TSI) != 1 {
			t.Errorf("%s: files %v", c.name, files.Names())
		}
		if hosts, have := index(t, fs, files); !slices.Equal(hosts, names) || !slices.Equal(have, fields) {
			t.Errorf("%s: the index has %v with %v", c.name, hosts, have)
		}
		left, err := fs.List(dir)
		if slices.Sort(left); err != nil || !slices.Equal(left, slices.Sorted(slices.Values(files.Names()))) {
			t.Errorf("%s: the directory has %v, the files are %v", c.name, left, files.Names())
		}
	}
}

// TestConflicts refuses fields whose type differs from the first of their measurement,
// and keeps the other values of the rows.
func TestConflicts(t *testing.T) {
	fs := vfstest.New()
	b := builder(t, fs, build.Options{})
	begin := func(key string, want int, fields ...column.Field) {
		t.Helper()
		refused, err := b.Series(key, fields)
		if err != nil || len(refused) != want {
			t.Fatalf("%s: %v, %v", key, refused, err)
		}
		if want > 0 && !strings.Contains(refused[0].Reason("m"), "is type integer, already exists as type float") {
			t.Errorf("%s", refused[0].Reason("m"))
		}
	}
	add := func(times []int64, cols ...column.Vector) {
		t.Helper()
		if err := b.Append(&column.Rows{Times: times, Cols: cols}); err != nil {
			t.Fatal(err)
		}
	}
	floats := func(v ...float64) column.Vector { return column.Vector{Type: model.Float, Floats: v} }
	ints := func(v ...int64) column.Vector { return column.Vector{Type: model.Integer, Ints: v} }
	x := column.Field{Key: "x", Type: model.Float}
	y := column.Field{Key: "y", Type: model.Integer}
	other := column.Field{Key: "x", Type: model.Integer}
	begin("m,host=a", 0, x)
	add([]int64{1}, floats(1))
	begin("m,host=b", 1, other, y)
	sparse := ints(5, 0)
	sparse.Valid = column.Bitmap{0b01}
	add([]int64{1, 2}, ints(8, 9), sparse) // of the second row only x is there
	begin("m,host=c", 1, other)
	add([]int64{1}, ints(8))
	begin("m,host=d", 0, y) // has no rows
	begin("n,host=c", 0, other)
	add([]int64{1}, ints(8))
	files, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	got := contents(t, fs, files)[0]
	want := map[string]string{"m,host=a": "1 x=1\n", "m,host=b": "1 y=5i\n", "n,host=c": "1 x=8i\n"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
	if hosts, fields := index(t, fs, files); !slices.Equal(hosts, []string{"a", "b"}) || !slices.Equal(fields, []column.Field{x, y}) {
		t.Errorf("the index has %v, %v", hosts, fields)
	}
}

// TestTexts cuts chunks by the bytes of their texts.
func TestTexts(t *testing.T) {
	fs := vfstest.New()
	b := builder(t, fs, build.Options{})
	if _, err := b.Series("m,host=a", []column.Field{{Key: "s", Type: model.String}}); err != nil {
		t.Fatal(err)
	}
	want := ""
	long := strings.Repeat("x", tsm.ChunkText/3)
	for i := range int64(10) {
		if err := b.Append(&column.Rows{Times: []int64{i}, Cols: []column.Vector{{Type: model.String, Strings: []string{long}}}}); err != nil {
			t.Fatal(err)
		}
		want += fmt.Sprintf("%d s=%q\n", i, long)
	}
	files, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if got := contents(t, fs, files)[0]["m,host=a"]; got != want {
		t.Errorf("%d bytes, want %d", len(got), len(want))
	}
}

// TestAbort leaves nothing, and refuses what is out of order.
func TestAbort(t *testing.T) {
	for _, finish := range []bool{false, true} {
		fs := vfstest.New()
		b := builder(t, fs, build.Options{MaxFile: 1, IndexBytes: 1})
		row := &column.Rows{Times: []int64{1}, Cols: []column.Vector{{Type: model.Integer, Ints: []int64{1}}}}
		for _, host := range []string{"a", "b", "c"} {
			if _, err := b.Series("m,host="+host, []column.Field{{Key: "x", Type: model.Integer}}); err != nil {
				t.Fatal(err)
			}
			if err := b.Append(row); err != nil {
				t.Fatal(err)
			}
		}
		if finish {
			if _, err := b.Finish(); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Abort(); err != nil {
			t.Fatal(err)
		}
		if names, err := fs.List(dir); err != nil || len(names) > 0 {
			t.Errorf("left: %v, %v", names, err)
		}
		if _, err := b.Series("m,host=z", []column.Field{{Key: "x", Type: model.Integer}}); err == nil {
			t.Error("goes on after Abort")
		}
	}
	b := builder(t, vfstest.New(), build.Options{})
	if _, err := b.Series("m", []column.Field{{Key: "x", Type: model.Integer}, {Key: "x", Type: model.Float}}); err == nil || !strings.Contains(err.Error(), "not in order") {
		t.Errorf("a field twice: %v", err)
	}
}

// fill gives a builder series of one row and one series that is longer than a batch.
func fill(b *build.Builder, n int) error {
	fields := []column.Field{{Key: "x", Type: model.Integer}, {Key: "y", Type: model.Float}}
	for i := range n {
		if _, err := b.Series(fmt.Sprintf("m,host=h%05d", i), fields); err != nil {
			return err
		}
		runs := 1
		if i == n/2 {
			runs = 60
		}
		for run := range runs {
			var rows column.Rows
			rows.Reset([]model.FieldType{model.Integer, model.Float})
			for k := range 1 + (runs-1)*15 {
				rows.Times = append(rows.Times, int64(run*1000+k))
				rows.Cols[0].Ints = append(rows.Cols[0].Ints, int64(i*k))
				rows.Cols[1].Floats = append(rows.Cols[1].Floats, float64(i)/8)
			}
			if err := b.Append(&rows); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestSame builds the same rows several times: the files are the same, byte by byte.
func TestSame(t *testing.T) {
	var want map[string]string
	for range 3 {
		fs := vfstest.New()
		b := builder(t, fs, build.Options{MaxFile: 40 << 10, IndexBytes: 60 << 10})
		if err := fill(b, 5000); err != nil {
			t.Fatal(err)
		}
		files, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, name := range files.Names() {
			got[name] = string(fs.Content(dir + "/" + name))
		}
		if set := files.Sets["m"]; len(files.Sets) != 1 || set.GetCardinality() != 5000 {
			t.Fatalf("series %v", files.Sets)
		}
		if want == nil {
			want = got
		}
		if len(files.TSM) < 2 || !maps.Equal(got, want) {
			t.Errorf("files %v differ from those of the first time", files.Names())
		}
	}
}

// TestFails fails at each operation: the builder says so, and leaves nothing.
func TestFails(t *testing.T) {
	broken := errors.New("disk on fire")
	done := false
	for n := 1; !done; n++ {
		fs := vfstest.New()
		b := builder(t, fs, build.Options{MaxFile: 20 << 10, IndexBytes: 30 << 10})
		ops := 0
		fs.SetHook(func(op vfstest.Op) error {
			if ops++; ops == n {
				return broken
			}
			return nil
		})
		err := fill(b, 2500)
		if err == nil {
			_, err = b.Finish()
		}
		fs.SetHook(nil)
		if done = ops < n; done {
			if err != nil || n < 20 {
				t.Errorf("after %d operations: %v", ops, err)
			}
			return
		}
		if err != nil && !errors.Is(err, broken) {
			t.Errorf("operation %d: %v", n, err)
		}
		if err := b.Abort(); err != nil && !errors.Is(err, broken) {
			t.Errorf("operation %d: %v", n, err)
		}
		if names, lerr := fs.List(dir); lerr != nil || err != nil && len(names) > 1 {
			t.Errorf("operation %d, %v: left %v, %v", n, err, names, lerr)
		}
	}
}
