package cache

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
)

// TestPicture takes pictures of a cache between appends and deletes: each keeps what
// the cache held then.
func TestPicture(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 5))
	c := New(nil, nil)
	layout := &point.Layout{Measurement: "m", Fields: []column.Field{{Key: "v", Type: model.Integer}}}
	fields := layout.Fields
	series := make([]*point.Series, 200)
	for i := range series {
		series[i] = point.NewSeries(fmt.Sprint("m,h=", i))
		series[i].SetID(model.SeriesID(1 + i))
	}
	read := func(g *Gatherer) (out string) {
		var rows column.Rows
		for _, s := range series {
			has := g.Gather(&rows, s.ID(), fields, model.AllTime)
			if has != g.HasRows(s.ID()) {
				t.Fatalf("series %d: rows %v, HasRows %v", s.ID(), has, !has)
			}
			if has {
				out += fmt.Sprint(s.ID(), rows.Times, rows.Cols[0].Ints, "\n")
			}
		}
		return out
	}
	type taken struct {
		*Picture
		want string
	}
	var pictures []taken
	for n := range 400 {
		// Ever more series, few of them at a time.
		s := series[r.IntN(1+n/2)]
		switch k := r.IntN(10); {
		case k < 7:
			c.Apply([]point.Row{{Series: s, Layout: layout, Time: int64(r.IntN(100))}}, []uint64{uint64(n)}, nil)
		case k < 9:
			lo := int64(r.IntN(100))
			c.Delete(roaring.BitmapOf(uint32(s.ID()), uint32(series[0].ID())), model.TimeRange{Min: lo, Max: lo + 40})
		default:
			p := c.Picture()
			pictures = append(pictures, taken{p, read(NewGatherer(c))})
		}
		if len(pictures) > 0 && r.IntN(20) == 0 {
			for _, p := range pictures {
				if got := read(p.NewGatherer()); got != p.want {
					t.Fatalf("step %d: the picture has\n%s\nand had\n%s", n, got, p.want)
				}
			}
			i := r.IntN(len(pictures))
			pictures[i].Release()
			pictures = append(pictures[:i], pictures[i+1:]...)
		}
	}
	for _, p := range pictures {
		p.Release()
	}
	if n := len(c.pictures.list); n > 0 {
		t.Errorf("%d pictures are held", n)
	}
}
