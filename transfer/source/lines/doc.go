// Package lines reads text as the parts of a mover.List: line protocol as exchange.Export or
// influx_inspect wrote it, VictoriaMetrics' lines of JSON, and with Part any other text, which
// may be compressed by gzip or zstd.
//
// Guarantees:
//
//   - Each line is passed on or refused, and named with its number.
//   - A line ends where a server ends it: a line break within a string belongs to the line. So
//     the text of a string never becomes a line, even if the line is too long or has no end.
//   - Memory is bounded by the longest line that can be stored.
package lines
