// Package parquet writes flat tables as Parquet files.
//
// A Writer takes columns as typed vectors, a few rows at a time. It encodes full pages at
// once, keeps the pages of a row group in memory, and writes the group when it has
// Options.GroupRows rows or holds Options.GroupBytes bytes. Close writes the footer.
// Columns may be added while rows are written: earlier rows have no value in them.
//
// Encodings: times and integers are DELTA_BINARY_PACKED, texts are dictionaries until the
// dictionary grows too large, other values are PLAIN. Pages are compressed with Snappy and
// have checksums. Each column of a group has its number of nulls and, for short values,
// its least and its greatest value.
//
// The package writes what the format's readers agree on and nothing else: no nested
// columns, no indexes of pages, no encryption. It has no reader.
//
// Guarantees:
//
//   - Values keep all their bits, NaN among them. A column of texts is a STRING if all of
//     them are UTF-8, and plain bytes otherwise.
//   - A file without its footer is not a Parquet file, so that a reader recognizes an
//     output that broke off.
//   - Memory is bounded by Options.GroupBytes and the rows of one call, plus a few hundred
//     bytes for each column of each group. Options.Charge knows all of it.
//
// A Writer belongs to one goroutine.
package parquet
