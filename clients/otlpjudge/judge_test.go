package otlpjudge

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"math/rand/v2"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/storage/remote/otlptranslator/prometheusremotewrite"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
	"tsdbd/prom"
	"tsdbd/prom/otlp"
)

var (
	requests = flag.Int("requests", 3000, "number of requests")
	only     = flag.Int("request", -1, "only this request")
)

// TestLikePrometheus translates random requests by tsdbd and by Prometheus, in all
// strategies and with promoted attributes, from protobuf and from JSON.
func TestLikePrometheus(t *testing.T) {
	log.SetOutput(io.Discard) // of Prometheus, for each label that it replaces
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	seed := testseed.Of(t)
	samples := 0
	for i := range *requests {
		if *only >= 0 && i != *only {
			continue
		}
		r := random{Rand: rand.New(rand.NewPCG(seed, uint64(i)))}
		r.rejects = r.IntN(4) == 0
		settings := url.Values{}
		settings.Set("translation_strategy", pick(r, "", "", "UnderscoreEscapingWithoutSuffixes", "NoUTF8EscapingWithSuffixes", "NoTranslation"))
		settings.Set("promote_scope_metadata", fmt.Sprint(r.IntN(3) == 0))
		settings.Set("keep_identifying_resource_attributes", fmt.Sprint(r.IntN(3) == 0))
		switch r.IntN(3) {
		case 0:
			settings.Set("promote_resource_attributes", "host.name,zone")
		case 1:
			settings.Set("promote_all_resource_attributes", "true")
			settings.Set("ignore_resource_attributes", "zone")
		}
		request := pmetricotlp.NewExportRequestFromMetrics(r.request())
		message, err := request.MarshalProto()
		if err != nil {
			t.Fatal(err)
		}
		sent := pmetricotlp.NewExportRequest()
		if err := sent.UnmarshalProto(message); err != nil {
			t.Fatal(err)
		}
		want := prometheus(t, sent.Metrics(), settings)
		if slices.ContainsFunc(want, func(line string) bool { return strings.Contains(line, `\x`) }) {
			continue // Prometheus has cut a letter in two to remove the suffix behind it
		}
		samples += len(want)
		text, err := request.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		fromJSON, err := otlp.FromJSON(nil, text, func(int) error { return nil })
		if err != nil {
			t.Errorf("request %d: %v of %s", i, err, text)
		}
		compare(t, fmt.Sprintf("request %d in protobuf, %s: %s", i, settings.Encode(), text), tsdbd(t, message, settings), want)
		compare(t, fmt.Sprintf("request %d in JSON, %s: %s", i, settings.Encode(), text), tsdbd(t, fromJSON, settings), want)
		if t.Failed() {
			return
		}
	}
	if samples == 0 {
		t.Error("no sample was compared")
	}
	t.Logf("%d samples are equal", samples)
}

func compare(t *testing.T, what string, got, want []string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	if slices.Equal(got, want) {
		return
	}
	var b strings.Builder
	for _, line := range got {
		if !slices.Contains(want, line) {
			fmt.Fprintf(&b, "tsdbd:      %s\n", line)
		}
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			fmt.Fprintf(&b, "Prometheus: %s\n", line)
		}
	}
	t.Errorf("%s\n%d and %d lines\n%s", what, len(got), len(want), b.String())
}

// line returns a sample as a line. Equal lines are equal samples to the last bit.
func line(ls labels.Labels, start, at int64, v float64, h *histogram.Histogram) string {
	s := fmt.Sprintf("%s @%d since %d: ", ls, at, start)
	switch {
	case h == nil:
		return s + fmt.Sprintf("%x", math.Float64bits(v))
	case value.IsStaleNaN(h.Sum):
		return s + "stale histogram"
	}
	h = h.Copy().Compact(0)
	return s + fmt.Sprintf("schema %d, zero %g, %s", h.Schema, h.ZeroThreshold, h)
}

// described returns metadata as a line.
func described(metric, kind, help, unit string) string {
	return fmt.Sprintf("%q %s %q %q", metric, kind, help, unit)
}

// tsdbd returns the lines of a request that tsdbd translates.
func tsdbd(t *testing.T, body []byte, settings url.Values) (lines []string) {
	opt, err := otlp.ParseOptions(settings)
	if err != nil {
		t.Fatal(err)
	}
	var batch point.Batch
	_, err = otlp.Request(context.Background(), body, opt, otlp.Sink{
		Rows: &prom.Rows{Builder: point.NewBuilder(point.NewTable(1), &batch)},
		Metadata: func(m otlp.Metadata) error {
			lines = append(lines, described(m.Metric, m.Type, m.Help, m.Unit))
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range batch.Rows {
		name, tags := model.ParseSeriesKey(row.Series.Key(), nil)
		b := labels.NewScratchBuilder(0)
		ls := prom.Labels(&b, name, tags)
		var v float64
		var h prom.Histogram
		var start int64
		for i, field := range row.Layout.Fields {
			switch word := batch.Values[int(row.First)+i]; field.Key {
			case prom.ValueField:
				v = math.Float64frombits(word)
			case prom.StartField:
				start = int64(word)
			case prom.HistogramField:
				if h, err = prom.ParseHistogram(string(column.StringAt(word, batch.Strings))); err != nil {
					t.Fatal(err)
				}
			}
		}
		lines = append(lines, line(ls, start, prom.Milliseconds(row.Time), v, h.Int))
	}
	return lines
}

// prometheus returns the lines of a request that Prometheus translates.
func prometheus(t *testing.T, metrics pmetric.Metrics, settings url.Values) []string {
	is := func(name string) bool { return settings.Get(name) == "true" }
	c := config.OTLPConfig{PromoteAllResourceAttributes: is("promote_all_resource_attributes")}
	if list := settings.Get("promote_resource_attributes"); list != "" {
		c.PromoteResourceAttributes = strings.Split(list, ",")
	}
	if list := settings.Get("ignore_resource_attributes"); list != "" {
		c.IgnoreResourceAttributes = strings.Split(list, ",")
	}
	strategy := settings.Get("translation_strategy")
	app := &collector{described: map[string]bool{}}
	_, err := prometheusremotewrite.NewPrometheusConverter(app).FromMetrics(context.Background(), metrics, prometheusremotewrite.Settings{
		AddMetricSuffixes:                    strategy == "" || strings.HasSuffix(strategy, "WithSuffixes"),
		AllowUTF8:                            strings.HasPrefix(strategy, "No"),
		PromoteResourceAttributes:            prometheusremotewrite.NewPromoteResourceAttributes(c),
		KeepIdentifyingResourceAttributes:    is("keep_identifying_resource_attributes"),
		PromoteScopeMetadata:                 is("promote_scope_metadata"),
		LabelNameUnderscoreSanitization:      config.DefaultOTLPConfig.LabelNameUnderscoreSanitization,
		LabelNamePreserveMultipleUnderscores: config.DefaultOTLPConfig.LabelNamePreserveMultipleUnderscores,
	})
	if err != nil && !strings.Contains(err.Error(), "invalid temporality") {
		t.Fatal(err)
	}
	return app.lines
}

// collector is an appender that keeps lines.
type collector struct {
	storage.AppenderV2
	lines     []string
	described map[string]bool
}

func (c *collector) Append(_ storage.SeriesRef, ls labels.Labels, st, at int64, v float64, h *histogram.Histogram, _ *histogram.FloatHistogram, opt storage.AOptions) (storage.SeriesRef, error) {
	c.lines = append(c.lines, line(ls, st, at, v, h))
	if m := opt.Metadata; !c.described[opt.MetricFamilyName] {
		c.described[opt.MetricFamilyName] = true
		c.lines = append(c.lines, described(opt.MetricFamilyName, string(m.Type), m.Help, m.Unit))
	}
	return 0, nil
}
