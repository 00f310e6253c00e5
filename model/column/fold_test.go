package column

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
)

// TestFold compares passes over many sources with a map: every row comes once, in order,
// with the values of the latest source, and no pass keeps more than it may.
func TestFold(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 7))
	types := []model.FieldType{model.Integer, model.String, model.Boolean}
	for range 300 {
		f := Fold{MaxCells: 1 + r.IntN(80), MaxText: 1 + r.IntN(200)}
		sources := make([]Rows, r.IntN(60))
		span := int64(1 + r.IntN(200))
		want := map[int64][3]string{}
		for i := range sources {
			s := &sources[i]
			s.Reset(types)
			for at := r.Int64N(span); at < span; at += 1 + r.Int64N(span) {
				s.Times = append(s.Times, at)
				x := want[at]
				if r.IntN(3) > 0 {
					s.Cols[0].AppendWord(uint64(i), nil)
					x[0] = fmt.Sprint(i)
				} else {
					s.Cols[0].AppendNull()
				}
				if r.IntN(3) > 0 {
					x[1] = fmt.Sprintf("%0*d", 1+r.IntN(30), i)
					s.Cols[1].AppendWord(StringWord(0, len(x[1])), []byte(x[1]))
				} else {
					s.Cols[1].AppendNull()
				}
				s.Cols[2].AppendWord(uint64(i&1), nil)
				x[2] = fmt.Sprint(i&1 == 1)
				want[at] = x
			}
		}
		most := max(f.MaxCells/4, 1)
		last := r.IntN(2) == 0
		var got []int64
		for rest := (model.TimeRange{Min: 0, Max: span - 1}); !rest.Empty(); {
			f.Reset(types, rest, last)
			for i := range sources {
				lo, hi := sources[i].Bounds(f.Times())
				before := f.Bytes(hi - lo)
				f.Added().AppendRange(&sources[i], lo, hi)
				if f.Bytes(0) != before {
					t.Fatalf("%d bytes, said to be %d", f.Bytes(0), before)
				}
				f.Settle()
				if n := f.rows.Len() - f.kept; f.kept > most || n >= most {
					t.Fatalf("keeps %d and %d rows of %d", f.kept, n, most)
				}
			}
			rows := f.Finish()
			text := 0
			for i, at := range rows.Times {
				have := [3]string{"", "", fmt.Sprint(rows.Cols[2].Bools[i])}
				if rows.Cols[0].IsValid(i) {
					have[0] = fmt.Sprint(rows.Cols[0].Ints[i])
				}
				if rows.Cols[1].IsValid(i) {
					have[1] = rows.Cols[1].Strings[i]
					text += len(have[1])
				}
				if have != want[at] {
					t.Fatalf("row %d is %q, want %q", at, have, want[at])
				}
			}
			if rows.Len() > most || text > f.MaxText && rows.Len() > 1 {
				t.Fatalf("%d rows with %d bytes of text, at most %d and %d", rows.Len(), text, most, f.MaxText)
			}
			if done := f.Times(); last {
				got = append(slices.Clone(rows.Times), got...)
				rest.Max = done.Min - 1
			} else {
				got = append(got, rows.Times...)
				rest.Min = done.Max + 1
			}
		}
		times := make([]int64, 0, len(want))
		for at := range want {
			times = append(times, at)
		}
		if slices.Sort(times); !slices.Equal(got, times) {
			t.Fatalf("times %v, want %v", got, times)
		}
	}
}
