package prom

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
)

// TestStatement holds what matchers choose, as the SELECT of a remote read.
func TestStatement(t *testing.T) {
	const times = `time >= '1970-01-01T00:00:01Z' AND time <= '1970-01-01T00:00:02Z'`
	f := func(want string, matchers ...Matcher) {
		t.Helper()
		stmt, err := (&Query{Start: 1000, End: 2000, Matchers: matchers}).Statement("d", "p")
		got := fmt.Sprint(err)
		if err == nil {
			from, rest, _ := strings.Cut(strings.TrimPrefix(stmt.String(), "SELECT value::float FROM d.p."), " WHERE ")
			rest, found := strings.CutSuffix(rest, " GROUP BY *")
			if !found {
				t.Errorf("not grouped: %s", stmt)
			}
			got = from + " " + strings.TrimPrefix(strings.TrimSuffix(rest, times), " ")
		}
		if strings.TrimSpace(got) != want {
			t.Errorf("%v: %s, want %s", matchers, got, want)
		}
	}
	f(`/.*/`)
	f(`up`, Matcher{Equal, NameLabel, "up"})
	f(`/^(?:up|down)$/`, Matcher{Match, NameLabel, "up|down"})
	f(`up job::tag = 'a' AND`, Matcher{Equal, NameLabel, "up"}, Matcher{Equal, "job", "a"})
	f(`up job::tag != 'a' AND host::tag =~ /^(?:b.)$/ AND x::tag !~ /^(?:)$/ AND`,
		Matcher{NotEqual, "job", "a"}, Matcher{Equal, NameLabel, "up"}, Matcher{Match, "host", "b."}, Matcher{NotMatch, "x", ""})
	f(`/.*/ __name__::tag != 'up' AND`, Matcher{NotEqual, NameLabel, "up"})
	f(`up __name__::tag =~ /^(?:u.)$/ AND`, Matcher{Equal, NameLabel, "up"}, Matcher{Match, NameLabel, "u."})
	f(`/^(?:u.)$/ __name__::tag = 'up' AND`, Matcher{Match, NameLabel, "u."}, Matcher{Equal, NameLabel, "up"})
	f("a metric has a name", Matcher{Equal, NameLabel, ""})
	f("unknown match type: 4", Matcher{4, "a", "b"})
	f("error parsing regexp: missing closing ): `^(?:()$`", Matcher{Match, "a", "("})
	f("too many matchers", make([]Matcher, maxMatchers+1)...)
	if _, err := Select([]Matcher{{Match, "a", "(x{1000}){1000}"}}); err == nil {
		t.Error("an expression of any size is taken")
	}
	stmt, err := (&Query{Start: math.MinInt64, End: math.MaxInt64}).Statement("d", "")
	if err != nil || !strings.Contains(stmt.String(), `time >= '1677-09-21T00:12:43.146Z' AND time <= '2262-04-11T23:47:16.854Z'`) {
		t.Errorf("%v %v", stmt, err)
	}
}

// TestSeries stores series of labels and turns them back.
func TestSeries(t *testing.T) {
	f := func(labels, want string, samples ...Sample) {
		t.Helper()
		batch := &point.Batch{}
		rows := Rows{Builder: point.NewBuilder(point.NewTable(1), batch)}
		var tags model.Tags
		for pair := range strings.SplitSeq(labels, ",") {
			key, value, _ := strings.Cut(pair, "=")
			tags = append(tags, model.Tag{Key: key, Value: value})
		}
		if err := rows.Add(tags, samples); err != nil {
			t.Fatal(err)
		}
		var got []string
		for i, row := range batch.Rows {
			if i == 0 {
				name, tags := model.ParseSeriesKey(string(row.Series.Key()), nil)
				for key, value := range Labels(name, tags) {
					got = append(got, key+"="+value)
				}
			}
			if f := row.Layout.Fields; len(f) != 1 || f[0] != (column.Field{Key: ValueField, Type: model.Float}) {
				t.Errorf("fields %v", f)
			}
			got = append(got, fmt.Sprintf("%d:%v", Milliseconds(row.Time), math.Float64frombits(batch.Values[row.First])))
		}
		if rows.Refused > 0 {
			got = append(got, fmt.Sprintf("%d refused: %s", rows.Refused, rows.Reason))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: %s, want %s", labels, s, want)
		}
	}
	f("__name__=up,job=a,empty=", "__name__=up job=a 1000:1.5 -1:2", Sample{1.5, 1000}, Sample{2, -1})
	f("z=1,A=2,__name__=up", "A=2 __name__=up z=1 0:0", Sample{0, 0})
	f("job=a", "__name__=prom_metric_not_specified job=a 1:1", Sample{1, 1})
	f("A=a", "A=a __name__=prom_metric_not_specified 1:1", Sample{1, 1})
	f("__name__=up", "", Sample{math.NaN(), 1}, Sample{math.Inf(-1), 1})
	last := model.MaxTime / 1_000_000
	f("__name__=up", fmt.Sprintf("__name__=up %d:1 1 refused: time outside range %d - %d", last, model.MinTime, model.MaxTime), Sample{1, last}, Sample{1, last + 1})
	f("__name__=up,a=b,a=c", "2 refused: duplicate tag \"a\"", Sample{1, 1}, Sample{1, 2})
}
