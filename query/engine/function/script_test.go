package function

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/influxdata/influxql"

	"tsdbd/internal/testkit/script"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/admission"
	"tsdbd/query/engine/partial"
	"tsdbd/query/engine/rowset"
	"tsdbd/query/expr"
	"tsdbd/query/syntax"
	"tsdbd/query/window"
)

// TestFunctionScripts runs the scripts of testdata: what each function makes of a few
// rows.
//
// The commands:
//
//	windows N|none   groups by windows of N seconds
//	order asc|desc   the order of the rows and of the answer
//	call C           runs a call over the rows that follow: second=value ...
//	fill F           fills the empty windows of the answers that follow
//	check C...       checks the arguments of the calls that follow
//
// A value is 1.5, 1i, 1u, true, "text", or - for none. The answer is in the same form.
// The range is that of the rows.
func TestFunctionScripts(t *testing.T) {
	script.Run(t, "testdata/*.txt", func(t *testing.T) func(script.Command) []string {
		win, asc, fill := window.Windows{}, true, ""
		return func(c script.Command) (out []string) {
			switch rest := strings.Join(c.Args, " "); c.Name {
			case "windows":
				seconds, _ := strconv.Atoi(rest)
				win.Every = int64(seconds) * 1e9
			case "order":
				asc = rest == "asc"
			case "fill":
				if fill = rest; fill == "none" {
					fill = ""
				}
			case "call":
				for _, line := range c.Input {
					rows := parseRows(t, line)
					if !asc {
						rows.Reverse()
					}
					out = append(out, answer(t, rest, rows, &win, asc, fill))
				}
			case "check":
				for _, text := range c.Input {
					out = append(out, fmt.Sprint(checkCall(t, text, &win)))
				}
			default:
				t.Fatalf("unknown command %q", c.Name)
			}
			return out
		}
	})
}

// parseCall parses a call, in a statement with what follows it.
func parseCall(t *testing.T, text, tail string) (*influxql.SelectStatement, *influxql.Call) {
	t.Helper()
	q, err := syntax.Parse("SELECT "+text+" FROM m "+tail, nil)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	stmt := q.Statements[0].(*influxql.SelectStatement)
	return stmt, stmt.Fields[0].Expr.(*influxql.Call)
}

// parseRows reads rows of one column.
func parseRows(t *testing.T, line string) *rowset.Set {
	t.Helper()
	rs := &rowset.Set{Cols: make([]column.Vector, 1)}
	v := &rs.Cols[0]
	for _, word := range strings.Fields(line) {
		at, text, _ := strings.Cut(word, "=")
		second, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		rs.Times = append(rs.Times, second*1e9)
		var s expr.Scalar
		switch n := len(text); {
		case text == "-":
			v.AppendNull()
			continue
		case text[0] == '"':
			s = expr.Scalar{Type: model.String, Text: strings.Trim(text, `"`)}
		case text == "true" || text == "false":
			s = expr.Scalar{Type: model.Boolean}
			if text == "true" {
				s.Bits = 1
			}
		case text[n-1] == 'i':
			i, _ := strconv.ParseInt(text[:n-1], 10, 64)
			s = expr.Scalar{Type: model.Integer, Bits: uint64(i)}
		case text[n-1] == 'u':
			s.Type = model.Unsigned
			s.Bits, _ = strconv.ParseUint(text[:n-1], 10, 64)
		default:
			f, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			s = expr.FloatScalar(f)
		}
		if v.Type == model.Unknown {
			v.Type = s.Type
		}
		expr.AppendScalar(v, s)
	}
	return rs
}

// answer runs a call as the engine does: over states, over rows, or over a series.
func answer(t *testing.T, text string, rows *rowset.Set, win *window.Windows, asc bool, fill string) string {
	t.Helper()
	stmt, call := parseCall(t, text, fill)
	f := Functions[call.Name]
	typ := rows.Cols[0].Type
	if !f.Accepts(typ) {
		return f.Refuse(call, typ).Error()
	}
	first, last := rows.Times[0], rows.Times[len(rows.Times)-1]
	span := model.TimeRange{Min: min(first, last), Max: max(first, last)}
	x := &Context{
		Call: &Call{Function: &f, Expr: call, Type: typ, Alone: f.Selector, Range: span, Shown: span}, Span: span, Windows: win, Asc: asc,
		Stop: &admission.Stopper{Ctx: t.Context()}, Grow: func(int64) error { return nil },
	}
	var out *Cells
	var err error
	switch {
	case f.Rows != nil:
		out, err = f.Rows(x, rows.DropNulls())
	case f.series != nil:
		out, err = x.Transform(&Cells{Times: rows.Times, Values: rows.Cols[0]})
	default:
		out = folded(t, x, rows)
	}
	if err == nil && fill != "" {
		var filler Filler
		if filler, err = NewFiller(stmt, !win.None(), asc); err == nil {
			err = filler.Windows(x, out, 0)
		}
	}
	if err != nil {
		return err.Error()
	}
	var words []string
	for i, at := range out.Times {
		words = append(words, fmt.Sprintf("%d=%s", at/1e9, valueText(expr.ScalarAt(&out.Values, i))))
	}
	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, " ")
}

// folded answers a call by its partial states, oldest rows first.
func folded(t *testing.T, x *Context, rows *rowset.Set) *Cells {
	t.Helper()
	if !x.Asc {
		rows = rows.Clone()
		rows.Reverse()
	}
	typ := x.Type
	if x.Partial.As != model.Unknown {
		typ = x.Partial.As
	}
	p := partial.NewPlan(x.Range, x.Windows, 1)
	for _, kind := range x.Partial.Slots {
		sl := partial.Slot{Kind: kind, Type: typ, Timed: true}
		if n := len(x.Expr.Args); n > 1 {
			sl.N = IntArg(x.Expr, n-1)
		}
		p.AddSlot(sl, influxql.VarRef{Val: "v"})
	}
	low, high := p.Prepare(x.Range)
	table := partial.NewTable(len(p.Slots), x.Windows.None(), low, high)
	table.Desc, table.Stop = !x.Asc, x.Stop
	partial.NewWorker(nil, p, x.Range, table).FoldTable(0, rows.Times, rows.Cols)
	out := &Cells{Values: column.Vector{Type: x.Result(typ)}}
	table.Group(0, func(number int64, st []partial.State) {
		a := &st[0]
		at := x.At(p.StartOf(number))
		switch {
		case a.N == 0:
			return
		case x.Partial.List != nil:
			x.Partial.List(x, table, &p.Slots[0], a, at, out)
			return
		case x.Alone && x.Windows.None():
			at = a.T
		}
		out.Times = append(out.Times, at)
		switch {
		case x.Partial.Value != nil:
			x.Partial.Value(&out.Values, x.Type, partial.Windows{Page: st, Slots: len(st), With: len(st) - 1})
		case x.Type == model.String:
			out.Values.Strings = append(out.Values.Strings, table.Texts[a.A])
		default:
			out.Values.AppendWord(a.A, nil)
		}
	})
	if !x.Asc {
		slices.Reverse(out.Times)
		expr.ReverseRows(&out.Values, len(out.Times))
	}
	return out
}

// checkCall returns the error of a call's arguments, or ok.
func checkCall(t *testing.T, text string, win *window.Windows) any {
	t.Helper()
	c := &Checker{Every: !win.None()}
	c.Call = func(e *influxql.Call) error { return Functions[e.Name].Check(c, e) }
	if _, call := parseCall(t, text, ""); c.Call(call) != nil {
		return c.Call(call)
	}
	return "ok"
}

// valueText prints a value as scripts have it.
func valueText(s expr.Scalar) string {
	switch s.Type {
	case model.Float:
		return strconv.FormatFloat(math.Float64frombits(s.Bits), 'g', 6, 64)
	case model.Integer:
		return strconv.FormatInt(int64(s.Bits), 10) + "i"
	case model.Unsigned:
		return strconv.FormatUint(s.Bits, 10) + "u"
	case model.Boolean:
		return strconv.FormatBool(s.Bits == 1)
	case model.String:
		return strconv.Quote(s.Text)
	}
	return "-"
}

// TestDownsampleFunctions holds the functions that a downsample may have against the tables:
// those of one field that give one value for a window, and those that are kept as sketches.
func TestDownsampleFunctions(t *testing.T) {
	for name, f := range Functions {
		_, call := parseCall(t, name+"(v)", "")
		one := name == "distinct" || name == "percentile" || f.Filled && f.Check(&Checker{Call: func(*influxql.Call) error { return nil }}, call) == nil
		if _, err := syntax.Parse("CREATE DOWNSAMPLE ON d FROM a INTO b EVERY 1h AS "+name, nil); one != (err == nil) {
			t.Errorf("%s gives one value for a window: %v; CREATE DOWNSAMPLE: %v", name, one, err)
		}
	}
}
