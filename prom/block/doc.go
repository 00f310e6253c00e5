// Package block reads the blocks of Prometheus' storage: those of a snapshot, or of the
// directory of a server.
//
// List finds the blocks of a directory. A Reader walks the series of one block and yields
// their samples as rows, in the mapping of package prom. The mapped index is all that a
// Reader holds of a block, however many series there are. Blocks do not change once they
// are written, so that the number of a series in its block is always the same.
//
// A Reader reports a damaged chunk with its file and offset, and reads the other chunks.
//
// The package uses the readers that Prometheus has of the files of a block, but not its
// storage. It never writes to the directory.
package block
