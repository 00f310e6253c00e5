// Package prom maps Prometheus' data model to ours. It is the one place that
// fixes the mapping:
//
//   - The name of a metric is a measurement.
//   - All labels are tags, the name among them (NameLabel).
//   - A sample is a row with one float, the field ValueField. Its time in
//     milliseconds becomes nanoseconds.
//
// Rows turns time series of any protocol into rows of a batch. Labels turns a
// series back into labels; it also gives a name to series that line protocol
// wrote.
//
// The package does no input and output.
package prom
