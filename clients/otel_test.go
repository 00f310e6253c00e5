package clients

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	api "go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"

	"tsdbd/internal/testkit/apptest"
)

// TestOpenTelemetry exports metrics by OpenTelemetry's SDK and reads them by PromQL.
func TestOpenTelemetry(t *testing.T) {
	s := newSuite(t, "OpenTelemetry SDK")
	s.version = moduleVersion(t, "go.opentelemetry.io/otel/sdk/metric")
	server := apptest.New(t)
	server.Restart()
	server.Query("", "CREATE DATABASE own")
	ctx := t.Context()
	// export sends a counter, a gauge and two histograms with what is in options.
	export := func(temporality metric.TemporalitySelector, options ...otlpmetrichttp.Option) error {
		options = append(options, otlpmetrichttp.WithInsecure(), otlpmetrichttp.WithTemporalitySelector(temporality))
		exporter, err := otlpmetrichttp.New(ctx, options...)
		s.must(err)
		provider := metric.NewMeterProvider(
			metric.WithResource(resource.NewSchemaless(attribute.String("service.name", "shop"), attribute.String("service.namespace", "eu"),
				attribute.String("service.instance.id", "a1"), attribute.String("host.name", "h1"))),
			metric.WithReader(metric.NewPeriodicReader(exporter)),
			metric.WithView(metric.NewView(metric.Instrument{Name: "payload.size"}, metric.Stream{Aggregation: metric.AggregationBase2ExponentialHistogram{MaxSize: 160, MaxScale: 20}})),
		)
		meter := provider.Meter("lib", api.WithInstrumentationVersion("1.2"))
		requests, err := meter.Int64Counter("http.requests", api.WithDescription("Requests served."), api.WithUnit("{request}"))
		s.must(err)
		requests.Add(ctx, 7, api.WithAttributes(attribute.String("http.route", "/a"), attribute.StringSlice("tags", []string{"x", "y"})))
		load, err := meter.Float64Gauge("cpu.load", api.WithUnit("1"))
		s.must(err)
		load.Record(ctx, 0.25)
		duration, err := meter.Float64Histogram("http.duration", api.WithUnit("s"), api.WithExplicitBucketBoundaries(0.1, 1))
		s.must(err)
		size, err := meter.Int64Histogram("payload.size", api.WithUnit("By"))
		s.must(err)
		for i := range 10 {
			duration.Record(ctx, float64(i)/5)
			size.Record(ctx, int64(i*100))
		}
		err = provider.ForceFlush(ctx)
		_ = provider.Shutdown(ctx) // it exports again
		return err
	}
	ask := func(path, query string) string {
		resp, err := http.Get(server.URL + path + "?query=" + url.QueryEscape(query))
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		var answer struct {
			Data struct {
				Result []struct {
					Metric map[string]string
					Value  [2]any
				}
			}
		}
		if err != nil || json.Unmarshal(b, &answer) != nil || len(answer.Data.Result) == 0 {
			return fmt.Sprint(err, string(b))
		}
		var all []string
		for _, r := range answer.Data.Result {
			all = append(all, fmt.Sprint(r.Metric, r.Value[1]))
		}
		return strings.Join(all, " ")
	}
	cumulative := metric.DefaultTemporalitySelector
	at := strings.TrimPrefix(server.URL, "http://")
	const path = "/api/v1/query"
	s.check("export to the address of the server", export(cumulative, otlpmetrichttp.WithEndpoint(at)))
	s.equal("a counter", ask(path, `http_requests_total`), `map[__name__:http_requests_total http_route:/a instance:a1 job:eu/shop tags:["x","y"]]7`)
	s.equal("a gauge", ask(path, `cpu_load_ratio`), `map[__name__:cpu_load_ratio instance:a1 job:eu/shop]0.25`)
	s.equal("buckets", ask(path, `sum by (le) (http_duration_seconds_bucket)`), `map[le:+Inf]10 map[le:0.1]1 map[le:1]6`)
	s.equal("a quantile of buckets", ask(path, `histogram_quantile(0.5, http_duration_seconds_bucket)`), `map[instance:a1 job:eu/shop]0.8200000000000001`)
	s.equal("the sum of a native histogram", ask(path, `histogram_sum(payload_size_bytes)`), `map[instance:a1 job:eu/shop]4500`)
	s.equal("the count of a native histogram", ask(path, `histogram_count(payload_size_bytes)`), `map[instance:a1 job:eu/shop]10`)
	s.equal("a join with the resource", ask(path, `cpu_load_ratio * on (job, instance) group_left (host_name) target_info`), `map[host_name:h1 instance:a1 job:eu/shop]0.25`)
	s.check("export with gzip to a database by path", export(cumulative, otlpmetrichttp.WithEndpoint(at), otlpmetrichttp.WithURLPath("/prometheus/own/api/v1/otlp/v1/metrics"), otlpmetrichttp.WithCompression(otlpmetrichttp.GzipCompression)))
	s.equal("the database by path", ask("/prometheus/own"+path, `http_requests_total`), `map[__name__:http_requests_total http_route:/a instance:a1 job:eu/shop tags:["x","y"]]7`)
	err := export(func(metric.InstrumentKind) metricdata.Temporality { return metricdata.DeltaTemporality }, otlpmetrichttp.WithEndpoint(at))
	s.equal("delta temporality is rejected by a partial success", fmt.Sprint(err), "failed to upload metrics: OTLP partial success: metric \"http.requests\": delta temporality is not supported, send cumulative temporality or let a collector convert it (processor deltatocumulative) (3 data points) (3 metric data points rejected)")
	err = export(cumulative, otlpmetrichttp.WithEndpoint(at), otlpmetrichttp.WithURLPath("/prometheus/nosuch/v1/metrics"))
	s.equal("a wrong path is an error", err != nil, true)
	metadata := server.Query("prometheus", `SELECT type, help, unit FROM "__metadata__" WHERE metric =~ /^(http_requests_total|payload_size_bytes)$/ GROUP BY metric`)
	s.equal("metadata of a counter", strings.Contains(metadata, `"counter","Requests served.",""]`), true)
	s.equal("metadata of a native histogram", strings.Contains(metadata, `"histogram","","bytes"]`), true)
}
