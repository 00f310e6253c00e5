package main

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

// promQuery is a query of the workload.
type promQuery struct {
	name, expr string
	start, end int64         // s
	step       time.Duration // 0: an instant query at end
	// roughly says that VictoriaMetrics means something else by it, see promDiffers.
	roughly bool
	path    string      // of a request for labels of the series that expr selects; empty: PromQL
	panels  []promQuery // which are asked all at once
}

// parts are what the query asks, each on a connection of its own.
func (q promQuery) parts() []promQuery {
	if q.panels != nil {
		return q.panels
	}
	return []promQuery{q}
}

// queries are those of a size.
func (s promSize) queries() []promQuery {
	switch {
	case s.two:
		return nil // they were asked of the same series already
	case s.jobs > 1:
		return s.labelQueries()
	case s.jobs == 1:
		return []promQuery{s.dashboard()}
	}
	return s.metricQueries()
}

// promPanels is the number of panels of a dashboard.
const promPanels = 30

// dashboard is what a browser asks when it opens one.
func (s promSize) dashboard() promQuery {
	all := promQuery{name: fmt.Sprintf("%d panels at once: `sum by (instance) (rate)`", promPanels), roughly: true}
	for i := range promPanels {
		expr := fmt.Sprintf("sum by (instance) (rate(job0_metric_%03d[5m]))", i)
		all.panels = append(all.panels, promQuery{expr: expr, start: promStart + 300, end: s.end(), step: 15 * time.Second, roughly: true})
	}
	return all
}

// labelQueries are what Grafana asks for its variables and for the query builder, for names
// of labels, values and series, and queries without the name of a metric.
func (s promSize) labelQueries() []promQuery {
	var out []promQuery
	host, job := fmt.Sprintf(`{instance="host-%d:9100"}`, s.series/promTarget/3), `{job="job0"}`
	for _, q := range []promQuery{
		{name: "names of labels", path: "labels"},
		{name: "values of `instance`", path: "label/instance/values"},
		{name: "names of metrics", path: "label/__name__/values"},
		{name: "names of labels of one job", path: "labels", expr: job},
		{name: "values of `instance` of one metric", path: "label/instance/values", expr: "job0_metric_007"},
		{name: "names of metrics of one host", path: "label/__name__/values", expr: host},
		{name: "series of one host", path: "series", expr: host},
		{name: "instant: `count` of one host", expr: "count(" + host + ")"},
		{name: "instant: `count by (job)` of all", expr: `count by (job) ({__name__=~".+"})`},
	} {
		q.start, q.end = promStart, s.end()
		out = append(out, q)
	}
	return out
}

// metricQueries are those of promMetric.
func (s promSize) metricQueries() []promQuery {
	m, end := promMetric, s.end()
	window, step := "5m", time.Minute // as a panel of an hour has them
	if s.span > 24*time.Hour {
		window, step = "1h", time.Hour
	}
	host := fmt.Sprintf(`{host="host-%d"}`, s.series/promCores/3)
	some := fmt.Sprintf(`{host=~"host-%d."}`, s.series/promCores/20) // of a hundred series, or so
	var out []promQuery
	add := func(name, expr string, roughly bool, step time.Duration) {
		q := promQuery{name: name, expr: expr, start: promStart, end: end, step: step, roughly: roughly}
		if step > 0 {
			q.start += int64(step / time.Second) // the first window has samples
		}
		out = append(out, q)
	}
	raw := m
	if s.samples()*s.series > 1_000_000 { // the answer would have a gigabyte
		raw = m + some
	}
	rawStep := s.step
	if s.span > 24*time.Hour {
		rawStep = 5 * time.Minute
	}
	add("raw selector: `"+raw+"`", raw, false, rawStep)
	if s.series > 1000 {
		step = 5 * time.Minute
	}
	add("`rate`", fmt.Sprintf("rate(%s[%s])", m, window), true, step)
	add("`sum by (dc) (rate)`", fmt.Sprintf("sum by (dc) (rate(%s[%s]))", m, window), true, step)
	add("`sum by (dc) (rate)`, short windows", fmt.Sprintf("sum by (dc) (rate(%s[%dms]))", m, 4*s.step.Milliseconds()), true, step)
	add("`avg by (host) (max_over_time)`", fmt.Sprintf("avg by (host) (max_over_time(%s[%s]))", m, window), false, step)
	add("`quantile_over_time`", fmt.Sprintf("quantile_over_time(0.9, %s[%s])", m, window), false, step)
	add("`topk(5, rate)`", fmt.Sprintf("topk(5, rate(%s[%s]))", m, window), true, step)
	add("`count`", fmt.Sprintf("count(%s)", m), false, step)
	add("one host of many: `rate`", fmt.Sprintf("rate(%s%s[%s])", m, host, window), true, max(s.step, step/4))
	if s.span > 24*time.Hour {
		add("the last hour: `sum by (dc) (rate)`", fmt.Sprintf("sum by (dc) (rate(%s[5m]))", m), true, time.Minute)
		out[len(out)-1].start = end - 3600
		add("the last hour of one host: `rate`", fmt.Sprintf("rate(%s%s[5m])", m, host), true, time.Minute)
		out[len(out)-1].start = end - 3600
	}
	one := fmt.Sprintf(`%s{core="3",host="host-%d"}`, m, s.series/promCores/3)
	add("one series", one, false, s.step)
	out[len(out)-1].start = end - 3600 + int64(s.step/time.Second)
	add("instant: one series", one, false, 0)
	add("instant: raw selector", m, false, 0)
	add("instant: `sum by (dc) (rate)`", fmt.Sprintf("sum by (dc) (rate(%s[%s]))", m, window), true, 0)
	add("instant: `quantile_over_time`", fmt.Sprintf("quantile_over_time(0.9, %s[%s])", m, window), false, 0)
	add("instant: `topk(5, rate)`", fmt.Sprintf("topk(5, rate(%s[%s]))", m, window), true, 0)
	add("instant: one host of many", m+host, false, 0)
	return out
}

// request returns what asks a server the query.
func (q promQuery) request(p *product, db string) (path string, params url.Values) {
	params = url.Values{}
	switch p.name {
	case "tsdbd":
		params.Set("db", db)
	case "victoria-metrics":
		params.Set("nocache", "1")
	}
	if q.path == "" {
		params.Set("query", q.expr)
	} else if q.expr != "" {
		params.Set("match[]", q.expr)
	}
	if q.path == "" && q.step == 0 {
		params.Set("time", strconv.FormatInt(q.end, 10))
		return "/api/v1/query", params
	}
	params.Set("start", strconv.FormatInt(q.start, 10))
	params.Set("end", strconv.FormatInt(q.end, 10))
	if q.path != "" {
		return "/api/v1/" + q.path, params
	}
	params.Set("step", strconv.FormatFloat(q.step.Seconds(), 'g', -1, 64))
	return "/api/v1/query_range", params
}

// promSamples is an answer: values by the text of the labels and by the time. The name
// of the metric is not among them: VictoriaMetrics keeps it where Prometheus does not.
type promSamples map[string]map[int64]float64

// parse reads the answer to a query. Labels are samples of the value 0.
func (q promQuery) parse(b []byte) (promSamples, error) {
	if q.path == "" {
		return parsePromSamples(b)
	}
	var doc struct{ Data []json.RawMessage }
	if err := json.Unmarshal(b, &doc); err != nil {
		return nil, err
	}
	out := promSamples{}
	for _, text := range doc.Data {
		var v any // a text, or labels, which print in order
		if err := json.Unmarshal(text, &v); err != nil {
			return nil, err
		}
		out[fmt.Sprint(v)] = map[int64]float64{0: 0}
	}
	return out, nil
}

func parsePromSamples(b []byte) (promSamples, error) {
	m, err := parseMatrix(b)
	if err != nil {
		return nil, err
	}
	out := promSamples{}
	for _, s := range m {
		var names []string
		for k, v := range s.Metric {
			if k != "__name__" {
				names = append(names, k+"="+strconv.Quote(v))
			}
		}
		sort.Strings(names)
		key := strings.Join(names, ",")
		if out[key] != nil {
			return nil, fmt.Errorf("%s is in the answer twice", key)
		}
		values := map[int64]float64{}
		for _, v := range s.Values {
			values[v.time] = v.value
		}
		if s.Values == nil {
			values[s.Value.time] = s.Value.value
		}
		out[key] = values
	}
	return out, nil
}

// Tolerances between servers. Sums that are added up in another order differ by the
// last digits. The rate of VictoriaMetrics begins with the last sample before the
// window and does not extrapolate. So a point may differ much, and the middle one may
// not.
const (
	promLastDigits = 1e-9
	promRoughly    = 0.25
	promPoints     = 0.05 // share of the points that only one has, at the edges
)

// promDiffers says how an answer differs from that of another server by more than is
// known of the two; "" if it does not.
func (q promQuery) promDiffers(got, want promSamples, victoria bool) string {
	top := strings.HasPrefix(q.expr, "topk")
	if len(want) == 0 {
		return "no series to compare with"
	}
	if victoria && q.roughly && top { // which ones are the highest depends on what a rate is
		if len(got) == 0 {
			return "no series"
		}
		return ""
	}
	if len(got) != len(want) {
		return fmt.Sprintf("%d series, want %d", len(got), len(want))
	}
	var ratios []float64
	points, missing := 0, 0
	for name, w := range want {
		g := got[name]
		if g == nil {
			return "no series " + name
		}
		for at, v := range w {
			points++
			other, ok := g[at]
			if !ok {
				missing++
				continue
			}
			off := math.Abs(other-v) / max(math.Abs(v), 1e-9)
			if !(victoria && q.roughly) && off > promLastDigits {
				return fmt.Sprintf("%s at %d is %v, want %v", name, at, other, v)
			}
			ratios = append(ratios, off)
		}
		for at := range g {
			if _, ok := w[at]; !ok {
				missing++
			}
		}
	}
	allowed := 0
	if victoria {
		allowed = int(promPoints*float64(points)) + len(want)
	}
	if missing > allowed {
		return fmt.Sprintf("%d of %d points are in one answer only", missing, points)
	}
	slices.Sort(ratios)
	if len(ratios) > 0 && ratios[len(ratios)/2] > promRoughly {
		return fmt.Sprintf("half of the values differ by %.0f %% or more", 100*ratios[len(ratios)/2])
	}
	return ""
}

// promRaw says how the answer to an instant query for all series differs from what was
// written; "" if it does not.
func (s promSize) promRaw(got promSamples) string {
	if len(got) != s.series {
		return fmt.Sprintf("%d series, want %d", len(got), s.series)
	}
	all := s.generator()
	for i := range all {
		var names []string
		for _, l := range s.labels(i)[1:] {
			names = append(names, l[0]+"="+strconv.Quote(l[1]))
		}
		last := 0.0
		for range s.samples() {
			last = all[i].next(s.step)
		}
		if v, ok := got[strings.Join(names, ",")][s.end()]; !ok || v != last {
			return fmt.Sprintf("%v is %v, want %v", names, v, last)
		}
	}
	return ""
}
