package tsi

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/testkit/load"
	"tsdbd/model"
	"tsdbd/series"
	"tsdbd/tsi/dictionary"
)

// bigIndex is an index of one file over n series, with and without the
// series file's keys.
func bigIndex(t *testing.T, n int) (with, without *Index, sf *series.File, keys []string) {
	fs := newFS()
	sf = openSeries(t, fs, series.Options{})
	keys = load.HicardKeys(n)
	ids := createAll(t, sf, keys)
	if err := sf.Sync(); err != nil {
		t.Fatal(err)
	}
	src, _ := NewIndex(IndexOptions{})
	for i, k := range keys {
		src.AddSeries(ids[i], k)
	}
	if _, err := src.Freeze().WriteFile(fs, "1.tsi"); err != nil {
		t.Fatal(err)
	}
	open := func(opt IndexOptions) *Index {
		f, err := OpenFile(fs, "1.tsi")
		if err != nil {
			t.Fatal(err)
		}
		opt.Files = []*File{f}
		x, err := NewIndex(opt)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	return open(IndexOptions{Keys: sf.Keys}), open(IndexOptions{}), sf, keys
}

// TestKeysAndDictionariesAgree asks for sets of all sizes, so that both ways
// of answering are taken.
func TestKeysAndDictionariesAgree(t *testing.T) {
	x, y, _, keys := bigIndex(t, 30000)
	v, w := x.View(), y.View()
	defer v.Release()
	defer w.Release()
	byKeys := 0
	for _, n := range []int{1, 5, 100, 250, 1500, 30000} {
		for _, step := range []int{1, 3, 97} {
			set := roaring.New()
			for i := 0; i < n && i*step < len(keys); i++ {
				set.Add(uint32(i*step) + 1)
			}
			for _, group := range [][]string{{"host"}, {"region", "dc"}, {"app", "dc", "host", "rack", "region", "service"}, {"nosuch", "rack"}} {
				if few, err := v.cheaperByKeys("m", dictionary.AppendIDs(nil, set), group); err != nil {
					t.Fatal(err)
				} else if few {
					byKeys++
				}
				a, err := v.Charged(nil).GroupBy("m", set, group)
				if err != nil {
					t.Fatal(err)
				}
				b, err := w.Charged(nil).GroupBy("m", set, group)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.EqualFunc(a.Tuples, b.Tuples, slices.Equal[[]string]) {
					t.Fatalf("%d series by %q: tuples differ", n, group)
				}
				for it := set.Iterator(); it.HasNext(); {
					id := model.SeriesID(it.Next())
					if a.Of(id) != b.Of(id) {
						t.Fatalf("series %d: group %d and %d", id, a.Of(id), b.Of(id))
					}
				}
				va, err := v.Charged(nil).TagValues("m", group[0], set)
				if err != nil {
					t.Fatal(err)
				}
				if vb, err := w.Charged(nil).TagValues("m", group[0], set); err != nil || !slices.Equal(va, vb) {
					t.Fatalf("values differ: %v", err)
				}
			}
		}
	}
	if byKeys == 0 {
		t.Fatal("keys were never the cheaper way")
	}
	e := &model.TagExpr{
		Op:    model.TagAnd,
		Left:  &model.TagExpr{Op: model.TagMatch, Key: "host", Regex: regexp.MustCompile("[27]$")},
		Right: &model.TagExpr{Op: model.TagEqual, Key: "app", Value: "app-17"},
	}
	a, err := v.Select(context.Background(), "m", e)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := w.Select(context.Background(), "m", e); err != nil || !a.Equals(b) || a.IsEmpty() {
		t.Fatalf("select differs: %v", err)
	}
	if n, err := v.TagValueCount("m", "host"); err != nil || n != len(keys) {
		t.Fatal(n, err)
	}
	if x.SeriesCount() != len(keys) || !v.Contains(1) {
		t.Fatal("series count")
	}
	// A series file that cannot answer is no reason for the index not to.
	x.opt.Keys = func([]model.SeriesID, func(int, string) error) error { return errors.New("damaged") }
	z := x.View()
	defer z.Release()
	if got, err := z.Select(context.Background(), "m", e); err != nil || !got.Equals(a) {
		t.Fatal(err)
	}
	if _, err := z.Charged(nil).GroupBy("m", roaring.BitmapOf(7), []string{"host"}); err != nil {
		t.Fatal(err)
	}
	if emptied, err := x.RemoveSeries(z.All()); err != nil || !slices.Equal(emptied, []string{"m"}) {
		t.Fatal(emptied, err)
	}
}

// TestSparseIDs: ids far apart do not cost memory or answers.
func TestSparseIDs(t *testing.T) {
	fs := newFS()
	x, _ := NewIndex(IndexOptions{})
	var ids []uint32
	for i := range uint32(200) {
		ids = append(ids, 1+i*21_000_000)
	}
	for i, id := range ids {
		x.AddSeries(model.SeriesID(id), fmt.Sprintf("m,a=%d,b=%d", i, i%3))
	}
	check := func() {
		t.Helper()
		v := x.View()
		defer v.Release()
		set, err := v.Select(context.Background(), "m", &model.TagExpr{Op: model.TagEqual, Key: "b", Value: "1"})
		if err != nil || set.GetCardinality() != 67 {
			t.Fatal(set.GetCardinality(), err)
		}
		g, err := v.Charged(nil).GroupBy("m", set, []string{"b", "a"})
		if err != nil || len(g.Tuples) != 67 || g.Tuples[g.Of(model.SeriesID(ids[4]))][1] != "4" {
			t.Fatal(g.Tuples, err)
		}
	}
	check()
	s := x.Freeze()
	if s.Empty() || len(s.memtables) != 1 || s.memtables[0].n != 200 {
		t.Fatal("snapshot")
	}
	if _, err := s.WriteFile(fs, "1.tsi"); err != nil {
		t.Fatal(err)
	}
	f, err := OpenFile(fs, "1.tsi")
	if err != nil {
		t.Fatal(err)
	}
	x.Publish(s, f)
	check()
	if e := x.Freeze(); !e.Empty() {
		t.Fatal("an empty snapshot is not Empty")
	} else {
		x.Publish(e, nil)
	}
	check()
}

// TestLongValues: values and postings of every size round trip.
func TestLongValues(t *testing.T) {
	fs := newFS()
	x, _ := NewIndex(IndexOptions{})
	want := map[string]string{}
	id := model.SeriesID(0)
	for i := range 120 {
		v := fmt.Sprintf("%03d", i)
		series := i*i/4 + 1
		if i%3 == 0 { // long values have few series: their keys are long too
			series = 2
			v += strings.Repeat("x", i*500)
		}
		for j := range series {
			id++
			x.AddSeries(id, fmt.Sprintf("m,l=%s,u=%d", v, j))
		}
		want[v] = v
	}
	all := x.View().Series
	before, _ := all("m")
	s := x.Freeze()
	if _, err := s.WriteFile(fs, "1.tsi"); err != nil {
		t.Fatal(err)
	}
	f, err := OpenFile(fs, "1.tsi")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Verify(); err != nil {
		t.Fatal(err)
	}
	x.Publish(s, f)
	v := x.View()
	defer v.Release()
	values, err := v.Charged(nil).TagValues("m", "l", nil)
	if err != nil || !slices.Equal(values, sortedKeys(want)) {
		t.Fatalf("%d values, want %d, %v", len(values), len(want), err)
	}
	total := uint64(0)
	for _, value := range values {
		set, err := v.Select(context.Background(), "m", &model.TagExpr{Op: model.TagEqual, Key: "l", Value: value})
		if err != nil || set.IsEmpty() {
			t.Fatalf("value of %d bytes: %v", len(value), err)
		}
		total += set.GetCardinality()
	}
	if total != before.GetCardinality() {
		t.Fatalf("%d series by value, want %d", total, before.GetCardinality())
	}
	if _, err := MergeFiles(fs, "2.tsi", []*File{f}, MergeOptions{}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(fs.Content("1.tsi"), fs.Content("2.tsi")) {
		t.Fatal("a merge of one file differs from it")
	}
}

// A charge may wait for memory. Nobody waits for the series file meanwhile.
func TestChargeHoldsNoLock(t *testing.T) {
	x, _, sf, keys := bigIndex(t, 3000)
	reading := false
	x.opt.Keys = func(ids []model.SeriesID, fn func(int, string) error) error {
		reading = true
		defer func() { reading = false }()
		return sf.Keys(ids, fn)
	}
	v := x.View()
	defer v.Release()
	ids := make([]uint32, len(keys))
	for i := range ids {
		ids[i] = uint32(i + 1)
	}
	_, tags := model.ParseSeriesKey(keys[0], nil)
	names := make([]string, len(tags))
	for i := range tags {
		names[i] = tags[i].Key
	}
	charges := 0
	columns, err := v.Charged(func(int64) error {
		if charges++; reading {
			t.Fatal("the series file is locked")
		}
		return nil
	}).columnsFromKeys(ids, names)
	if err != nil || charges < 3 {
		t.Fatalf("%d charges, %v", charges, err)
	}
	for i, id := range ids {
		key, err := sf.Key(model.SeriesID(id))
		if err != nil {
			t.Fatal(err)
		}
		_, tags = model.ParseSeriesKey(key, tags[:0])
		for k := range names {
			if got, want := columns[k].values[columns[k].rows[i]], tags.Get(names[k]); got != want {
				t.Fatalf("series %d: %s is %q, want %q", id, names[k], got, want)
			}
		}
	}
}
