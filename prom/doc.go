// Package prom maps Prometheus' data model to ours. It is the one place that
// fixes the mapping:
//
//   - The name of a metric that is written is a measurement. The name of a metric
//     that is read is a measurement and a field (MetricName, Splits).
//   - All labels are tags, the name among them (NameLabel).
//   - A sample is a row with one float, the field ValueField, with all its bits:
//     NaN, the stale marker among them, and infinities. Its time in milliseconds
//     becomes nanoseconds.
//   - A native histogram is a row with one string, the field HistogramField
//     (AppendHistogram, ParseHistogram).
//   - The start timestamp of a sample or histogram is one more field of its row,
//     StartField.
//
// Rows turns time series of any protocol into rows of a batch. Labels turns a
// series back into labels; it also gives a name to series that line protocol
// wrote.
//
// The package does no input and output.
package prom
