// Package otlp turns OpenTelemetry metrics (OTLP) into series of Prometheus, as
// Prometheus' own receiver does.
//
// FromJSON turns a request in JSON into protobuf. Request translates a request in
// protobuf: it gives each data point to prom.Rows and counts what cannot be stored in a
// Result. Result.Response and Status are the answers of OTLP over HTTP. Options are the
// settings of Prometheus' receiver.
//
// The package reads protobuf field by field, in place, and never builds a message in
// memory. The generated code of OTLP serves FromJSON as the list of the fields.
//
// # Rules
//
//   - Gauges, sums, histograms and summaries become floats. Exponential histograms
//     become native histograms. A data point without a recorded value becomes a stale
//     marker.
//   - Names, units and labels are those of Prometheus' default settings. The attributes
//     service.name, service.namespace and service.instance.id become the labels job and
//     instance. The other attributes of a resource become labels of target_info.
//   - What is wrong with a data point, a metric or a scope costs only its own data
//     points. Bytes that are not a request cost the whole request.
//   - Delta temporality is rejected.
//   - Exemplars go to the series of their data point, those of a histogram to a bucket.
//
// Memory is bounded: rows are charged before they are made (prom.Rows), because a
// request can repeat long labels of its resource for every data point.
//
// The package does no input and output. Its functions may be called concurrently.
package otlp
