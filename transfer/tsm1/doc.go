// Package tsm1 reads the data of InfluxDB from its files, without a server: TSM files of
// version 1, tombstones, the WAL, and the catalog of InfluxDB 1.x, and the same files below
// the engine directory of InfluxDB 2.x. docs/formats/influxdb-tsm1.md describes the bytes.
//
// Open finds out what a directory is (layout.go, backup.go) and what its shards are.
// Source.Rows reads the rows of a shard. It reads the index of each file once to find
// fields of several types and series out of order (head.go). Then it merges the indexes
// and the log series by series (reader.go), merges the sources of each column
// (columns.go), and joins the columns by time into runs.
//
// What wins is what wins in InfluxDB: the log over files, a later file over an earlier
// one, a later write of the log over an earlier one. Tombstones hide rows of their own
// file. Deletes of the log hide what the log has before them.
//
// Invariants: no file of the source is changed. Memory does not grow with the number of
// series, nor with the size of the log and of tombstones. A reader holds one decoded block
// of each field of a series, and of very many fields a part of a block. The log of one
// series, and the index entries of its blocks, are in memory as a whole. Blocks have checksums:
// a reader reports damage with file and offset, and reads the rest. The index, tombstones, the
// log and the catalog have no checksums in InfluxDB: a reader takes what it can read of them.
package tsm1
