package downsample

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"tsdbd/internal/quantiles"
	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/prom/engine"
	"tsdbd/prom/stored"
	"tsdbd/query/admission"
	"tsdbd/query/downsample"
)

// answer is the value of a query in PromQL: by labels and time.
type answer map[string]map[int64]float64

func (a answer) add(labels string, at int64, v float64) {
	if a[labels] == nil {
		a[labels] = map[int64]float64{}
	}
	a[labels][at] = v
}

func (a answer) Begin(parser.ValueType) error { return nil }
func (a answer) Sample(s *promql.Sample) error {
	a.add(s.Metric.String(), s.T, s.F)
	return nil
}

func (a answer) Series(s *promql.Series) error {
	for _, p := range s.Floats {
		a.add(s.Metric.String(), p.T, p.F)
	}
	return nil
}
func (a answer) Scalar(promql.Scalar) error { return nil }
func (a answer) String(promql.String) error { return nil }

// promql returns an engine over the store.
func (h *harness) promql() *engine.Engine {
	memory := admission.NewMemory(1 << 30)
	h.t.Cleanup(func() {
		if n := memory.Used(); n != 0 {
			h.t.Errorf("%d bytes are charged", n)
		}
	})
	return engine.New(engine.Options{
		Storage: h.store, Memory: memory, Queries: admission.NewQueries(admission.Limits{MemoryBytes: 1 << 29}, memory, slog.New(slog.DiscardHandler)),
		Limits: engine.Limits{Experimental: true},
		Unused: func() {},
		Downsamples: func(use downsample.Use) stored.Downsamples {
			if use == downsample.Off {
				return nil
			}
			use = cmp.Or(use, downsample.Expired)
			return &downsample.Chooser{Use: use, Catalog: h.store.Catalog(), Now: h.now, Until: h.store.Touched().Until}
		},
	})
}

// evaluate answers a query over a policy, at times in milliseconds.
func (h *harness) evaluate(e *engine.Engine, use downsample.Use, policy, expr string, start, end, step int64) (answer, *engine.Outcome) {
	h.t.Helper()
	out := answer{}
	told, err := e.Run(h.t.Context(), &engine.Request{
		Access: engine.Access{DB: "d", RP: policy, Downsamples: use}, Expr: expr,
		Start: time.UnixMilli(start), End: time.UnixMilli(end), Step: time.Duration(step) * time.Millisecond,
	}, out)
	if err != nil {
		h.t.Fatalf("%s: %v", expr, err)
	}
	return out, told
}

const hourMs = int64(3600_000)

// TestPromQLModel: a query in PromQL has the values that the samples would give, at the end of
// the latest whole window, where windows stand for samples that expired. A policy that keeps
// all of them is the judge.
func TestPromQLModel(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testseed.Of(t), 2))
	pick := func(list ...string) string { return list[rnd.IntN(len(list))] }
	const days = 6
	used := 0
	for range 3 {
		h := newHarness(t)
		h.now = time.Unix(0, 0).Add(days*24*time.Hour + 10*time.Minute)
		h.must("CREATE DATABASE d WITH SHARD DURATION 1d NAME raw; CREATE RETENTION POLICY shadow ON d DURATION INF REPLICATION 1 SHARD DURATION 1d; " +
			"CREATE RETENTION POLICY hours ON d DURATION INF REPLICATION 1 SHARD DURATION 2d; CREATE RETENTION POLICY days ON d DURATION INF REPLICATION 1 SHARD DURATION 7d")
		write := func(lines string) {
			for _, policy := range []string{"raw", "shadow"} {
				if err := h.load(policy, lines); err != nil {
					t.Fatal(err)
				}
			}
		}
		var lines strings.Builder
		for s := range 5 {
			at, gap, v := rnd.IntN(days*24*3600/2), 1+rnd.IntN(900), 0.
			for end := at + rnd.IntN(days*24*3600); at < min(end, days*24*3600); at += 1 + rnd.IntN(2*gap) {
				if v += float64(rnd.IntN(10)); rnd.IntN(50) == 0 {
					v = float64(rnd.IntN(3))
				}
				if rnd.IntN(300) == 0 {
					at += rnd.IntN(9 * 3600)
				}
				fmt.Fprintf(&lines, "m,s=%d value=%g,other=%di,flag=%t,text=\"x\" %d\n", s, v, rnd.IntN(9), rnd.IntN(2) == 0, at)
			}
		}
		write(lines.String())
		h.must("CREATE DOWNSAMPLE ON d FROM raw INTO hours EVERY 1h AS mean, max, min, first, last, percentile; " +
			"CREATE DOWNSAMPLE ON d FROM " + pick("raw", "hours") + " INTO days EVERY 1d AS mean, max, min, first, last, percentile")
		if err := h.settle(); err != nil {
			t.Fatal(err)
		}
		for range 20 { // late ones
			write(fmt.Sprintf("m,s=%d value=%d %d\n", rnd.IntN(6), rnd.IntN(99), rnd.IntN(days*24*3600)))
		}
		if err := h.settle(); err != nil {
			t.Fatal(err)
		}
		h.must("ALTER RETENTION POLICY raw ON d DURATION 3d")
		for range 3 {
			if err := h.expire("raw"); err != nil {
				t.Fatal(err)
			}
		}
		e := h.promql()
		for range 150 {
			use, stored := downsample.Expired, 3*24*hourMs
			if rnd.IntN(3) == 0 {
				use, stored = downsample.Complete, days*24*hourMs
			}
			function := pick("", "last_over_time", "first_over_time", "min_over_time", "max_over_time", "sum_over_time", "avg_over_time", "count_over_time", "present_over_time", "quantile_over_time")
			metric := pick("m", "m", "m_other", "m_flag", "{__name__=~'m.*'}", "m{s=~'[0-2]'}", "m_text")
			if metric == "m_flag" && slices.Contains([]string{"min_over_time", "max_over_time", "sum_over_time", "avg_over_time", "quantile_over_time"}, function) {
				metric = "m" // aggregates of booleans are not kept
			}
			if strings.Contains(metric, "=~'m") && !slices.Contains([]string{"", "last_over_time", "first_over_time"}, function) {
				metric = "m"
			}
			span, step := int64(1+rnd.IntN(30))*hourMs, int64(1+rnd.IntN(4*3600))*1000
			switch {
			case rnd.IntN(8) == 0:
				span, step = int64(1+rnd.IntN(3))*24*hourMs, int64(1+rnd.IntN(2))*24*hourMs
			case rnd.IntN(2) == 0 || function == "":
				step = (1 + int64(rnd.IntN(12))) * hourMs
			}
			start := int64(rnd.IntN(days * 24 * 3600 * 1000))
			end := start + step*int64(rnd.IntN(40))
			if rnd.IntN(4) == 0 {
				end = start
			}
			offset, suffix, at := int64(0), "", int64(-1)
			switch rnd.IntN(4) {
			case 0:
				offset = int64(rnd.IntN(24)) * hourMs / 2
				suffix = fmt.Sprintf(" offset %dms", offset)
			case 1:
				at = int64(rnd.IntN(days * 24 * 3600))
				suffix, at = fmt.Sprintf(" @ %d", at), at*1000
			}
			every := hourMs // the longest windows that are not longer than a step
			if step >= 24*hourMs && start < end && at < 0 && (function == "" || span%(24*hourMs) == 0) {
				every *= 24
			}
			if start == end || at >= 0 || step < hourMs || function == "quantile_over_time" { // windows are too long for more than what is lost
				stored = 3 * 24 * hourMs
			}
			expr, judge := metric+suffix, fmt.Sprintf("last_over_time(%s[%dms])", metric, every)
			lookback := 5 * hourMs / 60
			if function != "" {
				call := function + "("
				if function == "quantile_over_time" {
					call += pick("0", "0.05", "0.5", "0.95", "0.999", "1") + ", "
				}
				expr, judge = fmt.Sprintf("%s%s[%dms]%s)", call, metric, span, suffix), fmt.Sprintf("%s%s[%dms])", call, metric, span)
				lookback = span
			}
			around := pick("", "", "", "sum by (s) (%s)", "sum(topk(2, %s))", "label_replace(%s, 'a', '$1', 's', '(.*)')", "1 + %s", "absent(%s)")
			switch {
			case around == "", strings.Contains(metric, "=~'m"), // which have the same labels without their names
				at >= 0 && strings.HasPrefix(around, "label"), around == "absent(%s)" && function != "": // which are for Prometheus' engine
				around = "%s"
			}
			got, told := h.evaluate(e, use, "raw", fmt.Sprintf(around, expr), start, end, step)
			want := answer{}
			some, estimates := false, map[int64]bool{}
			for k := start; k <= end; k += step {
				read := k - offset
				if at >= 0 {
					read = at
				}
				as, of := read, judge
				switch {
				case read-lookback+1 < stored:
					as = (read+1)/every*every - 1
					some, estimates[k] = true, function == "quantile_over_time"
				case function == "":
					of = metric
				}
				one, _ := h.evaluate(e, downsample.Off, "shadow", fmt.Sprintf(around, of), as, as, 0)
				for labels, samples := range one {
					want.add(labels, k, samples[as])
				}
			}
			if some {
				used++
			}
			if diff := differs(got, want, estimates); diff != "" {
				t.Fatalf("%s of %s from %d to %d by %d, %s: %s\ntold %v %v", expr, around, start, end, step, use, diff, told.Warnings, told.Infos)
			}
			if len(told.Warnings) > 0 {
				t.Fatalf("%s: %v", expr, told.Warnings)
			}
		}
	}
	t.Logf("%d queries with windows", used)
	if used < 100 {
		t.Errorf("only %d queries take windows", used)
	}
}

// differs returns the first value that differs by more than the last digits, or of estimates by more
// than what docs allow.
func differs(got, want answer, estimates map[int64]bool) string {
	for _, labels := range slices.Sorted(maps.Keys(want)) {
		for at, v := range want[labels] {
			has, ok := got[labels][at]
			share := 1e-12
			if estimates[at] {
				share += quantiles.Error
			}
			if !ok || !(math.Abs(has-v) <= share*math.Abs(v)) {
				return fmt.Sprintf("%s at %d: %g (%t), want %g", labels, at, has, ok, v)
			}
		}
	}
	for labels, samples := range got {
		for at, v := range samples {
			if _, ok := want[labels][at]; !ok {
				return fmt.Sprintf("%s at %d: %g, want nothing", labels, at, v)
			}
		}
	}
	return ""
}

// TestPromQLWith: functions of single fields answer for these fields.
func TestPromQLWith(t *testing.T) {
	h := newHarness(t)
	h.now = time.Unix(0, 0).Add(4 * 24 * time.Hour)
	h.must("CREATE DATABASE d WITH SHARD DURATION 1d NAME raw; CREATE RETENTION POLICY hours ON d DURATION INF REPLICATION 1; CREATE RETENTION POLICY days ON d DURATION INF REPLICATION 1")
	var lines strings.Builder
	for at := 0; at < 4*24*60; at += 5 {
		fmt.Fprintf(&lines, "net,s=1 bytes=%d,speed=%d,errors=%d %d\n", at, at%7, at/3, at*60)
	}
	if err := h.load("raw", lines.String()); err != nil {
		t.Fatal(err)
	}
	h.must("CREATE DOWNSAMPLE ON d FROM raw WITH bytes max, speed max, speed min INTO hours EVERY 1h AS count; CREATE DOWNSAMPLE ON d FROM raw WITH speed sum INTO days EVERY 1d")
	if err := h.settle(); err != nil {
		t.Fatal(err)
	}
	h.must("ALTER RETENTION POLICY raw ON d DURATION 2d")
	for range 2 {
		if err := h.expire("raw"); err != nil {
			t.Fatal(err)
		}
	}
	e := h.promql()
	const at = 24*hourMs - 1
	for _, c := range []struct {
		expr, lost string
		want       float64
	}{
		{"max_over_time(net_bytes[2h])", "", 24*60 - 5},
		{"max_over_time(net_speed[2h])", "", 6},
		{"min_over_time(net_speed[2h])", "", 0},
		{"count_over_time(net_errors[2h])", "", 24},
		{"sum_over_time(net_speed[1d])", "", 861},
		{"max_over_time(net_errors[2h])", "does not keep max", 0},
		{"min_over_time(net_bytes[2h])", "does not keep min of bytes", 0},
		{"count_over_time(net_bytes[2h])", "does not keep count of bytes", 0},
		{"sum_over_time(net_bytes[1d])", "does not keep sum", 0},
		{"max_over_time({__name__=~'net_.*'}[2h])", "does not keep max of errors", 0},
	} {
		got, told := h.evaluate(e, downsample.Expired, "raw", c.expr, at, at, 0)
		v, n := 0.0, 0
		for _, samples := range got {
			v, n = samples[at], n+1
		}
		if warnings := strings.Join(told.Warnings, "; "); v != c.want || n > 1 || (n == 1) != (c.lost == "") || !strings.Contains(warnings, c.lost) || (warnings == "") != (c.lost == "") {
			t.Errorf("%s: %v, warnings %q", c.expr, got, warnings)
		}
	}
}

// TestPromQLNotes: an answer says which samples are from which downsample, and why others are
// lost.
func TestPromQLNotes(t *testing.T) {
	h := newHarness(t)
	h.now = time.Unix(0, 0).Add(4 * 24 * time.Hour)
	h.must("CREATE DATABASE d WITH SHARD DURATION 1d NAME raw; CREATE RETENTION POLICY hours ON d DURATION INF REPLICATION 1; CREATE RETENTION POLICY few ON d DURATION INF REPLICATION 1")
	var lines strings.Builder
	for at := 0; at < 4*24*60; at += 5 {
		fmt.Fprintf(&lines, "m,s=1 value=%d,on=true,text=\"x\" %d\n", at, at*60)
	}
	lines.WriteString("old,host=a value=7 3600\n")
	if err := h.load("raw", lines.String()); err != nil {
		t.Fatal(err)
	}
	h.must("CREATE DOWNSAMPLE ON d FROM raw INTO hours EVERY 1h AS mean, max, last, percentile; CREATE DOWNSAMPLE ON d FROM raw./m/ INTO few EVERY 2h GROUP BY () AS min")
	if err := h.settle(); err != nil {
		t.Fatal(err)
	}
	h.must("ALTER RETENTION POLICY raw ON d DURATION 2d")
	for range 2 {
		if err := h.expire("raw"); err != nil {
			t.Fatal(err)
		}
	}
	e := h.promql()
	const day = 24 * hourMs
	none := "samples of raw from 1970-01-01T01:00:00Z to 1970-01-03T00:00:00Z are lost, and the downsample hours does not answer for them: "
	for _, c := range []struct {
		use        downsample.Use
		expr       string
		start      int64
		step       int64
		info, lost string
		values     int
	}{
		{downsample.Expired, "max_over_time(m[1h])", 2 * hourMs, day, "samples of raw from 1970-01-01T01:00:00Z to 1970-01-02T02:00:00Z are from the downsample hours, in windows of 1h", "", 3},
		{downsample.Expired, "max_over_time(m[1h])", 3*day + 2*hourMs, day, "", "", 1},
		{downsample.Complete, "max_over_time(m[1h])", 3*day + 2*hourMs, day, "", "", 1},
		{downsample.Complete, "max_over_time(m[1h])", 2*day + 12*hourMs, 6 * hourMs, "in windows of 1h", "", 3},
		{downsample.Off, "max_over_time(m[1h])", 2 * hourMs, day, "", "", 1},
		{downsample.Expired, "avg_over_time(m_on[1h])", 2 * hourMs, day, "", none + "it has no sum, count of these samples, which may be booleans", 1},
		{downsample.Expired, "last_over_time(m_on[1h])", 2 * hourMs, day, "in windows of 1h", "", 3},
		{downsample.Expired, "min_over_time(m[1h])", 2 * hourMs, day, "", none + "it does not keep min", 1},
		{downsample.Expired, "stddev_over_time(m[1h])", 2 * hourMs, day, "", none + "stddev_over_time() needs all samples", 1},
		{downsample.Expired, "quantile_over_time(0.5, m[1h])", 2 * hourMs, day, "in windows of 1h; quantiles are estimates within 1 %", "", 3},
		{downsample.Complete, "quantile_over_time(0.5, m[1h])", 2*day + 12*hourMs, 6 * hourMs, "", "", 3},
		{downsample.Expired, "quantile_over_time(0.5, m_on[1h])", 2 * hourMs, day, "", none + "it has no percentile of these samples, which may be booleans", 1},
		{downsample.Expired, "quantile_over_time(2, m[1h])", 2 * hourMs, day, "", "the expression needs all samples", 1},
		{downsample.Expired, "max_over_time(m[90m])", 2*hourMs + hourMs/2, day, "", none + "the range 1h30m is not made of whole windows of 1h", 1},
		{downsample.Expired, "m", 2 * hourMs, hourMs / 2, "", "the step of a selector is shorter than 1h", 49},
		{downsample.Expired, "timestamp(m)", 2 * hourMs, day, "", "the expression needs all samples", 1},
		{downsample.Expired, "max_over_time(m[2h:1h])", 2 * hourMs, day, "in windows of 1h", "", 3},
		{downsample.Expired, "m_text", 2 * hourMs, day, "", "", 0},
	} {
		got, told := h.evaluate(e, c.use, "raw", c.expr, c.start, 3*day, c.step)
		if c.start > 3*day {
			got, told = h.evaluate(e, c.use, "raw", c.expr, c.start, c.start, c.step)
		}
		n := 0
		for _, samples := range got {
			n += len(samples)
		}
		if infos, warnings := strings.Join(told.Infos, "; "), strings.Join(told.Warnings, "; "); !strings.Contains(infos, c.info) || (c.info == "") != (infos == "") ||
			!strings.Contains(warnings, c.lost) || (c.lost == "") != (warnings == "") || n != c.values {
			t.Errorf("%s, %s: %d values, infos %q, warnings %q", c.expr, c.use, n, infos, warnings)
		}
	}
	if err := h.load("hours", "m,s=1 percentile_value=\"text\" 7200"); err != nil {
		t.Fatal(err)
	}
	_, err := e.Run(t.Context(), &engine.Request{Access: engine.Access{DB: "d", RP: "raw"}, Expr: "quantile_over_time(0.5, m[1h])", Start: time.UnixMilli(3 * hourMs), End: time.UnixMilli(3 * hourMs)}, answer{})
	if err == nil || !strings.Contains(err.Error(), `{__name__="m", s="1"} at 1970-01-01T02:00:00Z: not the text of a sketch of quantiles`) {
		t.Errorf("a text that is no sketch: %v", err)
	}
	names := func(use downsample.Use, end int64) string {
		all, _, err := e.LabelValues(t.Context(), &engine.Lookup{Access: engine.Access{DB: "d", RP: "raw", Downsamples: use}, Start: time.UnixMilli(0), End: time.UnixMilli(end)}, "__name__")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(all, " ")
	}
	if got := names(downsample.Expired, day); got != "m m_on old" {
		t.Errorf("names: %s", got)
	}
	if got := names(downsample.Off, day); got != "" {
		t.Errorf("names without downsamples: %s", got)
	}
	selectors, err := e.Selectors([]string{"{__name__=~'old|m'}", "old"})
	if err != nil {
		t.Fatal(err)
	}
	var series []string
	_, err = e.Series(t.Context(), &engine.Lookup{Access: engine.Access{DB: "d", RP: "raw"}, Selectors: selectors, Start: time.UnixMilli(0), End: time.UnixMilli(4 * day)}, func(ls labels.Labels) error {
		series = append(series, ls.String())
		return nil
	})
	if got := strings.Join(series, " "); err != nil || got != `{__name__="m", s="1"} {__name__="old", host="a"}` {
		t.Errorf("series: %s, %v", got, err)
	}
}

// TestPromQLDefinitions: windows of two lengths follow each other in one range, and values that
// are no numbers are in none.
func TestPromQLDefinitions(t *testing.T) {
	h := newHarness(t)
	h.must("CREATE DATABASE d WITH SHARD DURATION 1d NAME raw; CREATE RETENTION POLICY shadow ON d DURATION INF REPLICATION 1; CREATE RETENTION POLICY hours ON d DURATION INF REPLICATION 1")
	table, err := h.store.Table("d")
	if err != nil {
		t.Fatal(err)
	}
	const day = 24 * hourMs
	for _, policy := range []string{"raw", "shadow"} {
		var b point.Batch
		rows := point.NewBuilder(table, &b)
		for at := int64(0); at < 4*day; at += 514_287 {
			v := float64(at % 1000)
			if at%5 == 0 && at < 3*day {
				if v = math.NaN(); policy == "shadow" {
					continue
				}
			}
			rows.AnyFloat("value", v)
			_ = rows.Series("m", model.Tags{{Key: "s", Value: "1"}})
			if err := rows.Row(at * 1e6); err != nil {
				t.Fatal(err)
			}
		}
		if err := h.store.Write(t.Context(), "d", policy, &b); err != nil {
			t.Fatal(err)
		}
	}
	h.now = time.Unix(0, 0).Add(36 * time.Hour)
	h.must("CREATE DOWNSAMPLE ON d FROM raw INTO hours EVERY 2h AS mean, max, last")
	h.must("ALTER DOWNSAMPLE ON d FROM raw INTO hours EVERY 30m FROM NOW")
	h.now = time.Unix(0, 0).Add(4*24*time.Hour + 10*time.Minute)
	if err := h.settle(); err != nil {
		t.Fatal(err)
	}
	h.must("ALTER RETENTION POLICY raw ON d DURATION 1d")
	for range 3 {
		if err := h.expire("raw"); err != nil {
			t.Fatal(err)
		}
	}
	e := h.promql()
	for _, c := range []struct {
		expr             string
		start, end, step int64
	}{
		{"sum_over_time(m[4h])", 4 * hourMs, 3 * day, 2 * hourMs},
		{"count_over_time(m[30m])", 2 * day, 3 * day, hourMs / 2}, // after the change
		{"max_over_time(m[2d])", 2 * day, 3 * day, 6 * hourMs},
		{"avg_over_time(m[3d])", 3*day + 12*hourMs, 3*day + 12*hourMs, 0},
	} {
		got, told := h.evaluate(e, downsample.Expired, "raw", c.expr, c.start-1, c.end-1, c.step)
		want, _ := h.evaluate(e, downsample.Off, "shadow", c.expr, c.start-1, c.end-1, c.step)
		if diff := differs(got, want, nil); diff != "" || len(told.Infos) == 0 || len(told.Warnings) > 0 || len(want) == 0 {
			t.Errorf("%s: %s, infos %v, warnings %v", c.expr, diff, told.Infos, told.Warnings)
		}
	}
	// Before the change there are no windows of half an hour.
	if _, told := h.evaluate(e, downsample.Expired, "raw", "count_over_time(m[30m])", day, 3*day, hourMs/2); len(told.Warnings) != 1 || len(told.Infos) != 1 {
		t.Errorf("infos %v, warnings %v", told.Infos, told.Warnings)
	}
}

// counted returns by how much the counters of a host, or with "" of all, rose from one time to
// another, by what groups their series: the sum of the steps, of which each has its predecessor in the hour of its own or in the
// one before.
func counted(series map[string]map[int64]float64, host string, group func(labels.Labels) string, from, to int64) map[string]float64 {
	out := map[string]float64{}
	for text, samples := range series {
		ls, _ := parser.NewParser(parser.Options{}).ParseMetric("m{" + text + "}")
		if host != "" && ls.Get("host") != host {
			continue
		}
		before := int64(-1)
		for _, at := range slices.Sorted(maps.Keys(samples)) {
			if before >= 0 && at > from && at <= to && before >= at/hourMs*hourMs-hourMs {
				v := samples[at]
				if v >= samples[before] {
					v -= samples[before]
				}
				out[group(ls)] += v
			}
			before = at
		}
	}
	return out
}

// TestPromQLGroups: an aggregation has the values that the samples would give, at the end of the
// latest whole hour, from rows of several series. rate and increase are the sums of the steps.
func TestPromQLGroups(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testseed.Of(t), 5))
	pick := func(list ...string) string { return list[rnd.IntN(len(list))] }
	const days, lost = 4, 2 * 24 * hourMs
	used := map[string]int{}
	for round := range 4 {
		h := newHarness(t)
		h.now = time.Unix(0, 0).Add(days*24*time.Hour + 10*time.Minute)
		h.must("CREATE DATABASE d WITH SHARD DURATION 1d NAME raw; CREATE RETENTION POLICY shadow ON d DURATION INF REPLICATION 1 SHARD DURATION 1d; " +
			"CREATE RETENTION POLICY hours ON d DURATION INF REPLICATION 1 SHARD DURATION 2d")
		series := map[string]map[int64]float64{}
		var lines strings.Builder
		for s := range 6 {
			host, pod := []string{"a", "b"}[s%2], s/2
			tags, text := fmt.Sprintf("host=%s,pod=%d,zone=z", host, pod), fmt.Sprintf(`host="%s", pod="%d", zone="z"`, host, pod)
			if pod == 0 { // its labels are those of a group
				tags, text = fmt.Sprintf("host=%s,zone=z", host), fmt.Sprintf(`host="%s", zone="z"`, host)
			}
			series[text] = map[int64]float64{}
			gap, v := 1+rnd.IntN(1200), 0.
			for at := min(s, 1) * rnd.IntN(days*12*3600); at < days*24*3600; at += 1 + rnd.IntN(2*gap) {
				if v += float64(rnd.IntN(10)); rnd.IntN(50) == 0 {
					v = float64(rnd.IntN(3))
				}
				if rnd.IntN(200) == 0 {
					at += rnd.IntN(4 * 3600)
				}
				series[text][int64(at)*1000] = v
				fmt.Fprintf(&lines, "m,%s value=%g %d\n", tags, v, at)
			}
		}
		for _, policy := range []string{"raw", "shadow"} {
			if err := h.load(policy, lines.String()); err != nil {
				t.Fatal(err)
			}
		}
		h.must("CREATE DOWNSAMPLE ON d FROM raw INTO hours EVERY 1h " + []string{"GROUP BY host", "WITHOUT (pod)"}[round%2] + " AS count, sum, max, min, increase")
		if err := h.settle(); err != nil {
			t.Fatal(err)
		}
		h.must("ALTER RETENTION POLICY raw ON d DURATION 2d")
		for range 2 {
			if err := h.expire("raw"); err != nil {
				t.Fatal(err)
			}
		}
		e := h.promql()
		for range 60 {
			use, stored := downsample.Expired, lost
			if rnd.IntN(3) == 0 {
				use, stored = downsample.Complete, days*24*hourMs
			}
			function := pick("sum increase", "sum rate", "sum increase", "sum rate", "sum sum_over_time", "sum count_over_time", "max max_over_time", "min min_over_time")
			op, function, _ := strings.Cut(function, " ")
			by := pick("", "by (host)", "by ()")
			if round%2 == 1 {
				by = pick("by (host)", "by (zone, host)", "without (pod)", "without (pod, zone)")
			}
			host := pick("", "", "a")
			metric := map[string]string{"": "m", "a": "m{host='a'}"}[host]
			span, step, offset := int64(1+rnd.IntN(12))*hourMs, int64(1+rnd.IntN(4*3600))*1000, int64(rnd.IntN(3))*hourMs/2
			start := int64(rnd.IntN(days * 24 * 3600 * 1000))
			end := start + step*int64(rnd.IntN(20))
			if start == end || step < hourMs { // windows are too long for more than what is lost
				stored = lost
			}
			if slopes := function == "increase" || function == "rate"; slopes && stored == lost && (use == downsample.Complete || start-offset-span+1 < lost) {
				stored += hourMs // its first step begins in what is lost
			}
			group := func(ls labels.Labels) string {
				b := labels.NewBuilder(ls)
				switch by {
				case "", "by ()":
					b.Keep()
				case "by (host)", "without (pod, zone)":
					b.Keep("host")
				default:
					b.Keep("host", "zone")
				}
				return b.Labels().String()
			}
			got, told := h.evaluate(e, use, "raw", fmt.Sprintf("%s %s (%s(%s[%dms] offset %dms))", op, by, function, metric, span, offset), start, end, step)
			want := answer{}
			for k := start; k <= end; k += step {
				as := k - offset
				if as-span+1 < stored {
					as = (as+1)/hourMs*hourMs - 1
					used[function]++
					if function == "increase" || function == "rate" {
						for labels, v := range counted(series, host, group, as-span, as) {
							if function == "rate" {
								v /= float64(span) / 1000
							}
							want.add(labels, k, v)
						}
						continue
					}
				}
				one, _ := h.evaluate(e, downsample.Off, "shadow", fmt.Sprintf("%s %s (%s(%s[%dms]))", op, by, function, metric, span), as, as, 0)
				for labels, samples := range one {
					want.add(labels, k, samples[as])
				}
			}
			if diff := differs(got, want, nil); diff != "" || len(told.Warnings) > 0 {
				t.Fatalf("round %d: %s %s of %s(%s[%d] offset %d) from %d to %d by %d, %s: %s\ntold %v %v", round, op, by, function, metric, span, offset, start, end, step, use, diff, told.Warnings, told.Infos)
			}
		}
	}
	for _, function := range []string{"increase", "rate", "sum_over_time", "count_over_time", "max_over_time", "min_over_time"} {
		if used[function] < 20 {
			t.Errorf("only %d steps of %s take windows", used[function], function)
		}
	}
}

// TestPromQLGroupsNotes: rows of several series answer no aggregation that needs to know the
// series, or a label that they do not keep, and an answer says so.
func TestPromQLGroupsNotes(t *testing.T) {
	h := newHarness(t)
	h.now = time.Unix(0, 0).Add(4 * 24 * time.Hour)
	h.must("CREATE DATABASE d WITH SHARD DURATION 1d NAME raw; CREATE RETENTION POLICY hours ON d DURATION INF REPLICATION 1; CREATE RETENTION POLICY whole ON d DURATION INF REPLICATION 1")
	var lines strings.Builder
	for at := 0; at < 4*24*60; at += 5 {
		for pod := range 2 {
			fmt.Fprintf(&lines, "m,host=a,pod=%d value=%d %d\nw,host=a,pod=%d value=%d %d\n", pod, at, at*60, pod, at, at*60)
		}
	}
	if err := h.load("raw", lines.String()); err != nil {
		t.Fatal(err)
	}
	h.must("CREATE DOWNSAMPLE ON d FROM raw INTO hours EVERY 1h WITHOUT (pod) AS mean, max, last, first, increase; " +
		"CREATE DOWNSAMPLE ON d FROM raw.w INTO whole EVERY 1h AS mean, first, last, increase")
	if err := h.settle(); err != nil {
		t.Fatal(err)
	}
	h.must("ALTER RETENTION POLICY raw ON d DURATION 2d")
	for range 2 {
		if err := h.expire("raw"); err != nil {
			t.Fatal(err)
		}
	}
	e := h.promql()
	const several = "its rows are of several series"
	for _, c := range []struct {
		expr, lost string
		want       float64 // at the end of the second hour, if it is answered
	}{
		{"sum by (host) (increase(m[2h]))", "", 2 * 115}, // the first sample has no step
		{"sum without (pod) (rate(m[2h]))", "", 2 * 115. / 7200},
		{"2 * sum(count_over_time(m[2h])) by (host)", "", 2 * 48},
		{"sum(sum_over_time(m[2h])) / sum(count_over_time(m[2h]))", "", 57.5},
		{"max_over_time(max by (host) (max_over_time(m[1h]))[2h:1h])", "", 115},
		{"sum(increase(w[2h]))", "", 2 * 117.5}, // of single series: extrapolated by half a gap
		{"rate(m[2h])", several, 0},
		{"sum by (host) (m)", several, 0},
		{"sum by (host) (last_over_time(m[2h]))", several, 0},
		{"avg by (host) (avg_over_time(m[2h]))", several, 0},
		{"sum by (host) (avg_over_time(m[2h]))", several, 0},
		{"sum by (host) (max_over_time(m[2h]))", several, 0},
		{"max by (host) (sum_over_time(m[2h]))", several, 0},
		{"max by (host) (rate(m[2h]))", several, 0},
		{"count by (host) (count_over_time(m[2h]))", several, 0},
		{"sum by (pod) (increase(m[2h]))", "its rows do not keep the tag pod", 0},
		{"sum without (host) (increase(m[2h]))", several, 0},
		{"sum without (pod) (increase(m{pod!='1'}[2h]))", several, 0},
		{"sum by (host) (increase(m{pod!='1'}[2h]))", "its rows do not keep the tag pod", 0},
		{"min by (host) (min_over_time(m[2h]))", "does not keep min", 0},
		{"sum by (host) (increase(m[90m]))", "not made of whole windows", 0},
		{"sum by (host) (increase(deriv(m[5m])[2h:1h]))", "needs all samples", 0},
	} {
		got, told := h.evaluate(e, downsample.Expired, "raw", c.expr, 2*hourMs, 2*hourMs, 0)
		text := strings.Join(told.Warnings, "; ")
		if !strings.Contains(text, c.lost) || (c.lost == "") != (text == "") || (c.lost == "") != (len(told.Infos) > 0 && len(got) > 0) {
			t.Errorf("%s: %v, warnings %q, infos %v", c.expr, got, text, told.Infos)
		}
		for labels, samples := range got {
			if v := samples[2*hourMs]; math.Abs(v-c.want) > 1e-4 {
				t.Errorf("%s: %s is %g, want %g", c.expr, labels, v, c.want)
			}
		}
	}
}
