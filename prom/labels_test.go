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
