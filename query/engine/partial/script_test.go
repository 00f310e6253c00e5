package partial

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/internal/testkit/script"
	"tsdbd/model"
	"tsdbd/model/scan/scantest"
	"tsdbd/query/admission"
	"tsdbd/query/engine/read"
	"tsdbd/query/expr"
	"tsdbd/query/syntax"
	"tsdbd/query/window"
)

// kinds are the names of aggregates in scripts.
var kinds = map[string]Kind{
	"count": Count, "sum": Sum, "square": Square, "min": Min, "max": Max, "first": First, "last": Last,
	"tally": Tally, "sketch": Sketch, "ranks": Ranks, "top": Top, "bottom": Bottom, "sample": Sample,
}

// TestPartialScripts runs the scripts of testdata: what the states of aggregates hold.
//
// The commands:
//
//	load         writes the lines that follow, times in seconds, to shards of an hour
//	fold         folds each SELECT of aggregates that follows, by windows and tags
//
// An answer has a line for each group and window, at its start in seconds, and of each
// aggregate its state: the value, @ the time of a chosen one; x the number of a value. Each
// is computed from chunks with statistics and without, in one table and in one for each
// shard, which are merged; and states that were sent to another node are the same.
func TestPartialScripts(t *testing.T) {
	script.Run(t, "testdata/*.txt", func(t *testing.T) func(script.Command) []string {
		store := scantest.New()
		store.ShardSpan = time.Hour
		store.Create("d", "autogen")
		return func(c script.Command) (out []string) {
			switch c.Name {
			case "load":
				store.Write(t, "d", "autogen", "s", strings.Join(c.Input, "\n"))
			case "fold":
				for _, text := range c.Input {
					store.Stats, store.Steps, store.ChunkRows = true, true, 3
					answer := fold(t, store, text, false)
					store.Stats, store.Steps, store.ChunkRows = false, false, 2
					if other := fold(t, store, text, true); other != answer {
						t.Errorf("%s\n%s\nwithout statistics, in parts\n%s", text, answer, other)
					}
					out = append(append(out, "> "+text), strings.Split(strings.TrimRight(answer, "\n"), "\n")...)
				}
			default:
				t.Fatalf("unknown command %q", c.Name)
			}
			return out
		}
	})
}

// fold returns the states of a SELECT as text. With parts each shard has a table of its own.
func fold(t *testing.T, store *scantest.Store, text string, parts bool) string {
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
	m := &read.Measurement{Name: stmt.Sources[0].(*influxql.Measurement).Name, View: view, Shards: view.Shards()}
	sel := read.Selection{Sources: []*read.Measurement{m}, Where: where.Expr, Range: where.Range}
	p := NewPlan(where.Range, &window.Windows{}, 0)
	for _, d := range stmt.Dimensions {
		switch e := d.Expr.(type) {
		case *influxql.VarRef:
			sel.Keys = append(sel.Keys, e.Val)
		case *influxql.Call:
			p.Windows.Every = int64(e.Args[0].(*influxql.DurationLiteral).Val)
		}
	}
	for _, f := range stmt.Fields {
		call := f.Expr.(*influxql.Call)
		sl := Slot{Kind: kinds[call.Name], Type: expr.FieldType(call.Args[0].(*influxql.VarRef).Type), Timed: true, Seed: 1}
		if n := len(call.Args); n > 1 {
			sl.N = int(call.Args[n-1].(*influxql.IntegerLiteral).Val)
		}
		p.AddSlot(sl, *call.Args[0].(*influxql.VarRef))
	}
	b := &read.Budget{Ctx: t.Context(), Workers: 1}
	groups := &read.GroupTable{}
	units, err := b.Units(groups, sel)
	if err != nil {
		t.Fatal(err)
	}
	first, last := p.Prepare(model.TimeRange{Min: max(where.Range.Min, 0), Max: min(where.Range.Max, 4*3600e9)})
	stop := &admission.Stopper{Ctx: t.Context()}
	for _, u := range units {
		cs, ok := u.Bind(p.Refs)
		if !ok || !p.Bound(cs) {
			continue
		}
		table := p.Table
		if table == nil || parts {
			table = NewTable(len(p.Slots), p.Windows.None(), first, last)
			table.Stop = stop
		}
		if err := NewWorker(b, p, where.Range, table).ScanPart(u, cs, u.Series, 0); err != nil {
			t.Fatal(err)
		}
		if p.Table != nil && p.Table != table {
			p.Table.Merge(table, p.Slots)
		} else {
			p.Table = table
		}
	}
	if p.Table == nil {
		return "nothing"
	}
	return statesText(p, groups)
}

// statesText prints the states of a plan.
func statesText(p *Plan, groups *read.GroupTable) string {
	var out strings.Builder
	for _, g := range groups.Order(true) {
		p.Table.Group(g, func(number int64, states []State) {
			if !slices.ContainsFunc(states, func(st State) bool { return st.N != 0 }) {
				return
			}
			at := max(p.StartOf(number), 0) / 1e9
			fmt.Fprintf(&out, "%v %d:", groups.Tuples[g], at)
			for i := range states {
				fmt.Fprint(&out, " ", stateText(p, &p.Slots[i], &states[i]))
			}
			out.WriteByte('\n')
		})
	}
	return out.String()
}

// stateText prints a state.
func stateText(p *Plan, sl *Slot, st *State) string {
	if st.N == 0 {
		return "-"
	}
	bits := func(word uint64) string {
		switch sl.Type {
		case model.Float:
			return fmt.Sprint(FloatOf(word))
		case model.Integer:
			return fmt.Sprint(int64(word))
		case model.Boolean:
			return fmt.Sprint(word == 1)
		}
		return fmt.Sprint(word)
	}
	switch sl.Kind {
	case Count:
		return fmt.Sprint(st.N)
	case Sum, Square:
		if sl.Type == model.Float || sl.Kind == Square {
			return fmt.Sprint(st.Float())
		}
		return bits(st.A)
	case Tally:
		all := &p.Table.Tallies[st.A]
		var list []string
		for i, e := range all.Entries {
			value := bits(e.word)
			if sl.Type == model.String {
				value = all.texts[i]
			}
			list = append(list, fmt.Sprintf("%sx%d", value, e.n))
		}
		slices.Sort(list)
		return "{" + strings.Join(list, " ") + "}"
	case Ranks:
		var list []string
		for rank := range int(st.N) {
			word, at := p.Table.Ranked(sl, st, rank)
			list = append(list, fmt.Sprintf("%s@%d", bits(word), at/1e9))
		}
		return strings.Join(list, "<=")
	case Sketch:
		return fmt.Sprintf("about %d", p.Table.Sketches[st.A].Count())
	case Top, Bottom, Sample:
		k := &p.Table.Picks[st.A]
		k.Prune(nil, sl)
		var list []string
		for _, r := range k.Rows {
			list = append(list, fmt.Sprintf("%s@%d", bits(r.Word), r.T/1e9))
		}
		return "[" + strings.Join(list, " ") + "]"
	}
	value := bits(st.A)
	if sl.Type == model.String {
		value = p.Table.Texts[st.A]
	}
	return fmt.Sprintf("%s@%d", value, st.T/1e9)
}
