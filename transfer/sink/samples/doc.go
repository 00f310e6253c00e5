// Package samples writes exported rows as series of Prometheus: as OpenMetrics text or as
// VictoriaMetrics' lines of JSON.
//
// The names of metrics and labels are those by which PromQL finds the rows, see package
// prom. Each number and boolean is a sample at the millisecond of its row, and of rows in
// one millisecond the last one counts. Texts are no samples. Neither form has a place for
// native histograms, and OpenMetrics has none for stale markers. Skipped counts the values
// that are left out.
//
// Samples of a series come in ascending time within a shard, and the shards of a
// measurement in order of time. Memory is bounded for any number of series and fields.
package samples
