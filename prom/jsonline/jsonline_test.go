package jsonline

import (
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"

	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/prom"
)

// read describes what Read makes of lines.
func read(text string, extra model.Tags) string {
	batch := &point.Batch{}
	rows := prom.Rows{Builder: point.NewBuilder(point.NewTable(1), batch)}
	left, err := Read([]byte(text), extra, &rows)
	var out []string
	for _, row := range batch.Rows {
		v := strconv.FormatFloat(math.Float64frombits(batch.Values[row.First]), 'g', -1, 64)
		if batch.Values[row.First] == staleMarker {
			v = "stale"
		}
		out = append(out, fmt.Sprintf("%s %s @%d", row.Series.Key(), v, prom.Milliseconds(row.Time)))
	}
	if rows.Refused > 0 {
		out = append(out, fmt.Sprintf("refused %d: %s", rows.Refused, rows.Reason))
	}
	if err != nil {
		out = append(out, err.Error())
	}
	if left.First != nil {
		out = append(out, fmt.Sprintf("%d bad, %v", left.Count, left.First))
	}
	return strings.Join(out, "\n")
}

func TestRead(t *testing.T) {
	f := func(text string, extra model.Tags, want ...string) {
		t.Helper()
		if got := read(text, extra); got != strings.Join(want, "\n") {
			t.Errorf("%s:\n%s\nwant\n%s", text, got, strings.Join(want, "\n"))
		}
	}
	const up, key = `{"metric":{"__name__":"up","job":"a"},"values":[1],"timestamps":[1000]}`, "up,__name__=up,job=a"
	f("", nil)
	f("\n\r\n"+up+"\r\n", nil, key+" 1 @1000")
	f(up+"\n"+up, nil, key+" 1 @1000", key+" 1 @1000")
	f(`{"metric":{"__name__":"up","job":"a"},"values":[null,"NaN","Infinity","-Infinity",-1.5e3,"Inf"],"timestamps":[1,2,3,4,-5,6]}`, nil,
		key+" stale @1", key+" NaN @2", key+" +Inf @3", key+" -Inf @4", key+" -1500 @-5", key+" +Inf @6")
	// As VictoriaMetrics 1.79 writes them.
	f(`{"metric":{"__name__":"up","job":"a\"+Inf,NaN"},"values":[+Inf,-Inf, NaN,1e+3],"timestamps":[1,2,3,4]}`, nil,
		`up,__name__=up,job=a"+Inf\,NaN +Inf @1`, `up,__name__=up,job=a"+Inf\,NaN -Inf @2`, `up,__name__=up,job=a"+Inf\,NaN NaN @3`, `up,__name__=up,job=a"+Inf\,NaN 1000 @4`)
	f(up, model.Tags{{Key: "job", Value: "b"}, {Key: "dc", Value: "x"}}, "up,__name__=up,dc=x,job=b 1 @1000")
	f(`{"values":[1],"timestamps":[1]}`, model.Tags{{Key: "__name__", Value: "x"}}, "x,__name__=x 1 @1")
	f(`{"metric":{"__name__":"up"},"values":[],"timestamps":[]}`, nil)
	f(`{"metric":{"__name__":"up","time":"x"},"values":[1,2],"timestamps":[1,2]}`, nil, `refused 2: invalid tag key: input tag "time" on measurement "up" is invalid`)
	for bad, want := range map[string]string{
		`{"metric":{"job":"a"},"values":[1],"timestamps":[1]}`:           "the metric has no __name__",
		`{"metric":{"__name__":"up"},"values":[1,2],"timestamps":[1]}`:   "2 values have 1 timestamps",
		`{"metric":{"__name__":"up"},"values":["1"],"timestamps":[1]}`:   `"1" is no value`,
		`{"metric":{"__name__":"up"},"values":[true],"timestamps":[1]}`:  `true is no value`,
		`{"metric":{"__name__":"up"},"values":[1e999],"timestamps":[1]}`: `1e999 is no value`,
		`{"metric":{"__name__":"up"},"values":[1],"timestamps":[1.5]}`:   "json: cannot unmarshal number 1.5 into Go struct field line.timestamps of type int64",
		`{"metric":{"__name__":"up"},"values":[1],"timestamps":[1]}}`:    "invalid character '}' after top-level value",
		`{"metric":{"__name__":7},"values":[1],"timestamps":[1]}`:        "json: cannot unmarshal number into Go struct field line.metric of type string",
		`up 1`: "invalid character 'u' looking for beginning of value",
	} {
		f(up+"\n"+bad+"\n"+bad+"\n"+up, nil, key+" 1 @1000", key+" 1 @1000", "2 bad, line 2: "+want)
	}
}

// sample is a sample of a test series.
type sample struct {
	t int64
	v float64
	h *histogram.Histogram
}

func (s sample) ST() int64                     { return 0 }
func (s sample) T() int64                      { return s.t }
func (s sample) F() float64                    { return s.v }
func (s sample) H() *histogram.Histogram       { return s.h }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Copy() chunks.Sample           { return s }
func (s sample) Type() chunkenc.ValueType {
	if s.h != nil {
		return chunkenc.ValHistogram
	}
	return chunkenc.ValFloat
}

func TestWriter(t *testing.T) {
	s := storage.NewListSeries(labels.FromStrings("__name__", "up", "job", `a "b"`), []chunks.Sample{
		sample{t: 1, v: 1.5},
		sample{t: 2, v: math.Float64frombits(staleMarker)},
		sample{t: 3, h: &histogram.Histogram{}},
		sample{t: 4, v: math.Inf(1)},
		sample{t: 5, v: math.Inf(-1)},
		sample{t: 6, v: 1e21},
	})
	f := func(rows int, want string) {
		t.Helper()
		var got strings.Builder
		w := NewWriter(rows, strconv.AppendQuote, func(line []byte) error { got.Write(line); return nil })
		if err := w.Add(s); err != nil || got.String() != want {
			t.Errorf("%d rows: %v %s, want %s", rows, err, got.String(), want)
		}
		const back = `up,__name__=up,job=a\ "b"`
		if read := read(got.String(), nil); read != back+" 1.5 @1\n"+back+" stale @2\n"+back+" +Inf @4\n"+back+" -Inf @5\n"+back+" 1e+21 @6" {
			t.Errorf("read back: %s", read)
		}
	}
	const metric = `{"metric":{"__name__":"up","job":"a \"b\""},"values":[`
	f(0, metric+`1.5,null,"Infinity","-Infinity",1e+21],"timestamps":[1,2,4,5,6]}`+"\n")
	f(2, metric+`1.5,null],"timestamps":[1,2]}`+"\n"+metric+`"Infinity","-Infinity"],"timestamps":[4,5]}`+"\n"+metric+`1e+21],"timestamps":[6]}`+"\n")
	empty := NewWriter(0, strconv.AppendQuote, func([]byte) error { t.Error("a line without samples"); return nil })
	if err := empty.Add(storage.NewListSeries(labels.FromStrings("a", "b"), nil)); err != nil {
		t.Error(err)
	}
}

// FuzzRead holds that no bytes make Read panic, and that every line is a series or bad.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"metric":{"__name__":"up","job":"a"},"values":[1,null,"Infinity"],"timestamps":[1000,2,3]}` + "\n{}\n"))
	f.Add([]byte("{\"metric\":{\"__name__\":\"\xff\"},\"values\":[1],\"timestamps\":[1]}\n\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		batch := &point.Batch{}
		rows := prom.Rows{Builder: point.NewBuilder(point.NewTable(1), batch)}
		left, err := Read(b, nil, &rows)
		if err != nil || (left.Count > 0) != (left.First != nil) || len(batch.Rows)+rows.Refused > len(b) {
			t.Errorf("%+v, %d rows, %d refused of %d bytes", left, len(batch.Rows), rows.Refused, len(b))
		}
	})
}

func TestParameters(t *testing.T) {
	f := func(query, want string) {
		t.Helper()
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		e, err := ParseExport(q)
		got := fmt.Sprintf("%d %d %d %q", e.Start, e.End, e.Rows, e.Match)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	f("match[]=up&match=down", `-9223372036854 9223372036854 0 ["up" "down"]`)
	f("match[]=up&start=1.5&end=2020-01-01T00:00:00Z&max_rows_per_line=7", `1500 1577836800000 7 ["up"]`)
	f("", "match[] is missing")
	f("match[]=up&format=csv", `format "csv" is not supported, leave it out for lines of JSON`)
	f("match[]=up&start=x", `start: "x" is neither seconds since 1970 nor a time such as 2006-01-02T15:04:05Z`)
	f("match[]=up&end=1e30", `end: "1e30" is neither seconds since 1970 nor a time such as 2006-01-02T15:04:05Z`)
	f("match[]=up&max_rows_per_line=-1", `max_rows_per_line must be a number, not "-1"`)
	tags, err := ExtraLabels(url.Values{"extra_label": {"a=b", "c=d=e"}})
	if err != nil || fmt.Sprint(tags) != "[{a b} {c d=e}]" {
		t.Error(tags, err)
	}
	for _, bad := range []string{"a", "=b"} {
		if _, err := ExtraLabels(url.Values{"extra_label": {bad}}); err == nil || err.Error() != fmt.Sprintf("extra_label must be NAME=VALUE, not %q", bad) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
