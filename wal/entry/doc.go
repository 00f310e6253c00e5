// Package entry is the codec of log entries: the points of a write request, a delete,
// a move, or a change of the catalog, as bytes. It does not know the log that keeps them.
//
// An Encoder makes an entry's payload. The payload names series by their ids; the
// keys travel in blocks of definitions, which Definitions makes for the series
// that a reader does not know yet. A Decoder takes blocks and payloads in the
// order in which they were made. It asks its owner for the keys of series that no
// block has defined.
//
// A payload decodes to the entry that it was made of, or the Decoder returns an
// error and nothing of the entry (W8). The codec has no checksum: the log that
// keeps the bytes vouches for them.
//
// Encoder, Definitions and Decoder are for one goroutine each.
package entry
