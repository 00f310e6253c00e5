package engine

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/internal/testkit/golden"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan/scantest"
	"tsdbd/query/engine/partial"
	"tsdbd/query/expr"
	"tsdbd/query/result"
	"tsdbd/query/syntax"
)

var (
	selectThemes = flag.String("select.themes", "", "run only these golden themes (comma separated)")
	selectCase   = flag.String("select.case", "", "run only this golden case")
)

// selectTheme reports whether a theme is of SELECTs. The others, and what of
// these is not a plain SELECT, are answered over HTTP by cmd/tsdbd.
func selectTheme(name string) bool {
	switch name {
	case "ddl", "delete_drop", "explain", "formats", "lp_accept", "lp_errors", "parse_errors", "requests", "show", "users_cq_subs":
		return false
	}
	return *selectThemes == "" || strings.Contains(","+*selectThemes+",", ","+name+",")
}

// TestGoldenSelect answers the recorded SELECTs over storages that cut their
// data in different ways, with different numbers of workers.
func TestGoldenSelect(t *testing.T) {
	known := golden.Differences(t)
	for _, th := range golden.Themes(t, selectTheme) {
		t.Run(th.Theme, func(t *testing.T) {
			t.Parallel()
			for _, shape := range []struct {
				rows    int
				stats   bool
				steps   bool
				workers int
				slice   int64
			}{{7, true, true, 2, 1 << 20}, {1, false, false, 1, 5}, {1000, true, false, 3, 1 << 20}, {3, false, true, 1, 1}} {
				m := scantest.New()
				m.ChunkRows, m.Stats, m.Steps = shape.rows, shape.stats, shape.steps
				runSelectTheme(t, m, th, known, Options{Workers: shape.workers, streamRows: shape.slice})
			}
		})
	}
}

func runSelectTheme(t *testing.T, m *scantest.Store, th *golden.Theme, known map[string]*golden.Difference, opt Options) {
	statement := func(q string) {
		parsed, err := influxql.ParseQuery(q)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range parsed.Statements {
			switch s := s.(type) {
			case *influxql.CreateDatabaseStatement:
				if s.RetentionPolicyShardGroupDuration > 0 {
					m.ShardSpan = s.RetentionPolicyShardGroupDuration
				}
				m.Create(s.Name, "autogen")
			case *influxql.CreateRetentionPolicyStatement:
				m.Create(s.Database, s.Name)
			}
		}
	}
	for _, s := range th.Setup {
		if s.Write != nil {
			m.Write(t, s.Write.DB, s.Write.RP, s.Write.Precision, s.Write.Lines)
		} else {
			statement(s.Statement)
		}
	}
	foreign := map[string]bool{} // sequences with statements that are not ours
	for _, c := range th.Cases {
		if c.Sequence != "" && !oursToRun(c) {
			foreign[c.Sequence] = true
		}
	}
	passed, failed, skipped, differ := 0, 0, 0, 0
	for _, c := range th.Cases {
		if !oursToRun(c) || foreign[c.Sequence] {
			skipped++
			continue
		}
		if *selectCase != "" && c.ID != *selectCase && c.Sequence == "" {
			continue
		}
		if c.Write != nil {
			m.Write(t, c.Write.DB, c.Write.RP, c.Write.Precision, c.Write.Lines)
			continue
		}
		got := answerSelect(m, c, opt)
		d := known[c.Name()]
		if d != nil {
			differ++
		}
		bad := c.Judge(d, []any{got})
		if len(bad) > 0 && d == nil && opt.streamRows < 1<<20 {
			// Read in slices, rows of equal time stand in another order.
			bad = c.Judge(&golden.Difference{Ties: true}, []any{got})
		}
		if len(bad) == 0 {
			if d == nil {
				passed++
			}
			continue
		}
		failed++
		t.Errorf("%s/%s: %s\n     %s", th.Theme, c.ID, c.Q, strings.Join(bad[:min(3, len(bad))], "\n     "))
	}
	t.Logf("%s: %d passed, %d intended differences, %d failed, %d not for this test", th.Theme, passed, differ, failed, skipped)
}

// oursToRun reports whether a case is a SELECT over /query, or a write.
func oursToRun(c *golden.Case) bool {
	if c.Write != nil {
		return true
	}
	if c.Path != "" || c.Lines != nil || c.Text != nil || c.Q == "" || c.Params["chunked"] != "" || c.Params["params"] != "" || c.Body == nil {
		return false
	}
	if strings.EqualFold(c.Method, "GET") && strings.Contains(c.Q, "INTO") {
		return false // the warning is not ours
	}
	q, err := influxql.ParseQuery(c.Q)
	if err != nil {
		return strings.HasPrefix(strings.ToUpper(c.Q), "SELECT")
	}
	for _, s := range q.Statements {
		if _, ok := s.(*influxql.SelectStatement); !ok {
			return false
		}
	}
	return true
}

func answerSelect(m *scantest.Store, c *golden.Case, opt Options) any {
	q, err := syntax.Parse(c.Q, nil)
	if err != nil {
		return map[string]any{"error": "error parsing query: " + err.Error()}
	}
	var results []any
	failed := false
	for i, s := range q.Statements {
		res := map[string]any{"statement_id": json.Number(strconv.Itoa(i))}
		results = append(results, res)
		if failed {
			res["error"] = "not executed"
			continue
		}
		opt.Into = func(_ context.Context, b *result.IntoBatch) error { return intoStore(m, b) }
		var series []any
		var inf error
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		err := syntax.RefuseSystemSources(s)
		if err == nil {
			err = syntax.Resolve(s, m.Catalog(), c.Params["db"], c.Params["rp"])
		}
		if err == nil {
			err = Select(ctx, s.(*influxql.SelectStatement), m, opt, func(r *result.Result) error {
				for _, s := range r.Series {
					one, err := seriesJSON(s, c)
					if err != nil {
						inf = err
					}
					series = append(series, one)
				}
				return nil
			})
		}
		cancel()
		if inf != nil {
			return map[string]any{"error": inf.Error()}
		}
		if err != nil {
			res["error"] = err.Error()
			failed = true
			continue
		}
		if series != nil {
			res["series"] = series
		}
	}
	return map[string]any{"results": results}
}

// intoStore stores what SELECT INTO writes.
func intoStore(m *scantest.Store, b *result.IntoBatch) error {
	var conflict error
	for j, f := range b.Fields {
		dropped, has := 0, model.Unknown
		for i, at := range b.Times {
			t, err := m.FieldType(b.Database, b.RetentionPolicy, b.Measurement, f, at)
			if err != nil {
				return err
			}
			if t != model.Unknown && t != b.Columns[j].Type && expr.ScalarAt(&b.Columns[j], i).Type != model.Unknown {
				dropped, has = dropped+1, t
			}
		}
		if dropped > 0 {
			rp := b.RetentionPolicy
			if rp == "" {
				rp = m.Catalog().Database(b.Database).DefaultRetentionPolicy
			}
			conflict = fmt.Errorf("partial write: field type conflict: input field \"%s\" on measurement \"%s\" is type %s, already exists as type %s dropped=%d for database: %s for retention policy: %s",
				f, b.Measurement, b.Columns[j].Type, has, dropped, b.Database, rp)
		}
	}
	for i, at := range b.Times {
		tags := append(model.Tags(nil), b.Tags...)
		for k, v := range b.TagColumns {
			if s := expr.ScalarAt(&v, i); s.Text != "" {
				tags = append(tags, model.Tag{Key: k, Value: s.Text})
			}
		}
		tags.Sort()
		values := map[string]scantest.Value{}
		for j, f := range b.Fields {
			if s := expr.ScalarAt(&b.Columns[j], i); s.Type != model.Unknown {
				values[f] = scantest.Value{Type: s.Type, Bits: s.Bits, Text: s.Text}
			}
		}
		if len(values) > 0 {
			m.Put(b.Database, b.RetentionPolicy, string(model.AppendSeriesKey(nil, b.Measurement, tags)), at, values)
		}
	}
	return conflict
}

func seriesJSON(s *result.Series, c *golden.Case) (any, error) {
	out := map[string]any{"name": s.Name}
	var cols []any
	for _, n := range s.Columns {
		cols = append(cols, n)
	}
	out["columns"] = cols
	if s.Tags != nil {
		tags := map[string]any{}
		for _, t := range s.Tags {
			tags[t.Key] = t.Value
		}
		out["tags"] = tags
	}
	if s.Partial {
		out["partial"] = true
	}
	loc, _ := time.LoadLocation(s.Zone)
	var rows []any
	for i := range s.Rows {
		row := make([]any, len(s.Columns))
		for j := range s.Columns {
			if j == s.Time {
				row[j] = timeJSON(s.Values[j].Ints[i], c.Params["epoch"], loc)
				continue
			}
			v, err := cellJSON(&s.Values[j], i)
			if err != nil {
				return nil, err
			}
			row[j] = v
			for _, m := range c.Mask {
				if m == s.Columns[j] {
					row[j] = "*"
				}
			}
		}
		rows = append(rows, row)
	}
	out["values"] = rows
	return out, nil
}

func timeJSON(t int64, epoch string, loc *time.Location) any {
	unit := int64(1)
	switch epoch {
	case "":
		return time.Unix(0, t).In(loc).Format(time.RFC3339Nano)
	case "u":
		unit = 1e3
	case "ms":
		unit = 1e6
	case "s":
		unit = 1e9
	case "m":
		unit = 60e9
	case "h":
		unit = 3600e9
	}
	return json.Number(strconv.FormatInt(t/unit, 10))
}

func cellJSON(v *column.Vector, i int) (any, error) {
	s := expr.ScalarAt(v, i)
	switch s.Type {
	case model.Float:
		f := partial.FloatOf(s.Bits)
		if f-f != 0 { // NaN or infinite
			return nil, nil
		}
		b, err := json.Marshal(f)
		if err != nil {
			return nil, err
		}
		return json.Number(b), nil
	case model.Integer:
		return json.Number(strconv.FormatInt(int64(s.Bits), 10)), nil
	case model.Unsigned:
		return json.Number(strconv.FormatUint(s.Bits, 10)), nil
	case model.String:
		return s.Text, nil
	case model.Boolean:
		return s.Bits == 1, nil
	}
	return nil, nil
}
