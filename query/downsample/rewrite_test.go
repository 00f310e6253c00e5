package downsample

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/internal/testkit/script"
	"tsdbd/meta"
	"tsdbd/model/scan/scantest"
	"tsdbd/query/syntax"
)

// TestRewrite runs the scripts in testdata: which SELECTs take a downsample, and what they
// become. The commands are:
//
//	downsample INTO EVERY FUNCTIONS...   makes a downsample of the policy raw
//	write POLICY                         writes rows; times in hours
//	use off|expired|complete [HOURS]     for what, and up to where windows are computed
//	expire POLICY HOURS                  drops a shard group, of a day, by its age
//	keep POLICY HOURS                    how long the policy keeps rows
//	select                               one SELECT per line
func TestRewrite(t *testing.T) {
	script.Run(t, "testdata/*.txt", func(t *testing.T) func(script.Command) []string {
		store := scantest.New()
		store.ShardSpan = 24 * time.Hour
		for _, policy := range []string{"raw", "hours", "days"} {
			store.Create("d", policy)
		}
		opt := Options{Storage: store, Now: time.Unix(0, 0).Add(96 * time.Hour)}
		complete := int64(0)
		opt.Until = func(_ uint64, _ string, end int64) int64 { return min(end, complete) }
		hours := func(text string) time.Duration {
			n, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			return time.Duration(n) * time.Hour
		}
		apply := func(cmd meta.Command) {
			if err := store.Apply(t.Context(), cmd); err != nil {
				t.Fatalf("%+v: %v", cmd, err)
			}
		}
		return func(c script.Command) (out []string) {
			switch c.Name {
			case "downsample":
				every, err := time.ParseDuration(c.Args[1])
				if err != nil {
					t.Fatal(err)
				}
				apply(meta.CreateDownsample{Database: "d", From: "raw", Into: c.Args[0], Definitions: []meta.Definition{{Every: every, Functions: c.Args[2:], Where: strings.Join(c.Input, " ")}}})
			case "write":
				store.Write(t, "d", c.Args[0], "h", strings.Join(c.Input, "\n"))
			case "use":
				opt.Use = Use(c.Args[0])
				if len(c.Args) > 1 {
					complete = int64(hours(c.Args[1]))
				}
			case "expire":
				policy, err := store.Catalog().RetentionPolicy("d", c.Args[0])
				if err != nil {
					t.Fatal(err)
				}
				for _, g := range policy.ShardGroups {
					if g.Contains(int64(hours(c.Args[1]))) {
						apply(meta.DropShardGroup{Database: "d", RetentionPolicy: policy.Name, ID: g.ID, IfDuration: policy.Duration})
					}
				}
			case "keep":
				d := hours(c.Args[1])
				apply(meta.AlterRetentionPolicy{Database: "d", Policy: meta.RetentionPolicySpec{Name: c.Args[0], Duration: &d}})
			case "select":
				for _, text := range c.Input {
					out = append(out, rewritten(t, text, opt, store)...)
				}
			default:
				t.Fatalf("unknown command %q", c.Name)
			}
			return out
		}
	})
}

// rewritten says what a SELECT becomes.
func rewritten(t *testing.T, text string, opt Options, store *scantest.Store) []string {
	q, err := syntax.Parse(text, nil)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	st := q.Statements[0].(*influxql.SelectStatement)
	for _, s := range st.Sources { // as the executor does
		if m, ok := s.(*influxql.Measurement); ok {
			m.Database = "d"
			if m.RetentionPolicy == "" {
				m.RetentionPolicy = "raw"
			}
		}
	}
	before := st.String()
	opt.Catalog = store.Catalog()
	run, note, err := Rewrite(st, opt)
	switch {
	case err != nil:
		return []string{err.Error()}
	case st.String() != before:
		t.Errorf("the statement was changed: %s", st)
	case store.Views() != 0:
		t.Errorf("%s: a view is left", text)
	case run == nil && note != "":
		t.Errorf("%s: not rewritten, but %q", text, note)
	case run == nil:
		return []string{"no"}
	}
	if _, err := syntax.Parse(run.String(), nil); err != nil {
		t.Errorf("%s: %v", run, err)
	}
	// Nanoseconds of hours are easier to read as hours.
	words := strings.Fields(run.String())
	for i, w := range words {
		digits := strings.TrimRight(w, "),")
		if n, err := strconv.ParseInt(digits, 10, 64); err == nil && n != 0 && n%int64(time.Hour) == 0 {
			words[i] = strconv.FormatInt(n/int64(time.Hour), 10) + "h" + w[len(digits):]
		}
	}
	return []string{strings.ReplaceAll(strings.Join(words, " "), `"`, ""), "  " + note}
}
