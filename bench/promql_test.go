package main

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/golang/snappy"

	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/prom"
	"tsdbd/prom/remote"
)

// TestPromRequests reads the requests as a server does.
func TestPromRequests(t *testing.T) {
	size := promSize{series: 600, span: time.Hour, step: time.Minute}
	want := size.generator()
	byKey, next := map[string]int{}, make([]int, size.series)
	key := func(core, host string) string { return core + " " + host }
	for i := range want {
		l := size.labels(i)
		byKey[key(l[1][1], l[3][1])] = i
	}
	total := 0
	err := size.requests(func(req promRequest) error {
		if req.fresh != (total < size.series) {
			t.Errorf("after %d samples of %d series: new is %v", total, size.series, req.fresh)
		}
		b, err := snappy.Decode(nil, req.body)
		if err != nil {
			return err
		}
		n := 0
		batch := &point.Batch{}
		rows := prom.Rows{Builder: point.NewBuilder(point.NewTable(1), batch)}
		_, err = remote.Write(b, &rows)
		for _, row := range batch.Rows {
			_, labels := model.ParseSeriesKey(row.Series.Key(), nil)
			of := map[string]string{}
			for _, l := range labels {
				of[l.Key] = l.Value
			}
			i, ok := byKey[key(of["core"], of["host"])]
			if !ok || of["__name__"] != promMetric || len(of) != 5 {
				t.Fatalf("labels are %v", labels)
			}
			at, value := int64(promStart*1000+next[i]*60_000+7_000), math.Float64frombits(batch.Values[row.First])
			if v := want[i].next(size.step); prom.Milliseconds(row.Time) != at || value != v {
				t.Fatalf("sample %d of series %d is %v at %d, want %v at %d", next[i], i, value, row.Time, v, at)
			}
			next[i]++
			n++
		}
		if n != req.samples {
			t.Errorf("%d samples, want %d", n, req.samples)
		}
		total += n
		return err
	})
	if err != nil || total != 600*60 {
		t.Errorf("%d samples, %v", total, err)
	}
}

// TestPromScrapes sends the same scrapes by both versions of remote write.
func TestPromScrapes(t *testing.T) {
	var have [2]map[string]float64
	for i := range have {
		size := promSize{series: 6 * promTarget, span: 9 * time.Second, step: 3 * time.Second, jobs: 2, two: i == 1}
		have[i] = map[string]float64{}
		err := size.requests(func(req promRequest) error {
			b, err := snappy.Decode(nil, req.body)
			if err != nil {
				return err
			}
			batch := &point.Batch{}
			rows := prom.Rows{Builder: point.NewBuilder(point.NewTable(1), batch)}
			if i == 0 {
				_, err = remote.Write(b, &rows)
			} else {
				_, err = remote.Write2(b, &rows)
			}
			for _, row := range batch.Rows {
				have[i][fmt.Sprintf("%s %d", row.Series.Key(), row.Time)] = math.Float64frombits(batch.Values[row.First])
			}
			return err
		})
		if err != nil || len(have[i]) != 3*size.series {
			t.Fatalf("%d samples, want %d: %v", len(have[i]), 3*size.series, err)
		}
	}
	if !maps.Equal(have[0], have[1]) {
		t.Error("the versions differ")
	}
}

// TestPromParts reads answers with labels, and those to the panels of a dashboard.
func TestPromParts(t *testing.T) {
	names, series := promQuery{path: "labels"}, promQuery{path: "series"}
	q := promQuery{panels: []promQuery{names, names, series}}
	read := func(answers ...string) promSamples {
		t.Helper()
		var all [][]byte
		for _, a := range answers {
			all = append(all, []byte(`{"status":"success","data":[`+a+`]}`))
		}
		f := &promFigure{}
		if err := f.read(q, all); err != nil {
			t.Fatal(err)
		}
		return f.first
	}
	want := read(`"a","b"`, `"c"`, `{"x":"1","y":"2"}`)
	if len(want) != 4 || q.promDiffers(read(`"b","a"`, `"c"`, `{"y":"2","x":"1"}`), want, false) != "" {
		t.Errorf("the order counts: %v", want)
	}
	for _, other := range []promSamples{
		read(`"a"`, `"b","c"`, `{"x":"1","y":"2"}`), read(`"a","b"`, `"c"`, `{"x":"1","y":"3"}`), read(`"a","b"`, `"c"`, ``),
	} {
		if q.promDiffers(other, want, false) == "" {
			t.Errorf("%v passes for %v", other, want)
		}
	}
}

func TestPromDiffers(t *testing.T) {
	parse := func(result string) promSamples {
		t.Helper()
		m, err := parsePromSamples([]byte(`{"status":"success","data":{"resultType":"matrix","result":[` + result + `]}}`))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	const two = `{"metric":{"a":"1"},"values":[[10,"1"],[20,"2"]]},{"metric":{"a":"2"},"values":[[10,"3"]]}`
	exact, rate := promQuery{expr: "x"}, promQuery{expr: "rate(x[1m])", roughly: true}
	for _, c := range []struct {
		q        promQuery
		got      string
		victoria bool
		want     string // part of the difference; empty: none
	}{
		{exact, two, false, ""},
		{exact, strings.Replace(two, `"3"`, `"3.0000000000001"`, 1), false, ""},
		{exact, strings.Replace(two, `"3"`, `"3.001"`, 1), false, "is 3.001, want 3"},
		{exact, strings.Replace(two, `"3"`, `"3.001"`, 1), true, "is 3.001, want 3"},
		{rate, strings.Replace(two, `"3"`, `"3.001"`, 1), false, "is 3.001, want 3"},
		{rate, strings.Replace(two, `"3"`, `"9"`, 1), true, ""},
		{rate, `{"metric":{"a":"1"},"values":[[10,"2"],[20,"4"]]},{"metric":{"a":"2"},"values":[[10,"3"]]}`, true, "half of the values"},
		{exact, strings.Replace(two, `,[20,"2"]`, ``, 1), false, "1 of 3 points are in one answer only"},
		{exact, strings.Replace(two, `[20,`, `[21,`, 1), false, "2 of 3 points are in one answer only"},
		{exact, strings.Replace(two, `"a":"2"`, `"a":"3"`, 1), false, `no series a="2"`},
		{exact, `{"metric":{"a":"1"},"values":[[10,"1"],[20,"2"]]}`, false, "1 series, want 2"},
		{promQuery{expr: "topk(1, x)", roughly: true}, ``, true, "no series"},
	} {
		d := c.q.promDiffers(parse(c.got), parse(two), c.victoria)
		if (d == "") != (c.want == "") || !strings.Contains(d, c.want) {
			t.Errorf("%s: %q, want %q", c.got, d, c.want)
		}
	}
	if d := exact.promDiffers(promSamples{}, promSamples{}, false); d == "" {
		t.Error("two empty answers pass")
	}
	if _, err := parsePromSamples([]byte(`{"status":"error","error":"x"}`)); err == nil {
		t.Error("an error passes")
	}
}

// TestPromRaw holds that a wrong value among all last samples is seen.
func TestPromRaw(t *testing.T) {
	size := promSize{series: 20, span: time.Hour, step: time.Minute}
	got := promSamples{}
	all := size.generator()
	for i := range all {
		var names []string
		for _, l := range size.labels(i)[1:] {
			names = append(names, l[0]+`="`+l[1]+`"`)
		}
		v := 0.0
		for range size.samples() {
			v = all[i].next(size.step)
		}
		got[strings.Join(names, ",")] = map[int64]float64{size.end(): v}
	}
	if d := size.promRaw(got); d != "" {
		t.Error(d)
	}
	got[`core="3",dc="dc0",host="host-0",job="node"`][size.end()]++
	if size.promRaw(got) == "" {
		t.Error("a wrong value passes")
	}
}

func TestPromReport(t *testing.T) {
	figure := func(server string, cpu time.Duration, wrong string) *promFigure {
		return &promFigure{server: server, cpu: 10 * cpu, asked: 10, bytes: 1000, wall: []time.Duration{cpu}, wrong: wrong}
	}
	ms := time.Millisecond
	r := newReport(&options{scale: 1}, nil)
	var b strings.Builder
	err := r.writeProm(&b, []*promResult{{size: promSizes[0], state: "now", queries: []*promFigures{
		{promQuery: promQuery{name: "good"}, of: []*promFigure{figure("tsdbd", 10*ms, ""), figure("prometheus", 20*ms, ""), figure("victoria-metrics", 10*ms, "")}},
		{promQuery: promQuery{name: "slow"}, of: []*promFigure{figure("tsdbd", 10*ms, ""), figure("prometheus", 19*ms, ""), figure("victoria-metrics", 5*ms, "")}},
		{promQuery: promQuery{name: "bad"}, of: []*promFigure{figure("tsdbd", ms, "not equal"), figure("prometheus", 20*ms, ""), figure("victoria-metrics", 10*ms, "wrong too")}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| good | tsdbd | 10 | 10 / 10 | 1.0 | 0 | 2.00 | 1.00 |", "| slow | tsdbd | 10 | 10 / 10 | 1.0 | 0 | 1.90 | **0.50** |",
		"| **0** |  |", "**wrong**: bad, tsdbd: not equal",
		"times better |\n|---|---|--:|--:|--:|\n| 1,000 series, 1 h at 15 s, now | slow, CPU ms | 10 | victoria-metrics 5 | 0.50 |\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, b.String())
		}
	}
}
