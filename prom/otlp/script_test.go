package otlp

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"strings"
	"testing"

	"tsdbd/internal/testkit/script"
	"tsdbd/model"
	"tsdbd/model/column"
	points "tsdbd/model/point"
	"tsdbd/prom"
)

// TestScripts runs the stories of testdata. Their command translate has the parameters
// of a request and its body in JSON. It prints the rows, the metadata, and what was
// rejected.
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txt", func(t *testing.T) func(script.Command) []string {
		return func(c script.Command) []string {
			if c.Name != "translate" {
				t.Fatalf("unknown command %s", c.Name)
			}
			q, err := url.ParseQuery(strings.Join(c.Args, " "))
			if err != nil {
				t.Fatal(err)
			}
			opt, err := ParseOptions(q)
			if err != nil {
				return []string{"error: " + err.Error()}
			}
			body, err := FromJSON(nil, []byte(strings.Join(c.Input, "\n")), free)
			if err != nil {
				return []string{"error: " + err.Error()}
			}
			lines, result, err := translate(body, opt)
			if err != nil {
				return []string{"error: " + err.Error()}
			}
			s := fmt.Sprintf("%d data points", result.Points)
			if result.Rejected > 0 {
				s += fmt.Sprintf(", %d rejected", result.Rejected)
			}
			if result.Exemplars > 0 {
				s += fmt.Sprintf(", %d exemplars", result.Exemplars)
			}
			if m := result.Message(); m != "" {
				s += ": " + m
			}
			return append(lines, s)
		}
	})
}

func free(int) error { return nil }

// translate returns the rows and metadata of a request as lines.
func translate(body []byte, opt Options) (lines []string, result Result, err error) {
	var batch points.Batch
	var metadata []string
	into := &prom.Rows{Builder: points.NewBuilder(points.NewTable(1), &batch)}
	result, err = Request(context.Background(), body, opt, Sink{
		Rows: into,
		Metadata: func(m Metadata) error {
			metadata = append(metadata, fmt.Sprintf("%s is a %s, unit %q, help %q", m.Metric, m.Type, m.Unit, m.Help))
			return nil
		},
	})
	for _, e := range into.Exemplars {
		name, tags := model.ParseSeriesKey(e.Series, nil)
		text := ""
		for k, v := range prom.ExemplarLabels(&e) {
			text += fmt.Sprintf(" %s=%q", k, v)
		}
		metadata = append(metadata, fmt.Sprintf("exemplar of %s%s: %v @%d%s", name, tags[1:], e.Value, e.Time, text))
	}
	return append(rows(&batch), metadata...), result, err
}

// rows returns the rows of a batch as lines.
func rows(batch *points.Batch) (lines []string) {
	for _, row := range batch.Rows {
		name, tags := model.ParseSeriesKey(row.Series.Key(), nil)
		line := name + "{"
		for _, t := range tags {
			if t.Key != prom.NameLabel {
				line += fmt.Sprintf("%s=%q,", t.Key, t.Value)
			}
		}
		line = strings.TrimSuffix(line, ",") + "}"
		line = strings.TrimSuffix(line, "{}")
		since := ""
		for i, field := range row.Layout.Fields {
			word := batch.Values[int(row.First)+i]
			switch field.Key {
			case prom.ValueField:
				switch v := math.Float64frombits(word); {
				case math.Float64bits(staleMarker) == word:
					line += " stale"
				default:
					line += fmt.Sprintf(" %v", v)
				}
			case prom.StartField:
				since = fmt.Sprintf(" since %d", int64(word))
			case prom.HistogramField:
				h, err := prom.ParseHistogram(string(column.StringAt(word, batch.Strings)))
				if err != nil {
					line += " " + err.Error()
				}
				line += fmt.Sprintf(" %v schema=%d zero=%g", h.Int, h.Int.Schema, h.Int.ZeroThreshold)
			}
		}
		lines = append(lines, fmt.Sprintf("%s @%d%s", line, prom.Milliseconds(row.Time), since))
	}
	return lines
}
