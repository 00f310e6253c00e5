package query

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/scan/scantest"
	"tsdbd/query/admission"
	"tsdbd/query/expr"
	"tsdbd/query/result"
	"tsdbd/query/syntax"
)

// continuousStore is a store whose catalog holds continuous queries.
type continuousStore struct {
	*scantest.Store
	into int // calls
	rows int
}

func newContinuousStore(t *testing.T, queries ...string) (*continuousStore, *Executor) {
	t.Helper()
	c := &continuousStore{Store: scantest.New()}
	c.Create("d", "autogen")
	for i, q := range queries {
		mustOK(t, c.Apply(t.Context(), meta.CreateContinuousQuery{
			Database: "d", Name: fmt.Sprint("q", i), Query: fmt.Sprintf("CREATE CONTINUOUS QUERY q%d ON d BEGIN %s END", i, q),
		}))
	}
	e := New(Options{
		Storage: c, Admin: c,
		Now: func() time.Time { return time.Unix(10*24*3600+30, 0).UTC() },
		Into: func(_ context.Context, b *result.IntoBatch) error {
			c.into++
			c.rows += len(b.Times)
			return c.store(b)
		},
	})
	return c, e
}

// store writes what SELECT INTO gives.
func (c *continuousStore) store(b *result.IntoBatch) error {
	for i, at := range b.Times {
		values := map[string]scantest.Value{}
		for j, f := range b.Fields {
			if s := expr.ScalarAt(&b.Columns[j], i); s.Type != model.Unknown {
				values[f] = scantest.Value{Type: s.Type, Bits: s.Bits, Text: s.Text}
			}
		}
		c.Put(b.Database, b.RetentionPolicy, string(model.AppendSeriesKey(nil, b.Measurement, b.Tags)), at, values)
	}
	return nil
}

// shardEachDay makes the shard groups to come as long as a day.
func (c *continuousStore) shardEachDay(t *testing.T) {
	day := 24 * time.Hour
	mustOK(t, c.Apply(t.Context(), meta.AlterRetentionPolicy{Database: "d", Policy: meta.RetentionPolicySpec{Name: "autogen", ShardGroupDuration: &day}}))
}

// put writes a point every minute of the days from the epoch that are named.
func (c *continuousStore) put(t *testing.T, days ...int) {
	t.Helper()
	var lines strings.Builder
	for _, day := range days {
		for m := range 1440 {
			fmt.Fprintf(&lines, "m,h=a v=%d %d\n", m, day*86400+m*60)
		}
	}
	c.Write(t, "d", "", "s", lines.String())
}

func TestExecuteContinuous(t *testing.T) {
	c, e := newContinuousStore(t,
		"SELECT mean(v) INTO o0 FROM m WHERE time > now() - 1h GROUP BY time(1h), *",
		"SELECT cumulative_sum(mean(v)) INTO o1 FROM m GROUP BY time(1h)",
		"SELECT max(v) INTO o2 FROM m GROUP BY time(1d, 6h)",
		"SELECT max(v) INTO o3 FROM m GROUP BY time(1s)",
		"SELECT mean(*) INTO d.longer.:MEASUREMENT FROM d.autogen./.*/ GROUP BY time(1h), *",
	)
	mustOK(t, c.Apply(t.Context(), meta.CreateRetentionPolicy{Database: "d", Policy: meta.RetentionPolicySpec{Name: "longer"}}))
	c.put(t, 0, 1, 9)
	opt := ExecuteOptions{Database: "d"}
	for _, step := range []struct {
		q, want string
	}{
		// Windows that the range touches are computed whole.
		{"EXECUTE CONTINUOUS QUERY q0 ON d FROM 90m TO 3h", "result(time windows written): 0 2 2"},
		{"SELECT mean, h FROM o0", "o0(time mean h): 3600000000000 89.5 a; 7200000000000 149.5 a"},
		{"EXECUTE CONTINUOUS QUERY q0 ON d FROM '1970-01-01' TO '1970-01-11'", "result(time windows written): 0 240 72"},
		{"SELECT count(mean) FROM o0", "o0(time count): 0 72"},
		// The window that has ended last.
		{"EXECUTE CONTINUOUS QUERY q0 ON d", "result(time windows written): 0 1 1"},
		// Windows that depend on one another are run as the service runs them.
		{"EXECUTE CONTINUOUS QUERY q1 ON d FROM 0s TO 3h", "result(time windows written): 0 3 3"},
		{"SELECT cumulative_sum FROM o1", "o1(time cumulative_sum): 0 29.5; 3600000000000 89.5; 7200000000000 149.5"},
		{"EXECUTE CONTINUOUS QUERY q2 ON d FROM 0s TO 2d", "result(time windows written): 0 3 3"},
		// Into measurements of the same names.
		{"EXECUTE CONTINUOUS QUERY q4 ON d FROM 0s TO 2h", "result(time windows written): 0 2 6"},
		{"SELECT mean_v, h FROM d.longer.m", "m(time mean_v h): 0 29.5 a; 3600000000000 89.5 a"},
		{"EXECUTE CONTINUOUS QUERY q9 ON d", "error: continuous query not found: q9"},
		{"EXECUTE CONTINUOUS QUERY q0 ON nope", "error: database not found: nope"},
		{"EXECUTE CONTINUOUS QUERY q0 ON d FROM 2h TO 1h", "error: FROM must be before TO"},
		{"EXECUTE CONTINUOUS QUERY q0 ON d FROM v TO w", "error: invalid operation: time and *influxql.VarRef are not compatible"},
	} {
		if got := strings.Join(extendedRun(t, t.Context(), e, opt, step.q), "\n"); got != step.want {
			t.Errorf("%s\n got %s\nwant %s", step.q, got, step.want)
		}
	}

	// Ages without data cost nothing: 50 years of seconds.
	c.into = 0
	got := extendedRun(t, t.Context(), e, opt, "EXECUTE CONTINUOUS QUERY q3 ON d FROM '1970-01-20' TO '2020-01-01'")
	if want := "result(time windows written): 0 0 0"; got[0] != want || c.into != 0 {
		t.Errorf("got %s after %d writes, want %s", got[0], c.into, want)
	}

	// A run that ends early says what it has written; the rows written before it
	// noticed are bounded by the windows of one run.
	ctx, cancel := context.WithCancel(t.Context())
	c.rows = 0
	e.opt.Into = func(_ context.Context, b *result.IntoBatch) error {
		c.rows += len(b.Times)
		cancel()
		return nil
	}
	got = extendedRun(t, ctx, e, opt, "EXECUTE CONTINUOUS QUERY q1 ON d FROM 0s TO 2d")
	if !strings.Contains(got[0], "context canceled") || c.rows != 1 {
		t.Errorf("got %s after %d rows", got[0], c.rows)
	}

	// Less memory than the windows need at once means fewer windows at once.
	e.opt.Into = func(_ context.Context, b *result.IntoBatch) error { return c.store(b) }
	e.SetLimits(admission.Limits{MemoryBytes: 24 << 10})
	got = extendedRun(t, t.Context(), e, opt, "EXECUTE CONTINUOUS QUERY q3 ON d FROM 0s TO 1d")
	if want := "result(time windows written): 0 86400 1440"; got[0] != want {
		t.Errorf("got %s, want %s", got[0], want)
	}
}

// extendedRun is runContext for texts with extensions.
func extendedRun(t *testing.T, ctx context.Context, e *Executor, opt ExecuteOptions, text string) []string {
	t.Helper()
	q, err := syntax.Parse(text, nil)
	if err != nil {
		return []string{"error: " + err.Error()}
	}
	var lines []string
	mustOK(t, e.Execute(ctx, q, opt, func(r *result.Result) error {
		lines = append(lines, resultText(r))
		return nil
	}))
	return lines
}

// TestExecuteNeedsAdmin: it writes where the query was allowed to by whoever
// made it.
func TestExecuteNeedsAdmin(t *testing.T) {
	q, err := syntax.Parse("EXECUTE CONTINUOUS QUERY q ON d", nil)
	mustOK(t, err)
	needs := Needs(q.Statements[0], "")
	if len(needs) != 1 || !needs[0].Admin || !changesState(q.Statements[0]) {
		t.Errorf("needs %v", needs)
	}
	if _, err := q.Statements[0].RequiredPrivileges(); err == nil {
		t.Error("InfluxDB's way of asking for rights answers")
	}
	var _ influxql.Statement = q.Statements[0]
}

// A stored query may not read the names that InfluxDB keeps for itself.
func TestContinuousRefusesSystemSources(t *testing.T) {
	c, e := newContinuousStore(t, "SELECT mean(v) INTO o FROM _series GROUP BY time(1h)")
	c.Write(t, "d", "", "s", "m v=1 1")
	got := extendedRun(t, t.Context(), e, ExecuteOptions{Database: "d"}, "EXECUTE CONTINUOUS QUERY q0 ON d FROM 0s TO 1h")
	if !strings.Contains(got[0], "unable to use system source '_series': use SHOW SERIES instead") {
		t.Errorf("got %q", got)
	}
}
