package partial

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/influxdata/influxql"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
	"tsdbd/model/scan/scantest"
	"tsdbd/query/admission"
	"tsdbd/query/engine/read"
	"tsdbd/query/window"
)

// TestStored: the counts of stored rows say how many values a sum is of, in chunks of whole
// windows and of parts, with statistics and without. A row without a count stands for one value.
func TestStored(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testseed.Of(t), 1))
	const rows, minute = 60, int64(60e9)
	for _, c := range []struct {
		name          string
		sum, has, one int // of 10 rows so many have a sum, so many a count, and all counts are one number
	}{
		{"equal counts", 10, 10, 6},
		{"counts differ", 10, 10, 0},
		{"rows without counts", 10, 7, 0},
		{"rows without sums", 7, 10, 6},
		{"either", 5, 5, 0},
		{"no counts", 10, 0, 0},
	} {
		store := scantest.New()
		store.Create("d", "autogen")
		var lines strings.Builder
		type want struct{ count, values, sum int64 }
		wants := map[int64]*want{}
		const every = 7 * minute
		for i := range int64(rows) {
			count, sum := int64(c.one), rnd.Int64N(100)
			if count == 0 {
				count = 1 + rnd.Int64N(9)
			}
			hasSum, hasCount := rnd.IntN(10) < c.sum, rnd.IntN(10) < c.has
			if !hasSum && !hasCount {
				continue
			}
			w := wants[i*minute/every]
			if w == nil {
				w = &want{}
				wants[i*minute/every] = w
			}
			var fields []string
			if hasCount {
				fields = append(fields, fmt.Sprintf("count_v=%di", count))
				w.count += count
			}
			if hasSum {
				fields = append(fields, fmt.Sprintf("sum_v=%di", sum))
				w.sum += sum
				if w.values++; hasCount {
					w.values += count - 1
				}
			}
			fmt.Fprintf(&lines, "m %s %d\n", strings.Join(fields, ","), i*60)
		}
		store.Write(t, "d", "autogen", "s", lines.String())
		view, err := store.View("d", "autogen", model.AllTime)
		if err != nil {
			t.Fatal(err)
		}
		defer view.Release()
		for _, chunk := range []int{1, 2, 7, 30, 1000} {
			for _, stats := range []bool{true, false} {
				store.Stats, store.Steps, store.ChunkRows = stats, stats, chunk
				p := NewPlan(model.AllTime, &window.Windows{Every: every}, 2)
				p.AddSlot(Slot{Kind: Count, Type: model.Integer}, influxql.VarRef{Val: "v", Type: influxql.Integer})
				p.AddSlot(Slot{Kind: Sum, Type: model.Integer}, influxql.VarRef{Val: "v", Type: influxql.Integer})
				s := p.StoredOf(func(function, field string) string { return function + "_" + field })
				b, groups := &read.Budget{Ctx: t.Context(), Workers: 1}, &read.GroupTable{}
				units, err := b.Units(groups, read.Selection{Sources: []*read.Measurement{{Name: "m", View: view, Shards: view.Shards()}}, Range: model.AllTime})
				if err != nil {
					t.Fatal(err)
				}
				first, last := s.Prepare(model.TimeRange{Min: 0, Max: rows * minute})
				table := NewTable(2, false, first, last)
				table.Stop = &admission.Stopper{Ctx: t.Context()}
				for _, u := range units {
					cs, _ := u.Bind(s.Refs)
					if err := NewWorker(b, s, model.AllTime, table).ScanPart(u, cs, u.Series, 0); err != nil {
						t.Fatal(err)
					}
				}
				table.Group(0, func(number int64, st []State) {
					w := wants[number]
					if w == nil {
						w = &want{}
					}
					if got := (want{st[0].N, st[1].N, int64(st[1].A)}); got != *w {
						t.Errorf("%s, chunks of %d, statistics %t, window %d: %v, want %v", c.name, chunk, stats, number, got, *w)
					}
				})
			}
		}
	}
}
