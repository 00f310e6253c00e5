package cache

import (
	"math"
	"slices"

	"tsdbd/model"
	"tsdbd/model/column"
)

// run is rows of a chunk that follow each other: a time and values of each.
type run []uint64

// gatherRuns is Gather for a series whose rows came in the order of time, with one
// layout, and were not deleted: their words are copied chunk by chunk. It returns
// false if the series is not of this kind.
func (g *Gatherer) gatherRuns(dst *column.Rows, id model.SeriesID, fields []column.Field, r model.TimeRange) bool {
	st, ok := g.capture(id)
	if !ok || st.flags&unsorted != 0 {
		return false
	}
	g.runs = g.runs[:0]
	rows, stride, layout := 0, 0, uint32(0)
	newer := int64(math.MaxInt64) // a time that all rows are below
	for v := g.chunks(&st); v.next(); {
		if v.used == 0 {
			continue
		}
		if stride == 0 {
			layout, stride = v.layout, v.stride
		}
		if v.layout != layout || v.head&(1<<v.used-1) != 0 {
			return false
		}
		lo, hi := 0, v.used
		first := int64(v.row(0)[0])
		if newer > r.Max {
			for hi > 0 && int64(v.row(hi - 1)[0]) > r.Max {
				hi--
			}
		}
		if first < r.Min {
			for lo < hi && int64(v.row(lo)[0]) < r.Min {
				lo++
			}
		}
		if lo < hi {
			g.runs = append(g.runs, v.words[headWords+lo*stride:headWords+hi*stride])
			rows += hi - lo
		}
		if first < r.Min {
			break
		}
		newer = first
	}
	slices.Reverse(g.runs)
	g.copyRuns(dst, fields, layout, stride, rows)
	return true
}

// copyRuns turns the runs, sorted by time, into columns.
func (g *Gatherer) copyRuns(dst *column.Rows, fields []column.Field, layout uint32, stride, rows int) {
	g.reset(dst, fields)
	if rows == 0 || !g.place(layout, fields) {
		return
	}
	dst.Times = slices.Grow(dst.Times, rows)[:rows]
	i := 0
	for _, r := range g.runs {
		for o := 0; o < len(r); o += stride {
			dst.Times[i] = int64(r[o])
			i++
		}
	}
	for c := range fields {
		v, p := &dst.Cols[c], int(g.pos[c])
		if p < 0 {
			v.Nulls(fields[c].Type, rows)
			continue
		}
		v.Resize(rows)
		switch v.Type {
		case model.Boolean:
			eachWord(g.runs, stride, 1+p, func(i int, w uint64) { v.Bools[i] = w != 0 })
		case model.String:
			eachWord(g.runs, stride, 1+p, func(i int, w uint64) { v.Strings[i] = g.stringAt(w) })
		default:
			words, i := wordsOf(v), 0
			for _, r := range g.runs {
				for o := 1 + p; o < len(r); o += stride {
					words[i] = r[o]
					i++
				}
			}
		}
	}
}

// eachWord calls set with a word of each row.
func eachWord(runs []run, stride, at int, set func(i int, w uint64)) {
	i := 0
	for _, r := range runs {
		for o := at; o < len(r); o += stride {
			set(i, r[o])
			i++
		}
	}
}
