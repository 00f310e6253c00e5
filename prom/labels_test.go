package prom

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
)

// TestSeries stores series of labels and turns them back.
func TestSeries(t *testing.T) {
	f := func(pairs, want string, values ...any) {
		t.Helper()
		batch := &point.Batch{}
		rows := Rows{Builder: point.NewBuilder(point.NewTable(1), batch)}
		var tags model.Tags
		for pair := range strings.SplitSeq(pairs, ",") {
			key, value, _ := strings.Cut(pair, "=")
			tags = append(tags, model.Tag{Key: key, Value: value})
		}
		var samples []Sample
		var histograms []Histogram
		for _, v := range values {
			switch v := v.(type) {
			case Sample:
				samples = append(samples, v)
			case Histogram:
				histograms = append(histograms, v)
			}
		}
		if err := rows.Add(tags, samples, histograms); err != nil {
			t.Fatal(err)
		}
		var got []string
		for i, row := range batch.Rows {
			if i == 0 {
				name, tags := model.ParseSeriesKey(string(row.Series.Key()), nil)
				b := labels.NewScratchBuilder(0)
				Labels(&b, name, tags).Range(func(l labels.Label) { got = append(got, l.Name+"="+l.Value) })
			}
			s := fmt.Sprintf("%d:", Milliseconds(row.Time))
			for j, field := range row.Layout.Fields {
				word := batch.Values[int(row.First)+j]
				switch field {
				case column.Field{Key: ValueField, Type: model.Float}:
					s += fmt.Sprint(math.Float64frombits(word))
					if v := math.Float64frombits(word); v != v {
						s += fmt.Sprintf("(%x)", word)
					}
				case column.Field{Key: StartField, Type: model.Integer}:
					s += fmt.Sprintf("since%d", int64(word))
				case column.Field{Key: HistogramField, Type: model.String}:
					h, err := ParseHistogram(string(column.StringAt(word, batch.Strings)))
					if err != nil {
						t.Error(err)
					}
					s += fmt.Sprint(h.Int, h.Float)
				default:
					t.Errorf("field %v", field)
				}
			}
			got = append(got, s)
		}
		if rows.Refused > 0 {
			got = append(got, fmt.Sprintf("%d refused: %s", rows.Refused, rows.Reason))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: %s, want %s", pairs, s, want)
		}
	}
	f("__name__=up,job=a,empty=", "__name__=up job=a 1000:1.5 -1:2", Sample{Value: 1.5, Time: 1000}, Sample{Value: 2, Time: -1})
	f("z=1,A=2,__name__=up", "A=2 __name__=up z=1 0:0", Sample{Value: 0, Time: 0})
	f("job=a", "__name__=prom_metric_not_specified job=a 1:1", Sample{Value: 1, Time: 1})
	f("A=a", "A=a __name__=prom_metric_not_specified 1:1", Sample{Value: 1, Time: 1})
	f("__name__=up", "__name__=up 1:NaN(7ff0000000000002) 2:NaN(7ff8000000000001) 3:-Inf 4:+Inf 5:-0",
		Sample{Value: math.Float64frombits(value.StaleNaN), Time: 1}, Sample{Value: math.NaN(), Time: 2},
		Sample{Value: math.Inf(-1), Time: 3}, Sample{Value: math.Inf(1), Time: 4}, Sample{Value: math.Copysign(0, -1), Time: 5})
	f("__name__=up", "__name__=up 7:1since-5 8:2since6", Sample{Value: 1, Time: 7, Start: -5}, Sample{Value: 2, Time: 8, Start: 6})
	integer := &histogram.Histogram{Count: 3, ZeroCount: 1, Sum: 2, PositiveSpans: []histogram.Span{{Length: 2}}, PositiveBuckets: []int64{1, 0}}
	float := &histogram.FloatHistogram{Count: 1.5, ZeroCount: 1.5, Schema: 1}
	f("__name__=up", "__name__=up 1:1 2:"+integer.String()+" <nil>since1 3:<nil> "+float.String(),
		Sample{Value: 1, Time: 1}, Histogram{Int: integer, Time: 2, Start: 1}, Histogram{Float: float, Time: 3})
	fine := &histogram.Histogram{Schema: 9, Count: 2, PositiveSpans: []histogram.Span{{Offset: 1, Length: 2}}, PositiveBuckets: []int64{1, 0}}
	f("__name__=up", `__name__=up 1:{count:2, sum:0, (1,1.0027112750502025]:2} <nil>`, Histogram{Int: fine, Time: 1})
	if fine.Schema != 9 || len(fine.PositiveBuckets) != 2 {
		t.Errorf("the caller's histogram has changed: %v", fine)
	}
	f("__name__=up", "__name__=up 4:1 5 refused: histogram without counts", Sample{Value: 1, Time: 4}, Histogram{}, Histogram{Int: integer, Float: float},
		Histogram{Int: &histogram.Histogram{Count: 1}}, Histogram{Float: &histogram.FloatHistogram{Count: -1}}, Histogram{Int: &histogram.Histogram{Schema: 53}})
	f("__name__=up,a=b,a=c", "3 refused: duplicate tag \"a\"", Sample{Value: 1, Time: 1}, Histogram{Int: integer}, Histogram{})
	last := model.MaxTime / 1_000_000
	f("__name__=up", fmt.Sprintf("__name__=up %d:1 1 refused: time outside range %d - %d", last, model.MinTime, model.MaxTime), Sample{Value: 1, Time: last}, Sample{Value: 1, Time: last + 1})
	f("__name__=up,a=b,a=c", "2 refused: duplicate tag \"a\"", Sample{Value: 1, Time: 1}, Sample{Value: 1, Time: 2})
}
