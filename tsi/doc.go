// Package tsi indexes the series of a shard: which there are, and which of them
// a predicate over tags selects.
//
// An Index, one per shard, is the inverted index. AddSeries puts a series into
// the mutable segment; Freeze cuts the segment off as a Snapshot, whose
// WriteFile writes a File; Publish puts the File in the segment's place, and
// MergeFiles makes one File of several. A View is an immutable picture of all
// layers: Select turns a model.TagExpr into a set of ids, GroupBy and
// TagValues answer from dictionaries and postings.
//
// Invariants. A series id never changes its key, so what a layer says of an
// id stays true for ever; deleting a series only takes it out of the index's
// living set (W5), and every answer is cut to the living set of its View.
// Bytes are checked before they are believed: each block, page and section
// has a CRC32C (W8), damage is a *binio.CorruptError. Files never change once
// written (W4) and are unmapped, or removed, with their last reference (W6).
// The same calls give the same files (W10). Everything here can be rebuilt
// from the series keys in data files and the write-ahead log.
//
// A field has the type that RegisterFields gives it, which the applier of the
// log calls. A write on its way there holds the types of its new fields by a
// FieldClaim, which no reader and no file shows.
//
// The package knows nothing of the log, of shards' manifests, or of which
// files belong together; its owner does. It keeps no goroutines.
//
// An Index has one writer
// (AddSeries, RemoveSeries, Freeze, Publish, ReplaceFiles), any number of
// goroutines that call RegisterFields, CheckFields, ClaimFields, Contains and
// View, and a View any number of readers.
package tsi
