package engine

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/internal/testkit/script"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan/scantest"
	"tsdbd/query/engine/partial"
	"tsdbd/query/expr"
	"tsdbd/query/result"
	"tsdbd/query/syntax"
)

// TestSelectScripts runs the scripts of testdata/select. They show what SELECT
// answers and how it runs, for readers.
//
// The commands:
//
//	store shard=D chunk=N  begins with an empty storage: shards of D, chunks of N rows
//	load [RP]              writes the lines that follow, times in seconds
//	series NAME N ROWS     writes N series host=1..N with ROWS values v, 10 seconds apart
//	query [RP]             runs the SELECT that follows
//	plan [RP]              explains the SELECT that follows: its operators
//	analyze [RP]           runs the SELECT that follows: what its operators did, times as T
//
// The database is d, its default retention policy is autogen, and now() is
// 1970-01-03. A query prints its answer as the influx shell does, or the error. The
// test runs each query over chunks with and without statistics.
func TestSelectScripts(t *testing.T) {
	script.Run(t, "testdata/select/*.txt", func(t *testing.T) func(script.Command) []string {
		s := &selectScript{t: t}
		s.reset()
		return s.run
	})
}

// selectScript is the state of a script under way.
type selectScript struct {
	t     *testing.T
	m     *scantest.Store
	chunk int
}

// run carries out a command and returns the lines of its answer.
func (s *selectScript) run(c script.Command) []string {
	t, words, rest := s.t, c.Args, strings.Join(c.Input, "\n")
	rp := "autogen"
	if len(words) > 0 && c.Name != "store" && c.Name != "series" {
		rp = words[0]
	}
	switch c.Name {
	case "store":
		s.reset()
		for _, setting := range words {
			key, value, _ := strings.Cut(setting, "=")
			switch key {
			case "shard":
				d, err := influxql.ParseDuration(value)
				if err != nil {
					t.Fatal(setting, err)
				}
				s.m.ShardSpan = d
			case "chunk":
				s.chunk, _ = strconv.Atoi(value)
			default:
				t.Fatalf("unknown setting %q", setting)
			}
		}
	case "load":
		s.m.Create("d", "autogen")
		s.m.Create("d", rp)
		s.m.Write(t, "d", rp, "s", rest)
	case "series":
		hosts, _ := strconv.Atoi(words[1])
		rows, _ := strconv.Atoi(words[2])
		var lines strings.Builder
		for h := range hosts {
			for i := range rows {
				fmt.Fprintf(&lines, "%s,host=%d v=%d %d\n", words[0], h+1, h+i, 10*i)
			}
		}
		s.m.Create("d", "autogen")
		s.m.Write(t, "d", "autogen", "s", lines.String())
	case "plan", "analyze":
		s.m.ChunkRows, s.m.Stats, s.m.Steps = s.chunk, true, true
		return linesOf(s.plan(rest, rp, c.Name == "analyze"))
	case "query":
		var answers []string
		for _, plain := range []bool{false, true} {
			s.m.ChunkRows, s.m.Stats, s.m.Steps = s.chunk, true, true
			workers := 2
			if plain {
				s.m.ChunkRows, s.m.Stats, s.m.Steps, workers = 2, false, false, 1
			}
			answers = append(answers, s.answer(rest, rp, workers))
		}
		if answers[0] != answers[1] {
			t.Errorf("%s\nanswers\n%s\nand without statistics\n%s", rest, answers[0], answers[1])
		}
		return linesOf(answers[0])
	default:
		t.Fatalf("unknown command %q", c.Name)
	}
	return nil
}

// linesOf returns the lines of a text that has a line end before each.
func linesOf(text string) []string {
	return strings.Split(text, "\n")[1:]
}

// reset begins with an empty storage.
func (s *selectScript) reset() {
	s.m, s.chunk = scantest.New(), 1000
}

// options returns the options of a statement.
func (s *selectScript) options(workers int) Options {
	return Options{Workers: workers, Now: time.Unix(2*86400, 0).UTC()}
}

// parse parses a SELECT from a policy of the only database.
func (s *selectScript) parse(q, rp string) (*influxql.SelectStatement, error) {
	parsed, err := syntax.Parse(q, nil)
	if err != nil {
		return nil, err
	}
	stmt := parsed.Statements[0].(*influxql.SelectStatement)
	return stmt, syntax.Resolve(stmt, s.m.Catalog(), "d", rp)
}

// plan returns the tree of operators that EXPLAIN shows, each line after a line
// end. With analyze it is that of EXPLAIN ANALYZE, without its times.
func (s *selectScript) plan(q, rp string, analyze bool) string {
	stmt, err := s.parse(q, rp)
	if err != nil {
		return "\nerror: " + err.Error()
	}
	explain := Explain
	if analyze {
		explain = Analyze
	}
	lines, err := explain(context.Background(), stmt, s.m, s.options(1))
	if err != nil {
		return "\nerror: " + err.Error()
	}
	text := strings.Join(lines, "\n")
	_, text, _ = strings.Cut(text, "operators")
	if analyze {
		text, _, _ = strings.Cut(text, "\n    └── storage")
		text = strings.ReplaceAll(text, "\n    │   ", "\n")
		text = planTime.ReplaceAllString(text, "$1 T")
	}
	return text
}

// planTime finds the times of EXPLAIN ANALYZE.
var planTime = regexp.MustCompile(`(:|,) [0-9.]+(?:ns|µs|ms|s)\b`)

// answer returns the lines of an answer, each after a line end.
func (s *selectScript) answer(q, rp string, workers int) string {
	stmt, err := s.parse(q, rp)
	if err != nil {
		return "\nerror: " + err.Error()
	}
	opt := s.options(workers)
	opt.Into = func(_ context.Context, b *result.IntoBatch) error { return intoStore(s.m, b) }
	var out strings.Builder
	err = Select(context.Background(), stmt, s.m, opt, func(r *result.Result) error {
		for _, table := range r.Series {
			out.WriteString(tableText(table))
		}
		return nil
	})
	if err != nil {
		fmt.Fprintf(&out, "\nerror: %v", err)
	}
	return out.String()
}

// tableText prints a table as the influx shell does.
func tableText(s *result.Series) string {
	var out strings.Builder
	fmt.Fprintf(&out, "\nname: %s\n", s.Name)
	if len(s.Tags) > 0 {
		var tags []string
		for _, tag := range s.Tags {
			tags = append(tags, tag.Key+"="+tag.Value)
		}
		fmt.Fprintf(&out, "tags: %s\n", strings.Join(tags, ", "))
	}
	loc, _ := time.LoadLocation(s.Zone)
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(s.Columns, "\t"))
	for i := range s.Rows {
		for j := range s.Columns {
			if j > 0 {
				fmt.Fprint(w, "\t")
			}
			if j == s.Time {
				fmt.Fprint(w, time.Unix(0, s.Values[j].Ints[i]).In(loc).Format(time.RFC3339Nano))
			} else {
				fmt.Fprint(w, cellText(&s.Values[j], i))
			}
		}
		fmt.Fprintln(w)
	}
	w.Flush()
	return strings.TrimRight(out.String(), "\n")
}

// cellText prints a value, and a null as -.
func cellText(v *column.Vector, i int) string {
	s := expr.ScalarAt(v, i)
	switch s.Type {
	case model.Float:
		return strconv.FormatFloat(partial.FloatOf(s.Bits), 'g', -1, 64)
	case model.Integer:
		return strconv.FormatInt(int64(s.Bits), 10)
	case model.Unsigned:
		return strconv.FormatUint(s.Bits, 10)
	case model.String:
		return s.Text
	case model.Boolean:
		return strconv.FormatBool(s.Bits == 1)
	}
	return "-"
}
