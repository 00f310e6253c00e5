package portion

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/binio"
	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/shard/moves"
	"tsdbd/tsm"
)

// names are keys of series in their order; a series has its place, from 1 on, as id. Names
// of other measurements are between those of cpu.
var names = []string{"cpu", "cpu!a,h=1", "cpu+a", "cpu,h=1", "cpu,h=2", "cpu,h=3", "cpu-a,h=1", `cpu\,h=1,h=1`, "cpus,h=1", "mem,h=1"}

// name returns the key of a series.
func name(id model.SeriesID) string {
	if int(id) <= len(names) {
		return names[id-1]
	}
	return fmt.Sprintf("other,h=%09d", id)
}

func keys(ids []model.SeriesID, fn func(i int, key string) error) error {
	for i, id := range ids {
		if err := fn(i, name(id)); err != nil {
			return err
		}
	}
	return nil
}

// fileOf writes a file of some series with so many rows each.
func fileOf(t *testing.T, fs vfs.FS, number, rows int, ids ...model.SeriesID) File {
	t.Helper()
	path := fmt.Sprintf("/%d.tsm", number)
	w, err := tsm.Create(fs, path, tsm.WriterOptions{MinSequence: uint64(number), MaxSequence: uint64(number)})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		v := column.Vector{Type: model.Float}
		var times []int64
		for i := range rows {
			times = append(times, int64(i))
			v.Floats = append(v.Floats, float64(id)*1.1+float64(i*i))
		}
		err := w.Series(id, name(id), []column.Field{{Key: "f", Type: model.Float}})
		if err == nil {
			err = w.Append(times, []column.Vector{v})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	r, err := tsm.Open(fs, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return File{Reader: r}
}

// pairs returns a move of series to others.
func pairs(t *testing.T, sequence uint64, fromTo ...[2]model.SeriesID) *moves.Move {
	t.Helper()
	var b moves.Builder
	for _, p := range fromTo {
		b.Add(p[0], p[1])
	}
	p, err := b.Pairs()
	if err != nil {
		t.Fatal(err)
	}
	return &moves.Move{Sequence: sequence, Pairs: p, Change: model.Change{Measurement: "cpu", To: "cpu"}}
}

func rename(t *testing.T, sequence uint64, measurement string) *moves.Move {
	m := pairs(t, sequence)
	m.Change = model.Change{Measurement: measurement, To: measurement, RenameField: model.Rename{From: "f", To: "g"}}
	return m
}

// TestChoose asks for one portion after another, as merges do: what a portion had is gone
// from the files when the next one is chosen.
func TestChoose(t *testing.T) {
	fs := vfstest.New()
	all := []model.SeriesID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	broken := binio.Corruptf("/2.tsm", 7, "broken")
	for _, c := range []struct {
		what  string
		moves []*moves.Move
		bytes int64
		lost  model.SeriesID // of a damaged second file
		want  []string       // portions
	}{
		{"all at once", []*moves.Move{pairs(t, 9, [2]model.SeriesID{4, 5}, [2]model.SeriesID{6, 9})}, 1 << 30, 0, []string{"{4,5,6,9} whole"}},
		{"in the order of keys", []*moves.Move{pairs(t, 9, [2]model.SeriesID{6, 5}, [2]model.SeriesID{4, 9})}, 1, 0, []string{"{4,9}", "{5,6} whole"}},
		{"chains stay together", []*moves.Move{
			pairs(t, 8, [2]model.SeriesID{10, 4}, [2]model.SeriesID{1, 7}), pairs(t, 9, [2]model.SeriesID{4, 2}),
		}, 1, 0, []string{"{1,7}", "{2,4,10} whole"}},
		{"a field is renamed", []*moves.Move{rename(t, 9, "cpu")}, 1 << 30, 0, []string{"{1,4,5,6} whole"}},
		{"a field is renamed in one series after another", []*moves.Move{rename(t, 9, "cpu")}, 1, 0, []string{"{1}", "{4}", "{5}", "{6} whole"}},
		{"a name with a comma", []*moves.Move{rename(t, 9, "cpu,h=1")}, 1, 0, []string{"{8} whole"}},
		{"a measurement without series", []*moves.Move{rename(t, 9, "none")}, 1, 0, []string{"{} whole"}},
		{"rows that cannot be read", []*moves.Move{
			pairs(t, 8, [2]model.SeriesID{4, 5}, [2]model.SeriesID{6, 9}), rename(t, 9, "cpu!a"),
		}, 1 << 30, 5, []string{"{2,6,9} 2 lost", "{} 2 lost"}},
		{"none is concerned", []*moves.Move{pairs(t, 8, [2]model.SeriesID{4, 5})}, 1, 10, []string{"{4,5} whole"}},
	} {
		r := Request{Files: []File{fileOf(t, fs, 1, 300, all...), fileOf(t, fs, 2, 10, all...)}, Keys: keys, Bytes: c.bytes}
		list := moves.NewList(c.moves)
		if c.lost > 0 {
			r.Files[1].Sound = func(id model.SeriesID) error {
				if id == c.lost {
					return broken
				}
				return nil
			}
		}
		var got []string
		for range 10 {
			r.Door = list.Door(1, 2)
			p, err := Choose(t.Context(), &r)
			if err != nil {
				t.Fatalf("%s: %v", c.what, err)
			}
			text := p.Series.String()
			if p.All {
				text += " whole"
			}
			if p.Unsound > 0 {
				text += fmt.Sprintf(" %d lost", p.Unsound)
			}
			if (p.Unsound > 0) != errors.Is(p.Damage, binio.ErrCorrupt) {
				t.Errorf("%s: %d series are lost by %v", c.what, p.Unsound, p.Damage)
			}
			got = append(got, text)
			for i, held := range p.InFile {
				if !held.Equals(p.Series) { // each file has all series
					t.Errorf("%s: file %d has %v of %v", c.what, i, held, p.Series)
				}
				if r.Files[i].Gone == nil {
					r.Files[i].Gone = roaring.New()
				}
				r.Files[i].Gone.Or(held)
			}
			if p.All || p.Series.IsEmpty() {
				break
			}
			list = list.Without(p.Series, 9, false)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

// TestChooseOfDamagedFile takes series that a damaged file does not have: they are not gone
// from it, or it would seem to be emptied.
func TestChooseOfDamagedFile(t *testing.T) {
	fs := vfstest.New()
	f := fileOf(t, fs, 2, 10, 4, 6)
	f.Sound = func(model.SeriesID) error { return nil }
	r := Request{
		Files: []File{fileOf(t, fs, 1, 10, 4, 5, 6), f}, Keys: keys, Bytes: 1 << 30,
		Door: moves.NewList([]*moves.Move{pairs(t, 8, [2]model.SeriesID{4, 5}, [2]model.SeriesID{9, 10})}).Door(1, 2),
	}
	p, err := Choose(t.Context(), &r)
	if err != nil || !p.InFile[0].Equals(roaring.BitmapOf(4, 5)) || !p.InFile[1].Equals(roaring.BitmapOf(4)) {
		t.Errorf("%v: %v", p, err)
	}
}

// TestChooseCanceled ends with its context.
func TestChooseCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := Request{Files: []File{fileOf(t, vfstest.New(), 1, 3, 4, 5)}, Door: moves.NewList([]*moves.Move{pairs(t, 8, [2]model.SeriesID{4, 5})}).Door(1), Keys: keys, Bytes: 1}
	if _, err := Choose(ctx, &r); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestHeld looks for few and for many series in a file with a series that is gone.
func TestHeld(t *testing.T) {
	var ids []model.SeriesID
	for id := model.SeriesID(100); id < 200; id += 2 {
		ids = append(ids, id)
	}
	f := fileOf(t, vfstest.New(), 1, 3, ids...)
	f.Gone = roaring.BitmapOf(104)
	many := roaring.New()
	many.AddRange(150, 190)
	even := roaring.New()
	for id := uint32(150); id < 190; id += 2 {
		even.Add(id)
	}
	for _, c := range []struct{ set, want *roaring.Bitmap }{
		{roaring.New(), roaring.New()},
		{roaring.BitmapOf(1, 103), roaring.New()},
		{roaring.BitmapOf(102, 104), roaring.BitmapOf(102)},
		{roaring.BitmapOf(99, 101, 104, 106, 198, 200), roaring.BitmapOf(106, 198)},
		{many, even},
	} {
		if got, err := f.those(t.Context(), c.set); err != nil || !got.Equals(c.want) {
			t.Errorf("%v of %v, want %v: %v", got, c.set, c.want, err)
		}
	}
}
