package repair

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"tsdbd/internal/identity"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/series"
	"tsdbd/shard/manifest"
	"tsdbd/tsi"
	"tsdbd/tsm"
)

const dir = "/db/shard-7"

// entry is a series in a TSM file with the type of its field f.
type entry struct {
	id   model.SeriesID
	key  string
	kind model.FieldType
}

// home is a directory of TSM files without a manifest.
type home struct {
	t    *testing.T
	fs   *vfstest.FS
	q    *Quarantine
	file *series.File
}

func newHome(t *testing.T) *home {
	h := &home{t: t, fs: vfstest.New()}
	h.ok(h.fs.MkdirAll(dir))
	h.q = NewQuarantine(h.fs, dir, slog.New(slog.DiscardHandler))
	var err error
	h.file, err = series.Open(h.fs, "/db/series", series.Options{})
	h.ok(err)
	return h
}

func (h *home) ok(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// write writes a TSM file with a row of each series.
func (h *home) write(number, from, to uint64, level int, entries ...entry) {
	h.t.Helper()
	w, err := tsm.Create(h.fs, dir+"/"+manifest.TSMName(number), tsm.WriterOptions{MinSequence: from, MaxSequence: to, Level: level})
	h.ok(err)
	for _, e := range entries {
		h.ok(w.Series(e.id, e.key, []column.Field{{Key: "f", Type: e.kind}}))
		v := column.Vector{Type: e.kind}
		switch e.kind {
		case model.Float:
			v.Floats = []float64{1}
		case model.Integer:
			v.Ints = []int64{1}
		}
		h.ok(w.Append([]int64{10}, []column.Vector{v}))
	}
	_, err = w.Finish()
	h.ok(err)
}

// open opens TSM files, in the order of the numbers.
func (h *home) open(numbers ...uint64) (out []File) {
	h.t.Helper()
	for _, n := range numbers {
		r, err := tsm.Open(h.fs, dir+"/"+manifest.TSMName(n))
		h.ok(err)
		h.t.Cleanup(func() { _ = r.Release() })
		out = append(out, File{Reader: r})
	}
	return out
}

// keys returns the keys that the series file has for ids, "" for none.
func (h *home) keys(ids ...model.SeriesID) (out []string) {
	for _, id := range ids {
		key := ""
		_ = h.file.Keys([]model.SeriesID{id}, func(_ int, k string) error { key = strings.Clone(k); return nil })
		out = append(out, key)
	}
	return out
}

var (
	a = entry{1, "m,h=a", model.Float}
	b = entry{2, "m,h=b", model.Float}
	c = entry{3, "n,h=c", model.Integer}
)

// TestManifestFromFiles rebuilds the manifest of a directory: which files count,
// where the log and the numbers continue, and what is set aside.
func TestManifestFromFiles(t *testing.T) {
	for _, tc := range []struct {
		what  string
		put   func(h *home)
		files string // number:sequences of those that count
		next  uint64
		aside string // base names
	}{
		{"no file", func(*home) {}, "", 1, ""},
		{"two flushes", func(h *home) {
			h.write(1, 1, 5, 0, a, b)
			h.write(3, 6, 9, 0, a)
		}, "00000001.tsm:1-5:L0 00000003.tsm:6-9:L0", 4, ""},
		{"a merge and what it read", func(h *home) {
			h.write(1, 1, 5, 0, a, b)
			h.write(2, 6, 9, 0, a)
			h.write(3, 1, 9, 1, a, b)
		}, "00000003.tsm:1-9:L1", 4, ""},
		{"an index, which is not trusted", func(h *home) {
			h.write(1, 1, 5, 0, a)
			h.ok(h.fs.Put(dir+"/"+manifest.TSIName(8), []byte("index")))
		}, "00000001.tsm:1-5:L0", 9, ""},
		{"scratch of a flush and files of others", func(h *home) {
			h.write(1, 1, 5, 0, a)
			for _, name := range []string{"00000006.tsm.keys", "1.tsm", "notes.tsm", "00000002.tsm.bak"} {
				h.ok(h.fs.Put(dir+"/"+name, []byte("x")))
			}
		}, "00000001.tsm:1-5:L0", 7, ""},
		{"a damaged file among sound ones", func(h *home) {
			h.write(1, 1, 5, 0, a)
			h.write(2, 6, 9, 0, b)
			h.write(3, 10, 12, 0, b)
			h.ok(h.fs.Truncate(dir+"/"+manifest.TSMName(2), 30))
		}, "00000001.tsm:1-5:L0 00000003.tsm:10-12:L0", 4, "00000002.tsm"},
		{"damaged files alone", func(h *home) {
			h.ok(h.fs.Put(dir+"/"+manifest.TSMName(4), nil))
			h.ok(h.fs.Put(dir+"/"+manifest.TSMName(5), []byte("garbage")))
		}, "", 6, "00000004.tsm 00000005.tsm"},
		{"a damaged merge: what it read counts", func(h *home) {
			h.write(1, 1, 5, 0, a)
			h.write(2, 6, 9, 0, a)
			h.write(3, 1, 9, 1, a)
			h.ok(h.fs.Truncate(dir+"/"+manifest.TSMName(3), 30))
		}, "00000001.tsm:1-5:L0 00000002.tsm:6-9:L0", 4, "00000003.tsm"},
	} {
		t.Run(tc.what, func(t *testing.T) {
			h := newHome(t)
			tc.put(h)
			before := h.fs.Clone()
			m := manifest.New(7, identity.Lineage{1})
			h.ok(Manifest(h.fs, dir, m, h.q))
			var files, aside []string
			flushed := uint64(0)
			for _, f := range m.TSM {
				files = append(files, fmt.Sprintf("%s:%d-%d:L%d", f.Name, f.MinSequence, f.MaxSequence, f.Level))
				flushed = max(flushed, f.MaxSequence)
				if size := int64(len(h.fs.Content(dir + "/" + f.Name))); f.Size != size || f.Checksum == 0 {
					t.Errorf("%s: %d bytes of checksum %x, not %d", f.Name, f.Size, f.Checksum, size)
				}
			}
			if got := strings.Join(files, " "); got != tc.files || m.Next != tc.next || m.Flushed != flushed {
				t.Errorf("files %q, next %d, flushed %d; want %q, %d, %d", got, m.Next, m.Flushed, tc.files, tc.next, flushed)
			}
			if m.Shard != 7 || m.Lineage != (identity.Lineage{1}) || len(m.TSI) != 0 || len(m.Tombstones) != 0 {
				t.Errorf("manifest %+v", m)
			}
			for _, q := range h.q.List() {
				name := q.Path[strings.LastIndex(q.Path, "/")+1:]
				aside = append(aside, name)
				if q.Loss != LossPoints || q.Gone || !strings.Contains(q.Reason, dir+"/"+name) || !strings.Contains(q.Text, "shard 7") {
					t.Errorf("in quarantine: %+v", q)
				}
				if !bytes.Equal(h.fs.Content(q.Path), before.Content(dir+"/"+name)) {
					t.Errorf("%s changed on its way to quarantine", name)
				}
			}
			if got := strings.Join(aside, " "); got != tc.aside {
				t.Errorf("in quarantine %q, want %q", got, tc.aside)
			}
			for _, name := range before.Files() {
				if !strings.Contains(tc.aside+" ", name[strings.LastIndex(name, "/")+1:]+" ") && !bytes.Equal(h.fs.Content(name), before.Content(name)) {
					t.Errorf("%s changed", name)
				}
			}
		})
	}
}

// TestManifestOfFailingDisk has a disk that cannot read a file: that is no damage,
// so the file stays where it is.
func TestManifestOfFailingDisk(t *testing.T) {
	h := newHome(t)
	h.write(1, 1, 5, 0, a)
	failed := errors.New("input/output error")
	h.fs.SetReadHook(func(_, path string) error {
		if strings.HasSuffix(path, ".tsm") {
			return failed
		}
		return nil
	})
	err := Manifest(h.fs, dir, manifest.New(7, identity.Lineage{}), h.q)
	h.fs.SetReadHook(nil)
	if !errors.Is(err, failed) || len(h.q.List()) != 0 || h.fs.Content(dir+"/"+manifest.TSMName(1)) == nil {
		t.Errorf("error %v, quarantine %v", err, h.q.List())
	}
}

// TestIndexFromFiles rebuilds an index: which series it has, of which type their
// field is, and what the series file gets back.
func TestIndexFromFiles(t *testing.T) {
	older := entry{1, "m,h=a", model.Integer}
	for _, tc := range []struct {
		what   string
		put    func(h *home)
		files  []uint64 // newest first
		dead   model.SeriesID
		series string
		fields string // of m
	}{
		{"one file", func(h *home) { h.write(1, 1, 5, 0, a, b, c) }, []uint64{1}, 0, "1 2 3", "f float"},
		{"two files with a series in both", func(h *home) {
			h.write(1, 1, 5, 0, a)
			h.write(2, 6, 9, 0, a, b)
		}, []uint64{2, 1}, 0, "1 2", "f float"},
		{"the newest file has the type", func(h *home) {
			h.write(1, 1, 5, 0, older)
			h.write(2, 6, 9, 0, a)
		}, []uint64{2, 1}, 0, "1", "f float"},
		{"a series without living rows", func(h *home) { h.write(1, 1, 5, 0, a, b) }, []uint64{1}, 2, "1", "f float"},
		{"no series is left", func(h *home) { h.write(1, 1, 5, 0, a) }, []uint64{1}, 1, "", ""},
		{"no files", func(*home) {}, nil, 0, "", ""},
	} {
		t.Run(tc.what, func(t *testing.T) {
			h := newHome(t)
			tc.put(h)
			x, err := NewIndex()
			h.ok(err)
			defer x.Close()
			living := func(id model.SeriesID) (bool, error) { return id != tc.dead, nil }
			h.ok(x.AddFiles(h.open(tc.files...), h.file, living, slog.New(slog.DiscardHandler)))
			if x.Empty() != (tc.series == "") {
				t.Fatalf("empty: %v", x.Empty())
			}
			if x.Empty() {
				return
			}
			info, err := x.Write(h.fs, dir+"/"+manifest.TSIName(9), slog.New(slog.DiscardHandler))
			h.ok(err)
			if size := int64(len(h.fs.Content(dir + "/" + manifest.TSIName(9)))); info.Bytes != size {
				t.Errorf("%d bytes reported, %d written", info.Bytes, size)
			}
			f, err := tsi.OpenFile(h.fs, dir+"/"+manifest.TSIName(9))
			h.ok(err)
			index, err := tsi.NewIndex(tsi.IndexOptions{Files: []*tsi.File{f}, Keys: h.file.Keys})
			h.ok(err)
			defer index.Close()
			v := index.View()
			defer v.Release()
			ids := strings.Trim(v.All().String(), "{}")
			if got := strings.ReplaceAll(ids, ",", " "); got != tc.series {
				t.Errorf("series %s, want %s", got, tc.series)
			}
			var fields []string
			for _, f := range v.Fields("m") {
				fields = append(fields, fmt.Sprint(f.Key, " ", f.Type))
			}
			if got := strings.Join(fields, ", "); got != tc.fields {
				t.Errorf("fields %s, want %s", got, tc.fields)
			}
			for i, key := range h.keys(1, 2, 3) {
				want := ""
				if strings.Contains(tc.series, fmt.Sprint(i+1)) {
					want = []entry{a, b, c}[i].key
				}
				if key != want {
					t.Errorf("the series file has %q for %d, want %q", key, i+1, want)
				}
			}
		})
	}
}

// TestIndexKeepsFirstType adds fields that have another type already: they keep it,
// and the other fields of the series are added.
func TestIndexKeepsFirstType(t *testing.T) {
	x, err := NewIndex()
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	x.Add(1, "m,h=a", []column.Field{{Key: "f", Type: model.Float}})
	x.Add(2, "m,h=b", []column.Field{{Key: "f", Type: model.Integer}, {Key: "g", Type: model.String}})
	x.Add(3, "m,h=c", []column.Field{{Key: "g", Type: model.Boolean}})
	v := x.index.View()
	defer v.Release()
	want := []column.Field{{Key: "f", Type: model.Float}, {Key: "g", Type: model.String}}
	if got := v.Fields("m"); !slices.Equal(got, want) {
		t.Errorf("fields %v, want %v", got, want)
	}
	if n := x.index.SeriesCount(); n != 3 {
		t.Errorf("%d series", n)
	}
}

// TestIndexKeepsWhatFits has a series whose id the series file gave to another
// key: it is left out, and the others are in.
func TestIndexKeepsWhatFits(t *testing.T) {
	h := newHome(t)
	h.ok(h.file.Restore(2, "other,h=x"))
	h.write(1, 1, 5, 0, a, b, c)
	x, err := NewIndex()
	h.ok(err)
	defer x.Close()
	var log bytes.Buffer
	living := func(model.SeriesID) (bool, error) { return true, nil }
	h.ok(x.AddFiles(h.open(1), h.file, living, slog.New(slog.NewTextHandler(&log, nil))))
	if n := x.index.SeriesCount(); n != 2 || x.index.Contains(2) {
		t.Errorf("%d series, with 2: %v", n, x.index.Contains(2))
	}
	if !strings.Contains(log.String(), "series=1") || !strings.Contains(log.String(), manifest.TSMName(1)) {
		t.Errorf("logged %q", log.String())
	}
	if keys := h.keys(2); keys[0] != "other,h=x" {
		t.Errorf("2 became %q", keys[0])
	}
}

// TestSeriesFromFiles restores a series file that has lost all or some series: an
// error at one does not end the work at the others.
func TestSeriesFromFiles(t *testing.T) {
	for _, tc := range []struct {
		what     string
		known    []entry
		n        int
		conflict bool
		keys     string
	}{
		{"all lost", nil, 4, false, "m,h=a m,h=b n,h=c"},
		{"some lost", []entry{a}, 4, false, "m,h=a m,h=b n,h=c"},
		{"none lost", []entry{a, b, c}, 4, false, "m,h=a m,h=b n,h=c"},
		{"an id of another key", []entry{{1, "other", 0}}, 2, true, "other m,h=b n,h=c"},
	} {
		h := newHome(t)
		h.write(1, 1, 5, 0, a, b)
		h.write(2, 6, 9, 0, a, c)
		for _, e := range tc.known {
			h.ok(h.file.Restore(e.id, e.key))
		}
		n, err := Series(h.open(1, 2), h.file)
		if n != tc.n || errors.Is(err, series.ErrConflict) != tc.conflict || err != nil && !tc.conflict {
			t.Errorf("%s: %d restored, %v", tc.what, n, err)
		}
		if got := strings.Join(h.keys(1, 2, 3), " "); got != tc.keys {
			t.Errorf("%s: keys %s, want %s", tc.what, got, tc.keys)
		}
	}
}
