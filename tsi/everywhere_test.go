package tsi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/binio"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
	"tsdbd/tsi/paged"
)

// checkEverywhere asks for tags of all measurements.
func checkEverywhere(t *testing.T, r *rand.Rand, v *View, m *modelIndex) {
	t.Helper()
	var skip []string
	for _, name := range append(slices.Clone(testMeasurements), "nosuch") {
		if r.IntN(3) == 0 {
			skip = append(skip, name)
		}
	}
	slices.Sort(skip)
	want := map[string]map[string]bool{"nosuch": {}}
	for _, s := range m.series {
		for i, tag := range s.tags {
			if slices.Contains(skip, s.measurement) || tag.Value == "" || slices.ContainsFunc(s.tags[:i], func(before model.Tag) bool { return before.Key == tag.Key }) {
				continue
			}
			if want[tag.Key] == nil {
				want[tag.Key] = map[string]bool{}
			}
			want[tag.Key][tag.Value] = true
		}
	}
	found := map[string]bool{"nosuch": true}
	err := v.EachTagKey(t.Context(), skip, func(key string) error {
		found[key] = true
		return nil
	})
	if got, want := slices.Sorted(maps.Keys(found)), slices.Sorted(maps.Keys(want)); err != nil || !slices.Equal(got, want) {
		t.Fatalf("EachTagKey without %q: %q %v, want %q", skip, got, err, want)
	}
	for key, values := range want {
		found := map[string]bool{}
		err := v.EachTagValue(t.Context(), key, skip, func(value string) error {
			found[strings.Clone(value)] = true
			return nil
		})
		if err != nil || !maps.Equal(found, values) {
			t.Fatalf("EachTagValue %q without %q: %v %v, want %v", key, skip, found, err, values)
		}
	}
	for range 12 {
		e := randomExpr(r, 2)
		have := map[string]bool{}
		for _, s := range m.series {
			if e.Match(s.tags) {
				have[s.measurement] = true
			}
		}
		names, exact, err := v.Charged(nil).MeasurementsWhere(t.Context(), e)
		if err != nil || !slices.IsSorted(names) {
			t.Fatalf("MeasurementsWhere(%s): %q %v", exprString(e), names, err)
		}
		for name := range have {
			if !slices.Contains(names, name) {
				t.Fatalf("MeasurementsWhere(%s): %q, want %q too", exprString(e), names, name)
			}
		}
		if exact && len(names) != len(have) {
			t.Fatalf("MeasurementsWhere(%s): exactly %q, want %q", exprString(e), names, slices.Sorted(maps.Keys(have)))
		}
	}
}

// TestEverywhereCancelled looks for a tag key that only deleted series of very many
// measurements have.
func TestEverywhereCancelled(t *testing.T) {
	fs := newFS()
	x, err := NewIndex(IndexOptions{})
	if err != nil {
		t.Fatal(err)
	}
	gone := roaring.New()
	for i := range uint32(2000) {
		x.AddSeries(model.SeriesID(i+1), fmt.Sprintf("m%d,k=v", i))
		gone.Add(i + 1)
	}
	s := x.Freeze()
	info, err := s.WriteFile(fs, "db/1.tsi")
	if err != nil {
		t.Fatal(err)
	}
	f, err := OpenFile(fs, info.Path)
	if err != nil {
		t.Fatal(err)
	}
	x.Publish(s, f)
	defer x.Close()
	if _, err := x.RemoveSeries(gone); err != nil {
		t.Fatal(err)
	}
	v := x.View()
	defer v.Release()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	none := func(text string) error { return fmt.Errorf("found %s", text) }
	if err := v.EachTagKey(ctx, nil, none); !errors.Is(err, context.Canceled) {
		t.Errorf("EachTagKey: %v", err)
	}
	if err := v.EachTagValue(ctx, "k", nil, none); !errors.Is(err, context.Canceled) {
		t.Errorf("EachTagValue: %v", err)
	}
}

// TestVerifyList has a list of tags that lacks a measurement, one that lacks a key, and one
// with a value too many: with right checksums, as a writer that is wrong would leave them.
func TestVerifyList(t *testing.T) {
	m := newMemtable()
	for i, key := range []string{"cpu,host=a,rack=r", "cpu,host=b", "disk,host=a", "mem,host=c,zone=z"} {
		m.add(uint32(i+1), key)
	}
	alive := roaring.BitmapOf(1, 2, 3, 4)
	for name, c := range map[string]struct {
		harm func(places map[string][]tagPlace)
		want string
	}{
		"sound":          {func(map[string][]tagPlace) {}, ""},
		"no measurement": {func(p map[string][]tagPlace) { p["host"] = p["host"][:2] }, `tag "host" of all measurements has 2 and 3 values, they have 3 and 4`},
		"only one":       {func(p map[string][]tagPlace) { p["host"] = p["host"][:1] }, "or others have it"},
		"no key":         {func(p map[string][]tagPlace) { delete(p, "rack") }, "2 tag keys, the measurements have 3"},
		"another key":    {func(p map[string][]tagPlace) { p["rock"] = p["rack"]; delete(p, "rack") }, `has no tag "rock"`},
		"other values": {func(p map[string][]tagPlace) {
			p["host"][0].offset, p["host"][0].size = p["host"][1].offset, p["host"][1].size
		}, "has 3 and 3 values"},
	} {
		fs := newFS()
		_, err := writeFile(fs, "db/1.tsi", MergeOptions{}, func(w *fileWriter) error {
			for _, name := range []string{"cpu", "disk", "mem"} {
				p, _ := m.table(name, true)
				if err := w.table(name, []measurementPicture{p}, alive, nil); err != nil {
					return err
				}
			}
			c.harm(w.places)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		f, err := OpenFile(fs, "db/1.tsi")
		if err != nil {
			t.Fatal(err)
		}
		err = f.Verify()
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, binio.ErrCorrupt) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
		if err := f.Release(); err != nil {
			t.Error(err)
		}
	}
}

// TestCandidatesAreCharged asks a memtable and a file for measurements. The list is charged
// before it is made, and ends with a charge that is refused.
func TestCandidatesAreCharged(t *testing.T) {
	fs := newFS()
	x, err := NewIndex(IndexOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	const n = 300
	for i := range n {
		name := fmt.Sprintf("m%03d", i)
		x.AddSeries(model.SeriesID(i+1), name+",host=a")
		x.RegisterFields(&point.Layout{Measurement: name, Fields: []column.Field{{Key: "f", Type: model.Float}}})
	}
	ask := func() {
		t.Helper()
		v := x.View()
		defer v.Release()
		charged := int64(0)
		where := &model.TagExpr{Op: model.TagEqual, Key: "host", Value: "a"}
		names, exact, err := v.Charged(func(bytes int64) error { charged += bytes; return nil }).MeasurementsWhere(t.Context(), where)
		if err != nil || !exact || len(names) != n || charged < n*paged.TextHeaderBytes {
			t.Fatalf("%d names, exact %v, %d bytes charged, %v", len(names), exact, charged, err)
		}
		refused := errors.New("too much")
		names, _, err = v.Charged(func(int64) error { return refused }).MeasurementsWhere(t.Context(), where)
		if !errors.Is(err, refused) || names != nil {
			t.Fatalf("%d names, %v", len(names), err)
		}
	}
	ask()
	snap := x.Freeze()
	if _, err := snap.WriteFile(fs, "1.tsi"); err != nil {
		t.Fatal(err)
	}
	f, err := OpenFile(fs, "1.tsi")
	if err != nil {
		t.Fatal(err)
	}
	x.Publish(snap, f)
	ask()
}
