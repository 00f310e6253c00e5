package tsi

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/testkit/tags"
	"tsdbd/model"
	"tsdbd/tsi/match"
)

// endsAt is a context that ends when it is asked for the n-th time.
type endsAt struct {
	context.Context
	n, asked int
}

func (c *endsAt) Err() error {
	if c.asked++; c.asked >= c.n {
		return context.Canceled
	}
	return nil
}

// TestSelectStops ends the context in the midst of every kind of selection.
func TestSelectStops(t *testing.T) {
	const series = 300_000
	x, fs := newTestIndex(t), newFS()
	fill := func(from int) {
		for i := range series {
			x.AddSeries(model.SeriesID(from+i), fmt.Sprintf("m,h=host_%06d,k=%d", i, i%7))
		}
	}
	fill(1)
	s := x.Freeze()
	if _, err := s.WriteFile(fs, "db/1.tsi"); err != nil {
		t.Fatal(err)
	}
	f, err := OpenFile(fs, "db/1.tsi")
	if err != nil {
		t.Fatal(err)
	}
	x.Publish(s, f)
	files := x.View()
	defer files.Release()
	y := newTestIndex(t)
	x = y
	fill(1)
	memtables := y.View()
	defer memtables.Release()
	matches := func(e string) *model.TagExpr {
		return &model.TagExpr{Op: model.TagMatch, Key: "h", Regex: regexp.MustCompile(e)}
	}
	for _, c := range []struct {
		name  string
		v     *View
		where *model.TagExpr
		asks  int // within which it must ask
	}{
		{"dictionary", files, matches("5$"), 4},
		{"column", memtables, matches("5$"), 4},
		{"equal", memtables, &model.TagExpr{Op: model.TagEqual, Key: "k", Value: "3"}, 3},
		{"absent", memtables, &model.TagExpr{Op: model.TagEqual, Key: "k"}, 3},
		{"many counters", files, matches(strings.Repeat("(.?){1000}", 20) + "x"), 20},
	} {
		for n := 1; n <= c.asks; n++ {
			ctx := &endsAt{Context: t.Context(), n: n}
			set, err := c.v.Select(ctx, "m", c.where)
			if !errors.Is(err, context.Canceled) || set != nil {
				t.Errorf("%s: ended at ask %d: %v, %v", c.name, n, set, err)
			}
			if ctx.asked > n {
				t.Errorf("%s: went on after ask %d, to %d", c.name, n, ctx.asked)
			}
		}
	}
}

// TestMatcherLikeSelect compares the decisions by tags with the index.
func TestMatcherLikeSelect(t *testing.T) {
	r := newRand(t)
	x := newTestIndex(t)
	tagsOf := map[uint32]model.Tags{}
	for id := range uint32(300) {
		var set model.Tags
		for _, k := range testKeys {
			if r.IntN(2) == 0 {
				set = append(set, model.Tag{Key: k, Value: tags.Value(r)})
			}
		}
		tagsOf[id+1] = set
		x.AddSeries(model.SeriesID(id+1), string(model.AppendSeriesKey(nil, "m", set)))
	}
	v := x.View()
	defer v.Release()
	m := match.NewMatcher()
	for range 300 {
		e := randomExpr(r, 3)
		want, err := v.Select(t.Context(), "m", e)
		if err != nil {
			t.Fatal(err)
		}
		got := roaring.New()
		for id, set := range tagsOf {
			ok, err := m.Match(e, set, match.NewWork(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				got.Add(id)
			}
		}
		if !got.Equals(want) {
			t.Fatalf("%s: %v, want %v", exprString(e), got, want)
		}
	}
	fresh := &model.TagExpr{Op: model.TagMatch, Key: "host", Regex: regexp.MustCompile("x")}
	if _, err := m.Match(fresh, nil, match.NewLimitedWork(t.Context(), 1<<20)); !errors.Is(err, match.ErrBudget) {
		t.Errorf("limited work compiles an expression: %v", err)
	}
	if _, err := m.Match(fresh, nil, match.NewWork(t.Context())); err != nil {
		t.Error(err)
	}
	if _, err := m.Match(fresh, model.Tags{{Key: "host", Value: strings.Repeat("y", 50)}}, match.NewLimitedWork(t.Context(), 40)); !errors.Is(err, match.ErrBudget) {
		t.Errorf("50 bytes in 40 steps: %v", err)
	}
}

func newTestIndex(t *testing.T) *Index {
	t.Helper()
	x, err := NewIndex(IndexOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return x
}
