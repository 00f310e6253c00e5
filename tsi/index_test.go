package tsi

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/testkit/tags"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
	"tsdbd/series"
)

// modelIndex is what an Index should be: maps.
type modelIndex struct {
	series map[uint32]modelSeries
	fields map[string]map[string]model.FieldType
}

type modelSeries struct {
	measurement string
	tags        model.Tags
}

func (m *modelIndex) selectSeries(measurement string, e *model.TagExpr) *roaring.Bitmap {
	set := roaring.New()
	for id, s := range m.series {
		if s.measurement == measurement && e.Match(s.tags) {
			set.Add(id)
		}
	}
	return set
}

func (m *modelIndex) fieldsOf(measurement string) []column.Field {
	var out []column.Field
	for k, t := range m.fields[measurement] {
		out = append(out, column.Field{Key: k, Type: t})
	}
	slices.SortFunc(out, func(a, b column.Field) int { return strings.Compare(a.Key, b.Key) })
	return out
}

func (m *modelIndex) remove(set *roaring.Bitmap) {
	it := set.Iterator()
	for it.HasNext() {
		delete(m.series, it.Next())
	}
	for name := range m.fields {
		if m.selectSeries(name, nil).IsEmpty() {
			delete(m.fields, name)
		}
	}
}

var (
	testMeasurements = []string{"cpu", "disk io", "m,x", "mem"}
	testKeys         = []string{"app", "host", "region", "ünï", "z=z"}
)

func randomExpr(r *rand.Rand, depth int) *model.TagExpr {
	key := testKeys[r.IntN(len(testKeys))]
	if r.IntN(12) == 0 {
		key = "nosuch"
	}
	if depth > 0 && r.IntN(2) == 0 {
		op := model.TagAnd
		if r.IntN(2) == 0 {
			op = model.TagOr
		}
		return &model.TagExpr{Op: op, Left: randomExpr(r, depth-1), Right: randomExpr(r, depth-1)}
	}
	switch r.IntN(11) {
	case 0:
		return &model.TagExpr{Op: []model.TagOp{model.TagAll, model.TagNone}[r.IntN(2)]}
	case 9, 10:
		var values []string
		for range r.IntN(6) {
			values = append(values, []string{tags.Value(r), tags.Value(r), ""}[r.IntN(3)])
		}
		slices.Sort(values)
		return &model.TagExpr{Op: []model.TagOp{model.TagIn, model.TagNotIn}[r.IntN(2)], Key: key, Values: slices.Compact(values)}
	case 1:
		return &model.TagExpr{Op: []model.TagOp{model.TagEqual, model.TagNotEqual}[r.IntN(2)], Key: key}
	case 2, 3, 4:
		return &model.TagExpr{Op: []model.TagOp{model.TagEqual, model.TagNotEqual}[r.IntN(2)], Key: key, Value: tags.Value(r)}
	}
	return &model.TagExpr{
		Op: []model.TagOp{model.TagMatch, model.TagNotMatch}[r.IntN(2)], Key: key,
		Regex: regexp.MustCompile(tags.Regexes[r.IntN(len(tags.Regexes))]),
	}
}

func exprString(e *model.TagExpr) string {
	if e == nil {
		return "nil"
	}
	if e.Left != nil {
		return fmt.Sprintf("(%s %d %s)", exprString(e.Left), e.Op, exprString(e.Right))
	}
	return fmt.Sprintf("%s %d %q %q %v", e.Key, e.Op, e.Value, e.Values, e.Regex)
}

// checkIndex compares every answer of a view with the model's.
func checkIndex(t *testing.T, r *rand.Rand, v *View, m *modelIndex) {
	t.Helper()
	var names []string
	for n := range m.fields {
		if !m.selectSeries(n, nil).IsEmpty() {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	if got := v.Measurements(); !slices.Equal(got, names) {
		t.Fatalf("Measurements %q, want %q", got, names)
	}
	if int(v.alive.GetCardinality()) != len(m.series) {
		t.Fatalf("SeriesCount %d, want %d", int(v.alive.GetCardinality()), len(m.series))
	}
	if got := v.All().GetCardinality(); got != uint64(len(m.series)) {
		t.Fatalf("All has %d", got)
	}
	for _, name := range append(slices.Clone(testMeasurements), "nosuch") {
		all := m.selectSeries(name, nil)
		want := m.fieldsOf(name)
		if all.IsEmpty() {
			want = nil
		}
		if got := v.Fields(name); !slices.Equal(got, want) {
			t.Fatalf("Fields(%q) %v, want %v", name, got, want)
		}
		keys := map[string]bool{}
		for _, s := range m.series {
			for _, tag := range s.tags {
				if s.measurement == name {
					keys[tag.Key] = true
				}
			}
		}
		got, err := v.TagKeys(name)
		if wantKeys := slices.Sorted(maps.Keys(keys)); err != nil || !slices.Equal(got, wantKeys) {
			t.Fatalf("TagKeys(%q) %q %v, want %q", name, got, err, wantKeys)
		}
		for range 12 {
			e := randomExpr(r, 3)
			set, err := v.Select(context.Background(), name, e)
			if err != nil {
				t.Fatal(err)
			}
			want := m.selectSeries(name, e)
			if !set.Equals(want) {
				t.Fatalf("Select(%q, %s) = %v, want %v", name, exprString(e), set, want)
			}
			checkGroups(t, r, v, m, name, set)
		}
		checkGroups(t, r, v, m, name, all)
	}
}

func checkGroups(t *testing.T, r *rand.Rand, v *View, m *modelIndex, name string, set *roaring.Bitmap) {
	t.Helper()
	key := testKeys[r.IntN(len(testKeys))]
	values := map[string]bool{}
	counts := map[string]int{}
	it := set.Iterator()
	for it.HasNext() {
		value := m.series[it.Next()].tags.Get(key)
		values[value] = true
		counts[value]++
	}
	delete(values, "")
	delete(counts, "")
	arg := set
	if set.Equals(m.selectSeries(name, nil)) && r.IntN(2) == 0 {
		arg = nil
	}
	got, err := v.Charged(nil).TagValues(name, key, arg)
	if want := slices.Sorted(maps.Keys(values)); err != nil || !slices.Equal(got, want) {
		t.Fatalf("TagValues(%q, %q) %q %v, want %q", name, key, got, err, want)
	}
	counted, last := map[string]int{}, ""
	err = v.CountByTagValue(name, key, arg, func(value []byte, n int) bool {
		if string(value) <= last {
			t.Fatalf("CountByTagValue(%q, %q): %q after %q", name, key, value, last)
		}
		last = string(value)
		counted[last] = n
		return true
	})
	if err != nil || !maps.Equal(counted, counts) {
		t.Fatalf("CountByTagValue(%q, %q) %v %v, want %v", name, key, counted, err, counts)
	}
	limit := r.IntN(len(got) + 2)
	first, err := v.Charged(nil).FirstTagValues(name, key, arg, limit)
	if want := got[:min(limit, len(got))]; err != nil || !slices.Equal(first, want) {
		t.Fatalf("FirstTagValues(%q, %q, %d) %q %v, want %q", name, key, limit, first, err, want)
	}
	final, err := v.Charged(nil).LastTagValues(name, key, arg, limit)
	if want := got[max(0, len(got)-limit):]; err != nil || !slices.Equal(final, want) {
		t.Fatalf("LastTagValues(%q, %q, %d) %q %v, want %q", name, key, limit, final, err, want)
	}
	if n, err := v.TagValueCount(name, key); err != nil || arg == nil && n != len(got) {
		t.Fatalf("TagValueCount(%q, %q) %d %v, want %d", name, key, n, err, len(got))
	}
	keys := append(slices.Clone(testKeys), "nosuch")
	r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	keys = keys[:r.IntN(len(keys)+1)]
	groups, err := v.Charged(nil).GroupBy(name, set, keys)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.IsSortedFunc(groups.Tuples, slices.Compare[[]string]) {
		t.Fatalf("tuples not sorted: %q", groups.Tuples)
	}
	used := map[int]bool{}
	for it := set.Iterator(); it.HasNext(); {
		id := it.Next()
		g := groups.Of(model.SeriesID(id))
		used[g] = true
		for i, k := range keys {
			if groups.Tuples[g][i] != m.series[id].tags.Get(k) {
				t.Fatalf("series %d in group %q, tags %v, keys %q", id, groups.Tuples[g], m.series[id].tags, keys)
			}
		}
	}
	if len(keys) > 0 && len(used) != len(groups.Tuples) {
		t.Fatalf("%d tuples, %d used", len(groups.Tuples), len(used))
	}
}

// TestIndexRandom compares an index with maps while series come, go and come
// back, memtables are frozen, written, published, and files merged, reopened.
func TestIndexRandom(t *testing.T) {
	for _, withKeys := range []bool{false, true} {
		t.Run(fmt.Sprint("keys=", withKeys), func(t *testing.T) {
			r := newRand(t)
			for range 6 {
				randomIndexRun(t, r, withKeys)
			}
		})
	}
}

func randomIndexRun(t *testing.T, r *rand.Rand, withKeys bool) {
	fs := newFS()
	sf := openSeries(t, fs, series.Options{})
	known := map[uint32]modelSeries{}
	m := &modelIndex{series: map[uint32]modelSeries{}, fields: map[string]map[string]model.FieldType{}}
	opt := IndexOptions{}
	if withKeys {
		opt.Keys = sf.Keys
	}
	x, err := NewIndex(opt)
	if err != nil {
		t.Fatal(err)
	}
	x.large = 20
	var snapshots []*Snapshot
	files := 0
	path := func() string { files++; return fmt.Sprintf("db/%06d.tsi", files) }
	publish := func() {
		s := snapshots[0]
		snapshots = snapshots[1:]
		p := path()
		info, err := s.WriteFile(fs, p)
		if err != nil {
			t.Fatal(err)
		}
		f, err := OpenFile(fs, p)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Info(); got.Series != info.Series || got.Bytes != info.Bytes || info.Bytes != int64(len(fs.Content(p))) {
			t.Fatalf("info %+v, opened %+v", info, got)
		}
		if err := f.Verify(); err != nil {
			t.Fatal(err)
		}
		x.Publish(s, f)
	}
	write := func(keys []string, series []modelSeries) {
		ids := createAll(t, sf, keys)
		batch, add := NewBatch(), x.AddSeries
		if r.IntN(2) == 0 {
			add = batch.Add
		}
		defer func() { x.AddBatch(batch) }()
		for i, id := range ids {
			s := series[i]
			known[uint32(id)] = s
			field := fmt.Sprint("f", r.IntN(6))
			ft := model.FieldType(r.IntN(5) + 1)
			have, exists := m.fields[s.measurement][field]
			conflicts := x.RegisterFields(&point.Layout{Measurement: s.measurement, Fields: []column.Field{{Key: field, Type: ft}}})
			if (len(conflicts) > 0) != (exists && have != ft) {
				t.Fatalf("RegisterFields %s %v: %v, have %v %v", field, ft, conflicts, have, exists)
			}
			if len(conflicts) > 0 {
				if conflicts[0].Have != have {
					t.Fatalf("conflict %v, have %v", conflicts[0], have)
				}
				if _, lives := m.series[uint32(id)]; !lives {
					continue
				}
			} else {
				if m.fields[s.measurement] == nil {
					m.fields[s.measurement] = map[string]model.FieldType{}
				}
				m.fields[s.measurement][field] = ft
			}
			add(id, keys[i])
			m.series[uint32(id)] = s
		}
	}
	for step := range 40 {
		switch op := r.IntN(12); op {
		default:
			var keys []string
			var series []modelSeries
			for range r.IntN(60) + 1 {
				s := modelSeries{measurement: testMeasurements[r.IntN(len(testMeasurements))]}
				for _, k := range testKeys {
					if r.IntN(3) > 0 {
						s.tags = append(s.tags, model.Tag{Key: k, Value: tags.Value(r)})
					}
				}
				keys = append(keys, string(model.AppendSeriesKey(nil, s.measurement, s.tags)))
				series = append(series, s)
			}
			write(keys, series)
		case 0, 1, 2:
			set := roaring.New()
			name := testMeasurements[r.IntN(len(testMeasurements))]
			for id, s := range m.series {
				if op == 0 && s.measurement == name || op > 0 && r.IntN(10) == 0 {
					set.Add(id)
				}
			}
			set.Add(1 << 30)
			before := slices.Sorted(maps.Keys(m.fields))
			m.remove(set)
			emptied, err := x.RemoveSeries(set)
			if err != nil {
				t.Fatal(err)
			}
			after := slices.Sorted(maps.Keys(m.fields))
			gone := slices.DeleteFunc(before, func(n string) bool { return slices.Contains(after, n) })
			if !slices.Equal(gone, emptied) {
				t.Fatalf("emptied %q, want %q", emptied, gone)
			}
		case 3: // deleted series come back
			var keys []string
			var series []modelSeries
			for id, s := range known {
				if _, lives := m.series[id]; !lives && r.IntN(3) == 0 {
					keys = append(keys, string(model.AppendSeriesKey(nil, s.measurement, s.tags)))
					series = append(series, s)
				}
			}
			write(keys, series)
		case 4, 5:
			snapshots = append(snapshots, x.Freeze())
		case 6, 7:
			if len(snapshots) > 0 {
				publish()
			}
		case 8: // merge
			old := x.Files()
			if len(old) < 2 {
				continue
			}
			from := r.IntN(len(old) - 1)
			to := from + 2 + r.IntN(len(old)-from-1)
			part := old[from:to]
			p := path()
			removed := x.mu.removed
			if _, err := MergeFiles(fs, p, part, MergeOptions{Deleted: removed, Complete: len(part) == len(old)}); err != nil {
				t.Fatal(err)
			}
			f, err := OpenFile(fs, p)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Verify(); err != nil {
				t.Fatal(err)
			}
			if roaring.And(seriesOf(t, f), removed).GetCardinality() != 0 {
				t.Fatal("merged file has deleted series")
			}
			for _, o := range part {
				o.Obsolete(true)
			}
			x.ReplaceFiles(part, f)
		case 9: // restart
			snapshots = append(snapshots, x.Freeze())
			for len(snapshots) > 0 {
				publish()
			}
			reopened := opt
			reopened.Removed = x.mu.removed
			for _, f := range x.Files() {
				g, err := OpenFile(fs, f.Path())
				if err != nil {
					t.Fatal(err)
				}
				reopened.Files = append(reopened.Files, g)
			}
			x.Close()
			if x, err = NewIndex(reopened); err != nil {
				t.Fatal(err)
			}
			x.large = 20
		}
		for id := range known {
			if _, lives := m.series[id]; x.Contains(model.SeriesID(id)) != lives {
				t.Fatalf("Contains(%d) = %v", id, !lives)
			}
		}
		if step%4 == 3 {
			v := x.View()
			checkIndex(t, r, v, m)
			checkEverywhere(t, r, v, m)
			v.Release()
		}
	}
	open := len(x.Files())
	x.Close()
	names, _ := fs.List("db")
	tsi := 0
	for _, n := range names {
		if strings.HasSuffix(n, ".tsi") {
			tsi++
		}
	}
	if tsi != open {
		t.Fatalf("%d files left, %d in the index: a reference leaked", tsi, open)
	}
}

// TestViewIsStable takes a view and changes everything under it.
func TestViewIsStable(t *testing.T) {
	r := newRand(t)
	fs := newFS()
	x, _ := NewIndex(IndexOptions{})
	m := &modelIndex{series: map[uint32]modelSeries{}, fields: map[string]map[string]model.FieldType{}}
	add := func(id uint32, extra string) {
		s := modelSeries{"cpu", model.Tags{{Key: "app", Value: extra}, {Key: "host", Value: fmt.Sprint("host_", id)}}}
		x.AddSeries(model.SeriesID(id), string(model.AppendSeriesKey(nil, s.measurement, s.tags)))
		if id <= 100 {
			m.series[id] = s
		}
	}
	x.RegisterFields(&point.Layout{Measurement: "cpu", Fields: []column.Field{{Key: "v", Type: model.Float}}})
	m.fields["cpu"] = map[string]model.FieldType{"v": model.Float}
	for id := uint32(1); id <= 100; id++ {
		add(id, "a")
	}
	v := x.View()
	if again := x.View(); again != v {
		t.Fatal("an unchanged index gave another view")
	} else {
		again.Release()
	}
	checkIndex(t, r, v, m)
	for id := uint32(101); id <= 200; id++ {
		add(id, "b")
	}
	s := x.Freeze()
	checkIndex(t, r, v, m)
	if _, err := s.WriteFile(fs, "a.tsi"); err != nil {
		t.Fatal(err)
	}
	f, err := OpenFile(fs, "a.tsi")
	if err != nil {
		t.Fatal(err)
	}
	x.Publish(s, f)
	all := roaring.New()
	all.AddRange(1, 150)
	if _, err := x.RemoveSeries(all); err != nil {
		t.Fatal(err)
	}
	checkIndex(t, r, v, m)
	w := x.View()
	f.Obsolete(true)
	x.ReplaceFiles([]*File{f}, nil)
	x.Close()
	if int(w.alive.GetCardinality()) != 51 {
		t.Fatalf("%d series", int(w.alive.GetCardinality()))
	}
	checkIndex(t, r, v, m)
	v.Release()
	if fs.Content("a.tsi") == nil {
		t.Fatal("file removed under a view")
	}
	if values, err := w.Charged(nil).TagValues("cpu", "app", nil); err != nil || !slices.Equal(values, []string{"b"}) {
		t.Fatal(values, err)
	}
	w.Release()
	if fs.Content("a.tsi") != nil {
		t.Fatal("file not removed with its last reference")
	}
}

// TestFieldTypesFollowSeries: a measurement's types are freed with its last
// series, also across files, restarts and merges.
func TestFieldTypesFollowSeries(t *testing.T) {
	fs := newFS()
	x, _ := NewIndex(IndexOptions{})
	layout := func(t model.FieldType) *point.Layout {
		return &point.Layout{Measurement: "m", Fields: []column.Field{{Key: "v", Type: t}, {Key: fmt.Sprint("only", t), Type: t}}}
	}
	flush := func(path string) *File {
		s := x.Freeze()
		if _, err := s.WriteFile(fs, path); err != nil {
			t.Fatal(err)
		}
		f, err := OpenFile(fs, path)
		if err != nil {
			t.Fatal(err)
		}
		x.Publish(s, f)
		return f
	}
	x.RegisterFields(layout(model.Float))
	x.AddSeries(1, "m,a=1")
	f1 := flush("1.tsi")
	if c := x.RegisterFields(layout(model.Integer)); len(c) != 1 || c[0].Have != model.Float {
		t.Fatal(c)
	}
	if emptied, _ := x.RemoveSeries(roaring.BitmapOf(1)); !slices.Equal(emptied, []string{"m"}) {
		t.Fatal(emptied)
	}
	if c := x.RegisterFields(layout(model.Integer)); len(c) != 0 {
		t.Fatal(c)
	}
	x.AddSeries(1, "m,a=1")
	f2 := flush("2.tsi")
	if !x.mu.removed.IsEmpty() {
		t.Fatal("a series that came back is removed")
	}
	want := layout(model.Integer).Fields
	slices.SortFunc(want, func(a, b column.Field) int { return strings.Compare(a.Key, b.Key) })
	check := func(x *Index) {
		t.Helper()
		v := x.View()
		defer v.Release()
		if got := v.Fields("m"); !slices.Equal(got, want) {
			t.Fatalf("fields %v, want %v", got, want)
		}
	}
	check(x)
	f1.Acquire()
	f2.Acquire()
	y, err := NewIndex(IndexOptions{Files: []*File{f1, f2}, Removed: x.mu.removed})
	if err != nil {
		t.Fatal(err)
	}
	check(y)
	if _, err := MergeFiles(fs, "3.tsi", []*File{f1, f2}, MergeOptions{Complete: true}); err != nil {
		t.Fatal(err)
	}
	f3, err := OpenFile(fs, "3.tsi")
	if err != nil {
		t.Fatal(err)
	}
	z, err := NewIndex(IndexOptions{Files: []*File{f3}})
	if err != nil {
		t.Fatal(err)
	}
	check(z)
	if _, err := MergeFiles(fs, "4.tsi", []*File{f3}, MergeOptions{Complete: true, Deleted: roaring.BitmapOf(1)}); err != nil {
		t.Fatal(err)
	}
	f4, err := OpenFile(fs, "4.tsi")
	if err != nil || f4.Info().Measurements != 0 {
		t.Fatalf("%v, %d measurements in a file without series", err, f4.Info().Measurements)
	}
}

// TestManyFields registers fields one by one, as they come with rows of a field
// each: what one costs must not grow with the others.
func TestManyFields(t *testing.T) {
	x, _ := NewIndex(IndexOptions{})
	x.AddSeries(1, "m,a=1")
	const n = 10_000
	at := func(i int) column.Field {
		return column.Field{Key: fmt.Sprintf("f%05d", i*7919%n), Type: model.FieldType(1 + i%5)}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range n {
		if c := x.RegisterFields(&point.Layout{Measurement: "m", Fields: []column.Field{at(i)}}); len(c) > 0 {
			t.Fatal(c)
		}
		if i == n/2 {
			x.View().Release() // sorts what there is
		}
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 64<<20 {
		t.Errorf("registering %d fields allocated %d bytes", n, got)
	}
	v := x.View()
	defer v.Release()
	have := v.Fields("m")
	if len(have) != n || !slices.IsSortedFunc(have, func(a, b column.Field) int { return strings.Compare(a.Key, b.Key) }) {
		t.Fatalf("%d fields, want %d in order", len(have), n)
	}
	for i := range n {
		f := at(i)
		if k, ok := column.FindField(have, f.Key); !ok || have[k] != f {
			t.Fatalf("field %v is %v", f, have[k])
		}
		wrong := column.Field{Key: f.Key, Type: 1 + f.Type%5}
		if c := x.RegisterFields(&point.Layout{Measurement: "m", Fields: []column.Field{wrong}}); len(c) != 1 || c[0].Have != f.Type {
			t.Fatalf("field %v as %v: %v", f, wrong.Type, c)
		}
	}
}

// TestFieldClaims: claims of several writes hold a type together, a claim of
// another type waits for the last of them, and only what is registered shows.
func TestFieldClaims(t *testing.T) {
	x, err := NewIndex(IndexOptions{})
	if err != nil {
		t.Fatal(err)
	}
	x.AddSeries(1, "m,h=a")
	layout := func(fields ...column.Field) *point.Layout { return &point.Layout{Measurement: "m", Fields: fields} }
	f := func(ft model.FieldType) column.Field { return column.Field{Key: "f", Type: ft} }
	g := func(ft model.FieldType) column.Field { return column.Field{Key: "g", Type: ft} }
	open := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return false
		default:
			return true
		}
	}
	add := func(c *FieldClaim, l *point.Layout) <-chan struct{} {
		t.Helper()
		refused, undecided := c.Add(l, 0)
		if refused != "" {
			t.Fatal(refused)
		}
		return undecided
	}
	x.RegisterFields(layout(g(model.Float)))
	a, b, c := x.ClaimFields(), x.ClaimFields(), x.ClaimFields()
	if add(a, layout(f(model.Float), g(model.Float))) != nil || a.Len() != 1 || add(b, layout(f(model.Float))) != nil {
		t.Fatal("not claimed")
	}
	if add(a, layout(f(model.Float))) != nil || a.Len() != 1 {
		t.Error("claimed twice")
	}
	const isFloat = "already exists as type float"
	if refused, undecided := a.Add(layout(f(model.String)), 0); !strings.HasSuffix(refused, isFloat) || undecided != nil {
		t.Errorf("against its own claim: %v, %v", refused, undecided)
	}
	if refused, undecided := c.Add(layout(f(model.String), g(model.String)), 0); !strings.HasSuffix(refused, isFloat) || undecided != nil {
		t.Errorf("against a registered type: %v, %v", refused, undecided)
	}
	wait := add(c, layout(f(model.String)))
	if wait == nil || !open(wait) || c.Len() != 0 {
		t.Fatal("two types claimed")
	}
	if missing, _ := x.CheckFields(layout(f(model.String))); missing != 1 {
		t.Error("a claim is registered")
	}
	v := x.View()
	if fields := v.Fields("m"); len(fields) != 1 {
		t.Errorf("a claim shows: %v", fields)
	}
	v.Release()
	if s := x.Freeze(); len(s.fields["m"]) != 1 {
		t.Errorf("a claim gets into a file: %v", s.fields)
	}
	a.TakeBack(0)
	if !open(wait) {
		t.Fatal("decided while another claim is held")
	}
	b.TakeBack(0)
	if open(wait) || add(c, layout(f(model.String))) != nil {
		t.Fatal("not decided by the last claim")
	}
	wait = add(a, layout(f(model.Float)))
	x.RegisterFields(layout(f(model.String)))
	c.TakeBack(0)
	if refused, _ := a.Add(layout(f(model.Float)), 0); open(wait) || !strings.HasSuffix(refused, "already exists as type string") {
		t.Errorf("against what was registered meanwhile: %v", refused)
	}
	if len(x.mu.claims) != 0 {
		t.Errorf("%d claims are left", len(x.mu.claims))
	}
}

// TestClaimsOfTooManyFields: registered fields and those of claims have places, each
// once, and a claim that has none leaves no trace.
func TestClaimsOfTooManyFields(t *testing.T) {
	x, err := NewIndex(IndexOptions{})
	if err != nil {
		t.Fatal(err)
	}
	layout := func(keys string) *point.Layout {
		l := &point.Layout{Measurement: "m"}
		for _, key := range keys {
			l.Fields = append(l.Fields, column.Field{Key: string(key), Type: model.Float})
		}
		return l
	}
	a, b := x.ClaimFields(), x.ClaimFields()
	add := func(c *FieldClaim, keys, want string) {
		t.Helper()
		refused, undecided := c.Add(layout(keys), 4)
		if refused != want || undecided != nil {
			t.Errorf("%s: %q, want %q", keys, refused, want)
		}
	}
	full := func(n int) string {
		return fmt.Sprintf("max-fields-per-measurement limit exceeded (%d/4): measurement=\"m\"", n)
	}
	add(a, "abcde", full(0))
	x.RegisterFields(layout("ab"))
	add(a, "abc", "")
	add(b, "cd", "") // c is claimed, d has the last place
	add(b, "e", full(4))
	add(a, "de", full(4))
	x.RegisterFields(layout("ac"))
	add(a, "abcd", "")
	add(a, "e", full(4))
	b.TakeBack(0)
	add(b, "d", "") // a holds it
	a.TakeBack(0)
	b.TakeBack(0)
	add(a, "e", "") // d was refused in the end
	add(a, "f", full(4))
	if refused, _ := b.Add(layout("fgh"), 0); refused != "" {
		t.Errorf("without a limit: %s", refused)
	}
	other := layout("xyzu")
	other.Measurement = "n"
	if refused, _ := b.Add(other, 4); refused != "" {
		t.Errorf("another measurement: %s", refused)
	}
	a.TakeBack(0)
	b.TakeBack(0)
	if len(x.mu.claimed) != 0 {
		t.Errorf("left: %v", x.mu.claimed)
	}
}

// TestIndexConcurrent: one writer, readers with views, and registrations.
func TestIndexConcurrent(t *testing.T) {
	fs := newFS()
	x, _ := NewIndex(IndexOptions{})
	done := make(chan struct{})
	var wg sync.WaitGroup
	for g := range 3 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				v := x.View()
				set, err := v.Select(context.Background(), "m", &model.TagExpr{Op: model.TagMatch, Key: "h", Regex: regexp.MustCompile("[13579]$")})
				if err != nil {
					t.Error(err)
				}
				again, _ := v.Select(context.Background(), "m", &model.TagExpr{Op: model.TagMatch, Key: "h", Regex: regexp.MustCompile("[13579]$")})
				if !set.Equals(again) || set.GetCardinality() > uint64(int(v.alive.GetCardinality())) {
					t.Error("view changed")
				}
				groups, err := v.Charged(nil).GroupBy("m", set, []string{"k", "h"})
				if err != nil || len(groups.Tuples) != int(set.GetCardinality()) {
					t.Error(err, len(groups.Tuples), set.GetCardinality())
				}
				v.Release()
				x.RegisterFields(&point.Layout{Measurement: "m", Fields: []column.Field{{Key: fmt.Sprint(g, i%50), Type: model.Float}}})
			}
		})
	}
	var files int
	for i := 1; i <= 6000; i++ {
		x.AddSeries(model.SeriesID(i), fmt.Sprintf("m,h=%d,k=%d", i, i%5))
		if i%50 == 0 {
			_, _ = x.RemoveSeries(roaring.BitmapOf(uint32(i), uint32(i-20)))
		}
		if i%1000 == 0 {
			s := x.Freeze()
			files++
			p := fmt.Sprint(files, ".tsi")
			if _, err := s.WriteFile(fs, p); err != nil {
				t.Fatal(err)
			}
			f, err := OpenFile(fs, p)
			if err != nil {
				t.Fatal(err)
			}
			x.Publish(s, f)
		}
		if i%2500 == 0 {
			old := x.Files()
			p := fmt.Sprint("merged", i, ".tsi")
			if _, err := MergeFiles(fs, p, old, MergeOptions{Deleted: x.mu.removed, Complete: true}); err != nil {
				t.Fatal(err)
			}
			f, err := OpenFile(fs, p)
			if err != nil {
				t.Fatal(err)
			}
			x.ReplaceFiles(old, f)
		}
	}
	close(done)
	wg.Wait()
	x.Close()
}

// What series take until they are in a file is counted, from AddAll to Publish:
// flushes and the bound of the caches go by it (W9).
func TestIndexBytes(t *testing.T) {
	x, err := NewIndex(IndexOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	const n = 20_000
	series := make([]*point.Series, n)
	text := 0
	for i := range series {
		host := fmt.Sprintf("a-host-name-of-some-length-%07d", i)
		text += len(host)
		series[i] = point.NewSeries("m,dc=one,host=" + host)
		series[i].SetID(model.SeriesID(i + 1))
	}
	x.AddAll(series)
	counted := x.MutableBytes()
	if least := int64(text + n*(3*4+8+8)); counted < least || counted > least+20*n {
		t.Errorf("%d bytes are counted, %d at least are taken", counted, least)
	}
	x.AddAll(series[:100])
	if again := x.MutableBytes(); again != counted {
		t.Errorf("%d bytes are counted after adding the same again, want %d", again, counted)
	}
	snap := x.Freeze()
	if m, all := x.MutableBytes(), x.Bytes(); m != 0 || all != counted {
		t.Errorf("frozen: %d bytes would be cut off, %d in all, want 0 and %d", m, all, counted)
	}
	fs := newFS()
	if err := fs.MkdirAll("db"); err != nil {
		t.Fatal(err)
	}
	if _, err := snap.WriteFile(fs, "db/1.tsi"); err != nil {
		t.Fatal(err)
	}
	f, err := OpenFile(fs, "db/1.tsi")
	if err != nil {
		t.Fatal(err)
	}
	x.Publish(snap, f)
	if all := x.Bytes(); all != 0 {
		t.Errorf("published: %d bytes", all)
	}
}
