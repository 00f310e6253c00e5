package shell

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// languages are the languages of queries.
var languages = []string{"influxql", "promql"}

const (
	// rangeSteps is how many steps a range has if none is given, as an hour of 15 s.
	rangeSteps = 240
	// plotRange is what a plot shows if no range is given.
	plotRange = "1h"
	// nameLabel is the label that holds the name of a metric.
	nameLabel = "__name__"
)

// Range are the times that PromQL is asked for: now, or steps from a start to an end.
type Range struct {
	Start string // a time, or a duration before now; "": no range
	End   string // likewise, or "now"; "" is now
	Step  string // a duration; "": a share of the range
}

// times returns the parameters of a request.
func (r Range) times(now time.Time) (url.Values, error) {
	end, err := parseTime(cmp.Or(r.End, "now"), now)
	if err != nil {
		return nil, err
	}
	if r.Start == "" {
		if r.Step != "" {
			return nil, errors.New("a step needs the start of a range")
		}
		return url.Values{"time": {unix(end)}}, nil
	}
	start, err := parseTime(r.Start, now)
	if err != nil {
		return nil, err
	}
	if start.After(end) {
		return nil, fmt.Errorf("the range ends before it starts: %s is after %s", start.Format(time.RFC3339), end.Format(time.RFC3339))
	}
	step := max(time.Second, (end.Sub(start) / rangeSteps).Round(time.Second))
	if r.Step != "" {
		if step, err = parseDuration(r.Step); err != nil || step <= 0 {
			return nil, fmt.Errorf("the step is a duration such as 15s or 5m, not %q", r.Step)
		}
	}
	return url.Values{"start": {unix(start)}, "end": {unix(end)}, "step": {strconv.FormatFloat(step.Seconds(), 'f', -1, 64)}}, nil
}

func unix(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', -1, 64) }

// parseTime reads a time, or a duration before now.
func parseTime(text string, now time.Time) (time.Time, error) {
	if text == "now" {
		return now, nil
	}
	if d, err := parseDuration(strings.TrimPrefix(text, "-")); err == nil {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateTime, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time such as 2026-01-31T12:00:00Z or 2026-01-31, or a duration before now such as 1h", text)
}

// parseDuration reads a duration, which may be in days and weeks.
func parseDuration(text string) (time.Duration, error) {
	for unit, length := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		if n, err := strconv.ParseUint(strings.TrimSuffix(text, unit), 10, 16); err == nil && strings.HasSuffix(text, unit) {
			return time.Duration(n) * length, nil
		}
	}
	return time.ParseDuration(text)
}

// setRange chooses the range.
func (s *Session) setRange(_ context.Context, args string) error {
	words := strings.Fields(args)
	if len(words) > 3 {
		return errors.New("usage: range [START [END [STEP]]]")
	}
	words = append(words, "", "", "")
	next := Range{words[0], words[1], words[2]}
	if _, err := next.times(time.Now()); err != nil {
		return err
	}
	s.Range = next
	if next.Start == "" {
		return s.say("PromQL is asked for now")
	}
	return s.say("PromQL is asked for the range %s", next)
}

// String returns the range in the words that set it.
func (r Range) String() string {
	return strings.TrimSpace(strings.Join([]string{r.Start, r.End, r.Step}, " "))
}

func (s *Session) promQL() bool { return s.Language == "promql" }

// askPromQL sends an expression and writes the answer.
func (s *Session) askPromQL(ctx context.Context, text string) error {
	asked := s.Range
	if s.Plot {
		asked.Start = cmp.Or(asked.Start, plotRange)
	}
	params, err := asked.times(time.Now())
	if err != nil {
		return err
	}
	path := "/api/v1/query"
	if params.Has("step") {
		path += "_range"
	}
	params.Set("query", strings.TrimRight(text, "; \t\n"))
	if s.Format == "line" && !s.Plot {
		return errors.New("answers of PromQL are no points: use another format than line")
	}
	resp, err := s.Client.Do(ctx, http.MethodPost, path, s.source(), http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, strings.NewReader(params.Encode()))
	if err != nil {
		return plain(err)
	}
	defer resp.Body.Close()
	if s.Format == "json" && !s.Plot {
		return s.copyBody(resp, "application/json")
	}
	var answer promAnswer
	dec := json.NewDecoder(resp.Body)
	dec.UseNumber()
	if err := dec.Decode(&answer); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	tables, err := answer.tables(s.Precision, s.Plot)
	if err != nil {
		return err
	}
	f := s.formatter()
	if answer.Data.ResultType == "vector" && s.Format != "csv" && !s.Plot {
		tables = oneTable(tables)
	}
	for i := range tables {
		if err := f.series(&tables[i]); errors.Is(err, errCut) {
			break
		} else if err != nil {
			return err
		}
	}
	if err := f.end(); err != nil {
		return err
	}
	if len(tables) == 0 {
		if err := s.say("no series"); err != nil {
			return err
		}
	}
	for _, m := range append(answer.Warnings, answer.Infos...) {
		if err := s.say("%s", printable(m)); err != nil {
			return err
		}
	}
	return nil
}

// source are the parameters that choose the database, and whether what damage has left of
// it will do.
func (s *Session) source() url.Values {
	params := url.Values{}
	for name, value := range map[string]string{"db": s.Database, "rp": s.RetentionPolicy} {
		if value != "" {
			params.Set(name, value)
		}
	}
	if s.Partial {
		params.Set("partial", "true")
	}
	return params
}

// promAnswer is an answer of Prometheus' API.
type promAnswer struct {
	Data struct {
		ResultType string
		Result     json.RawMessage
	}
	Warnings, Infos []string
}

// sample is [seconds, value]. The value is a text, or the object of a histogram.
type sample [2]any

type promSeries struct {
	Metric             map[string]string
	Value, Histogram   *sample
	Values, Histograms []sample
}

// tables returns a table for each series, with the columns time and value.
func (a *promAnswer) tables(precision string, plot bool) (tables []series, err error) {
	if plot {
		precision = "ns"
	}
	var found []promSeries
	dec := json.NewDecoder(strings.NewReader(string(a.Data.Result)))
	dec.UseNumber()
	switch a.Data.ResultType {
	case "scalar", "string":
		found = []promSeries{{Value: new(sample)}}
		err = dec.Decode(found[0].Value)
	default:
		err = dec.Decode(&found)
	}
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	for _, f := range found {
		t := series{Name: f.Metric[nameLabel], Tags: maps.Clone(f.Metric), Columns: []string{"time", "value"}, promQL: true}
		delete(t.Tags, nameLabel)
		for _, one := range []*sample{f.Value, f.Histogram} {
			if one != nil {
				f.Values = append(f.Values, *one)
			}
		}
		for _, v := range append(f.Values, f.Histograms...) {
			row, err := v.row(precision, a.Data.ResultType == "string")
			if err != nil {
				return nil, err
			}
			t.Values = append(t.Values, row)
		}
		tables = append(tables, t)
	}
	return tables, nil
}

// row returns the time and the value of a sample as the cells of a table.
func (v sample) row(precision string, text bool) ([]any, error) {
	number, ok := v[0].(json.Number)
	seconds, err := number.Float64()
	if !ok || err != nil {
		return nil, fmt.Errorf("read answer: %v is no time", v[0])
	}
	at := time.UnixMilli(int64(math.Round(seconds * 1000))).UTC()
	value := v[1]
	if t, ok := value.(string); ok && !text {
		value = json.Number(t)
	}
	units := map[string]time.Duration{"ns": 1, "u": time.Microsecond, "ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour}
	if unit, ok := units[precision]; ok {
		return []any{json.Number(strconv.FormatInt(at.UnixNano()/int64(unit), 10)), value}, nil
	}
	return []any{at.Format(time.RFC3339Nano), value}, nil
}

// oneTable returns the series of a vector, each of which has one row, as one table with
// a column for each label.
func oneTable(tables []series) []series {
	if len(tables) == 0 {
		return nil
	}
	labels := map[string]bool{}
	for _, t := range tables {
		for label := range t.Tags {
			labels[label] = true
		}
		if t.Name != "" {
			labels[nameLabel] = true
		}
	}
	columns := slices.Sorted(maps.Keys(labels))
	all := series{Columns: slices.Concat([]string{"time"}, columns, []string{"value"})}
	for _, t := range tables {
		for _, values := range t.Values {
			row := []any{values[0]}
			for _, label := range columns {
				text, ok := t.Tags[label]
				switch {
				case label == nameLabel && t.Name != "":
					row = append(row, t.Name)
				case ok:
					row = append(row, text)
				default:
					row = append(row, nil)
				}
			}
			all.Values = append(all.Values, append(row, values[1]))
		}
	}
	return []series{all}
}
