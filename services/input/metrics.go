package input

import "github.com/prometheus/client_golang/prometheus"

// Named is an open input, for metrics.
type Named struct {
	Kind, Protocol string // graphite, tcp
	Bind           string // as configured
	Counts         *Counts
}

// Metrics shows inputs' counts in /metrics. The inputs are those of the
// configuration, so their number is bounded.
type Metrics []Named

var figures = []struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(c *Counts) int64
}{
	{describe("bytes_total", "Bytes received."), prometheus.CounterValue, func(c *Counts) int64 { return c.Bytes.Load() }},
	{describe("points_total", "Points received and understood."), prometheus.CounterValue, func(c *Counts) int64 { return c.Points.Load() }},
	{describe("points_bad_total", "Lines, parts and points that were not understood or cannot be stored."), prometheus.CounterValue, func(c *Counts) int64 { return c.BadPoints.Load() }},
	{describe("points_dropped_total", "Points dropped because all batches were waiting to be written."), prometheus.CounterValue, func(c *Counts) int64 { return c.Dropped.Load() }},
	{describe("points_written_total", "Points made durable."), prometheus.CounterValue, func(c *Counts) int64 { return c.Written.Load() }},
	{describe("points_refused_total", "Points refused by the store: type conflicts, retention, limits."), prometheus.CounterValue, func(c *Counts) int64 { return c.Refused.Load() }},
	{describe("points_failed_total", "Points of batches that were given up."), prometheus.CounterValue, func(c *Counts) int64 { return c.Failed.Load() }},
	{describe("batches_total", "Batches written."), prometheus.CounterValue, func(c *Counts) int64 { return c.Batches.Load() }},
	{describe("batches_failed_total", "Batches given up."), prometheus.CounterValue, func(c *Counts) int64 { return c.BatchesFailed.Load() }},
	{describe("read_failures_total", "Failures to receive."), prometheus.CounterValue, func(c *Counts) int64 { return c.ReadFailures.Load() }},
	{describe("connections", "Open connections."), prometheus.GaugeValue, func(c *Counts) int64 { return c.Connections.Load() }},
	{describe("connections_total", "Connections accepted."), prometheus.CounterValue, func(c *Counts) int64 { return c.Connected.Load() }},
}

func describe(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("tsdbd_input_"+name, help, []string{"input", "protocol", "bind"}, nil)
}

// Describe implements prometheus.Collector.
func (m Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range figures {
		ch <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (m Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, in := range m {
		for _, f := range figures {
			ch <- prometheus.MustNewConstMetric(f.desc, f.kind, float64(f.read(in.Counts)), in.Kind, in.Protocol, in.Bind)
		}
	}
}
