// Package prom maps Prometheus' data model to ours. It is the one place that
// fixes the mapping:
//
//   - The name of a metric is a measurement.
//   - All labels are tags, the name among them (NameLabel).
//   - A sample is a row with one float, the field ValueField. Its time in
//     milliseconds becomes nanoseconds.
//
// Rows turns the time series of a remote write into rows of a batch. Select
// turns matchers into a Selection of measurements and series, and
// Query.Statement into the SELECT that answers a remote read. Labels turns a
// series back into labels; it also gives a name to series that line protocol
// wrote.
//
// The package also reads and writes the protobuf messages of remote write 1.0
// and remote read. It does no input and output.
package prom
