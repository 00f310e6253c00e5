package read

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/internal/testkit/script"
	"tsdbd/model"
	"tsdbd/model/scan/scantest"
	"tsdbd/query/engine/rowset"
	"tsdbd/query/expr"
	"tsdbd/query/syntax"
)

// TestReadScripts runs the scripts of testdata: which rows of series are read for a
// SELECT of fields and tags, and in what order.
//
// The commands:
//
//	load           writes the lines that follow, times in seconds, to shards of an hour
//	series NAME N  writes N series h=0..N-1, of one row each at N-h seconds
//	ties NAME      the order of rows of equal time: series, influx, rows or chosen
//	limit NAME N   bounds points, series or bytes; 0 is none
//	rows           reads for each SELECT that follows. Types stand in its references.
//
// An answer has a line for each group of a shard, and one for each row. Each is read
// with statistics and without, by one worker and by three.
func TestReadScripts(t *testing.T) {
	script.Run(t, "testdata/*.txt", func(t *testing.T) func(script.Command) []string {
		store := scantest.New()
		store.ShardSpan = time.Hour
		store.Create("d", "autogen")
		ties := rowset.BySeries
		limits := map[string]int64{}
		return func(c script.Command) (out []string) {
			switch c.Name {
			case "load":
				store.Write(t, "d", "autogen", "s", strings.Join(c.Input, "\n"))
			case "series":
				var n int
				fmt.Sscan(c.Args[1], &n)
				var lines strings.Builder
				for i := range n {
					fmt.Fprintf(&lines, "%s,h=%d f=%d %d\n", c.Args[0], i, i, n-i)
				}
				store.Write(t, "d", "autogen", "s", lines.String())
			case "ties":
				ties = map[string]rowset.Ties{"series": rowset.BySeries, "influx": rowset.AsInflux, "rows": rowset.AsInfluxRows, "chosen": rowset.AsInfluxChosen}[c.Args[0]]
			case "limit":
				var n int64
				fmt.Sscan(c.Args[1], &n)
				limits[c.Args[0]] = n
			case "rows":
				for _, text := range c.Input {
					var answers [2]string
					for i := range answers {
						store.Stats, store.Steps, store.ChunkRows = i == 0, i == 0, 3-i
						b := &Budget{Ctx: t.Context(), Workers: 1 + 2*i, MaxPoints: limits["points"], MaxSeries: int(limits["series"]), MaxMemory: limits["bytes"]}
						answers[i] = readRows(t, b, store, text, ties)
					}
					if answers[0] != answers[1] {
						t.Errorf("%s\n%s\nwithout statistics, by three workers\n%s", text, answers[0], answers[1])
					}
					out = append(append(out, "> "+text), strings.Split(strings.TrimRight(answers[0], "\n"), "\n")...)
				}
			default:
				t.Fatalf("unknown command %q", c.Name)
			}
			return out
		}
	})
}

var beyond = regexp.MustCompile(`\(\d+/`)

// readRows returns the rows that a SELECT reads, as text.
func readRows(t *testing.T, b *Budget, store *scantest.Store, text string, ties rowset.Ties) string {
	t.Helper()
	q, err := syntax.Parse(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	stmt := q.Statements[0].(*influxql.SelectStatement)
	where, err := expr.SplitTime(stmt.Condition, time.Unix(0, 0), time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	view, err := store.View("d", "autogen", where.Range)
	if err != nil {
		t.Fatal(err)
	}
	defer view.Release()
	sel := Selection{Where: where.Expr, Range: where.Range, Limit: stmt.SLimit, Offset: stmt.SOffset}
	for _, s := range stmt.Sources {
		m := &Measurement{Name: s.(*influxql.Measurement).Name, View: view}
		for _, shard := range view.Shards() {
			if len(shard.Fields(m.Name)) > 0 {
				m.Shards = append(m.Shards, shard)
			}
		}
		sel.Sources = append(sel.Sources, m)
	}
	for _, d := range stmt.Dimensions {
		sel.Keys = append(sel.Keys, d.Expr.(*influxql.VarRef).Val)
	}
	req := Request{Range: where.Range, Asc: stmt.TimeAscending(), Limit: stmt.Limit, Ties: ties}
	for _, f := range stmt.Fields {
		req.Refs = append(req.Refs, *f.Expr.(*influxql.VarRef))
	}
	var out strings.Builder
	groups := &GroupTable{}
	units, err := b.Units(groups, sel)
	if err != nil {
		return err.Error()
	}
	for _, u := range units {
		found, _, err := b.Rows(u, req)
		if err != nil {
			// How far beyond a limit several workers are is a matter of chance.
			return beyond.ReplaceAllString(err.Error(), "(more/")
		}
		for _, g := range groups.Order(true) {
			rs := found[g]
			if rs == nil {
				continue
			}
			fmt.Fprintf(&out, "%s %v in [%d, %d)\n", groups.Names[g], groups.Tuples[g], u.Shard.TimeRange().Min/1e9, (u.Shard.TimeRange().Max+1)/1e9)
			for i, at := range rs.Times {
				fmt.Fprint(&out, "  ", at/1e9)
				for j := range rs.Cols {
					fmt.Fprint(&out, " ", cell(rs, j, i))
				}
				out.WriteByte('\n')
			}
		}
	}
	if out.Len() == 0 {
		return "nothing"
	}
	return out.String()
}

// cell prints a value of a row, and a missing one as -.
func cell(rs *rowset.Set, column, row int) any {
	switch s := expr.ScalarAt(&rs.Cols[column], row); s.Type {
	case model.Float:
		return rs.Cols[column].Floats[row]
	case model.Integer:
		return int64(s.Bits)
	case model.Boolean:
		return s.Bits == 1
	case model.String:
		return fmt.Sprintf("%q", s.Text)
	}
	return "-"
}
