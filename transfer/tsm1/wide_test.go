package tsm1

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/transfer/tsm1/tsm1test"
)

// TestWide reads a series of more fields than blocks of all of them fit into memory: the
// values that the reader holds are bounded, and all arrive, from two files that overlap.
func TestWide(t *testing.T) {
	const fields, n = 5000, 600
	d := newTree(t)
	for f := range 2 {
		v := column.Vector{Type: model.Integer}
		var times []int64
		for i := range int64(n) {
			times = append(times, int64(f)+3*i*int64(1+f))
			v.Ints = append(v.Ints, i)
		}
		block := tsm1test.Block(times, &v)
		var file tsm1test.File
		span := model.TimeRange{Min: times[0], Max: times[n-1]}
		for i := range fields {
			file.AddBlocks(fmt.Sprintf("m%sf%06d", tsm1test.Separator, i), model.Integer, []model.TimeRange{span}, [][]byte{block})
		}
		d.tsm(t, f+1, file.Bytes())
	}
	s, err := Open(d.root, Options{})
	if err != nil {
		t.Fatal(err)
	}
	opened, err := s.Rows(t.Context(), s.Shards()[0], model.AllTime, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	r := opened.(*reader)
	values, sum, last := 0, int64(0), int64(-1)
	for runs := 0; ; runs++ {
		run, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if run.Times[0] <= last {
			t.Fatalf("%d follows %d", run.Times[0], last)
		}
		last = run.Times[run.Len()-1]
		for i := range run.Cols {
			c := &run.Cols[i]
			for row := range run.Times {
				if c.IsValid(row) {
					values++
					sum += c.Ints[row]
				}
			}
		}
		if runs > 0 {
			continue
		}
		held := 0
		for _, src := range r.found {
			held += cap(src.values.Ints)
		}
		if held > 2*s.limits.cells || run.Len()*len(run.Cols) > s.limits.cells {
			t.Errorf("sources hold %d values, a run of %d rows and %d fields", held, run.Len(), len(run.Cols))
		}
	}
	if want := int64(n) * (n - 1) / 2 * 2 * fields; values != 2*n*fields || sum != want {
		t.Errorf("%d values, sum %d, want %d", values, sum, want)
	}
}
