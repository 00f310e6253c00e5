package cache

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
)

type observed struct {
	series  []string
	layouts int
}

func (o *observed) NewSeries(series []*point.Series) {
	for _, s := range series {
		o.series = append(o.series, s.Key())
	}
}

func (o *observed) NewLayout(*point.Layout) { o.layouts++ }

func series(id model.SeriesID) *point.Series {
	s := point.NewSeries(fmt.Sprintf("m,id=%d", id))
	s.SetID(id)
	return s
}

// TestAgainstMap compares what Gather returns with a map of points, over
// random rows of several layouts, in and out of order, with deletes between.
func TestAgainstMap(t *testing.T) {
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 1))
	all := []column.Field{{Key: "b", Type: model.Boolean}, {Key: "f", Type: model.Float}, {Key: "i", Type: model.Integer}, {Key: "s", Type: model.String}, {Key: "u", Type: model.Unsigned}}
	layouts := []*point.Layout{
		{Measurement: "m", Fields: all},
		{Measurement: "m", Fields: []column.Field{all[1]}},
		{Measurement: "m", Fields: []column.Field{all[3], all[2]}},
	}
	type key struct {
		id    model.SeriesID
		field string
		time  int64
	}
	want := map[key]any{}
	obs := &observed{}
	c := New(obs, nil)
	handles := map[model.SeriesID]*point.Series{}
	for range 200 {
		var b point.Batch
		for range 1 + r.IntN(50) {
			id := model.SeriesID(1 + r.IntN(20)*700)
			if handles[id] == nil {
				handles[id] = series(id)
			}
			l := layouts[r.IntN(len(layouts))]
			ts := int64(r.IntN(300))
			row := point.Row{Series: handles[id], Layout: l, Time: ts, First: uint32(len(b.Values))}
			for _, f := range l.Fields {
				k := key{id, f.Key, ts}
				switch f.Type {
				case model.Float:
					v := r.NormFloat64()
					b.Values, want[k] = append(b.Values, math.Float64bits(v)), v
				case model.Integer:
					v := r.Int64() - r.Int64()
					b.Values, want[k] = append(b.Values, uint64(v)), v
				case model.Unsigned:
					v := r.Uint64()
					b.Values, want[k] = append(b.Values, v), v
				case model.Boolean:
					v := r.IntN(2)
					b.Values, want[k] = append(b.Values, uint64(v)), v == 1
				case model.String:
					s := fmt.Sprint("text", r.IntN(1000))
					if r.IntN(5) == 0 {
						s = ""
					}
					b.Values = append(b.Values, column.StringWord(len(b.Strings), len(s)))
					b.Strings = append(b.Strings, s...)
					want[k] = s
				}
			}
			b.Rows = append(b.Rows, row)
		}
		c.Apply(b.Rows, b.Values, b.Strings)
		if r.IntN(10) == 0 {
			set := roaring.New()
			for id := range handles {
				if r.IntN(3) == 0 {
					set.Add(uint32(id))
				}
			}
			lo := int64(r.IntN(300))
			tr := model.TimeRange{Min: lo, Max: lo + int64(r.IntN(100))}
			c.Delete(set, tr)
			for k := range want {
				if set.Contains(uint32(k.id)) && tr.Contains(k.time) {
					delete(want, k)
				}
			}
		}
	}
	if len(obs.series) != len(handles) || obs.layouts != len(layouts) {
		t.Fatalf("observed %d series, %d layouts; want %d, %d", len(obs.series), obs.layouts, len(handles), len(layouts))
	}
	if got := c.Series(); len(got) != len(handles) || !slices.IsSorted(got) {
		t.Fatalf("Series() = %v", got)
	}
	got := map[key]any{}
	g := NewGatherer(c)
	var rows column.Rows
	for id := range handles {
		g.Gather(&rows, id, all, model.AllTime)
		for i, ts := range rows.Times {
			if i > 0 && ts <= rows.Times[i-1] {
				t.Fatalf("times not ascending: %v", rows.Times)
			}
			values := 0
			for ci, f := range all {
				v := &rows.Cols[ci]
				if v.Len() != len(rows.Times) {
					t.Fatalf("column %s has %d rows, want %d", f.Key, v.Len(), len(rows.Times))
				}
				if !v.IsValid(i) {
					continue
				}
				values++
				k := key{id, f.Key, ts}
				switch f.Type {
				case model.Float:
					got[k] = v.Floats[i]
				case model.Integer:
					got[k] = v.Ints[i]
				case model.Unsigned:
					got[k] = v.Uints[i]
				case model.Boolean:
					got[k] = v.Bools[i]
				case model.String:
					got[k] = v.Strings[i]
				}
			}
			if values == 0 {
				t.Fatalf("row %d of series %d has no value", i, id)
			}
		}
	}
	for id := range handles {
		checkParts(t, g, id, 1+r.IntN(100))
	}
	if len(got) != len(want) {
		t.Errorf("%d values, want %d", len(got), len(want))
	}
	for k, v := range want {
		if got[k] != v {
			t.Fatalf("%v = %v, want %v", k, got[k], v)
		}
	}
}

// checkParts compares the parts of n rows in which a series is handed out, and
// those into which Cuts cuts it, with its rows gathered at once.
func checkParts(t *testing.T, g *Gatherer, id model.SeriesID, n int) {
	t.Helper()
	text := func(dst []string, rows *column.Rows, fields []column.Field) []string {
		for i, at := range rows.Times {
			line := fmt.Sprint(at)
			for c := range fields {
				if v := &rows.Cols[c]; v.Len() != len(rows.Times) || v.Type != fields[c].Type {
					t.Fatalf("column of %d %v, want %d %v", v.Len(), v.Type, len(rows.Times), fields[c].Type)
				} else if v.IsValid(i) {
					var one column.Vector
					one.Reset(v.Type)
					one.AppendFrom(v, i)
					line += fmt.Sprint(" ", fields[c].Key, one.Floats, one.Ints, one.Uints, one.Bools, one.Strings)
				}
			}
			dst = append(dst, line)
		}
		return dst
	}
	var rows column.Rows
	var parts, all, cut []string
	fields, ok := g.Start(id)
	fields = slices.Clone(fields)
	if ok {
		for g.Next(&rows, n) {
			if rows.Len() > n || rows.Len() == 0 {
				t.Fatalf("part of %d rows, want %d", rows.Len(), n)
			}
			parts = text(parts, &rows, fields)
		}
	}
	g.Gather(&rows, id, fields, model.AllTime)
	all = text(nil, &rows, fields)
	from := model.AllTime
	for _, at := range append(g.Cuts(id, model.AllTime, n, nil), math.MaxInt64) {
		g.Gather(&rows, id, fields, model.TimeRange{Min: from.Min, Max: at - 1})
		cut = text(cut, &rows, fields)
		from.Min = at
	}
	if !slices.Equal(parts, all) || !slices.Equal(cut, all) {
		t.Errorf("series %d in parts of %d rows:\n%q\ncut:\n%q\nat once:\n%q", id, n, parts, cut, all)
	}
}

func TestForgetAnnouncesAgain(t *testing.T) {
	obs := &observed{}
	c := New(obs, nil)
	s := series(3)
	l := &point.Layout{Measurement: "m", Fields: []column.Field{{Key: "f", Type: model.Float}}}
	add := func() { c.Apply([]point.Row{{Series: s, Layout: l, Time: 1}}, []uint64{0}, nil) }
	add()
	add()
	c.Forget(roaring.BitmapOf(3))
	add()
	add()
	if len(obs.series) != 2 || obs.layouts != 2 {
		t.Fatalf("announced %d series and %d layouts, want 2 and 2", len(obs.series), obs.layouts)
	}
}

// TestReadWhileAppending has readers gather while rows come; -race watches.
func TestReadWhileAppending(t *testing.T) {
	c := New(nil, nil)
	l := &point.Layout{Measurement: "m", Fields: []column.Field{{Key: "i", Type: model.Integer}}}
	s := series(1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 20000 {
			c.Apply([]point.Row{{Series: s, Layout: l, Time: int64(i)}}, []uint64{uint64(i)}, nil)
		}
	}()
	g := NewGatherer(c)
	var rows column.Rows
	last := 0
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		g.Gather(&rows, 1, l.Fields, model.AllTime)
		if len(rows.Times) < last {
			t.Fatalf("rows went from %d to %d", last, len(rows.Times))
		}
		last = len(rows.Times)
		for i, ts := range rows.Times {
			if rows.Cols[0].Ints[i] != ts {
				t.Fatalf("row %d: %d at %d", i, rows.Cols[0].Ints[i], ts)
			}
		}
	}
	if last != 20000 {
		t.Fatalf("%d rows at the end", last)
	}
}
