// Package tsi indexes the series of a shard: which there are, and which of them
// a predicate over tags selects.
//
// An Index, one per shard, is the inverted index. AddSeries puts a series into
// the memtable, AddBatch very many that were indexed in a memtable of their own. Freeze turns the memtable into a Snapshot and starts a new
// memtable. Snapshot.WriteFile writes the Snapshot to a File, and Publish replaces
// the Snapshot by that File. MergeFiles merges several Files into one. A View is an
// immutable picture of all layers: Select turns a model.TagExpr into a set of ids,
// and GroupBy and TagValues answer from dictionaries and postings.
//
// Invariants. A series id never changes its key, so a layer's facts about an id stay
// true forever. Deleting a series only removes it from the index's living set (W5),
// and a View answers with series of its living set only. Each page and section has
// a CRC32C that is checked before the bytes are used (W8), and damage is a
// *binio.CorruptError. Files never change once written (W4). The last reference
// unmaps a file, and removes it if it is obsolete (W6). The same calls give the same
// files (W10). The index can be rebuilt from the series keys in data files and the
// write-ahead log.
//
// RegisterFields, which the applier of the log calls, gives a field its type. Until
// its entry is applied, a write holds the types of its new fields by a FieldClaim,
// which no reader and no file shows.
//
// The package does not know the log, the manifests of shards, or which files belong
// together: its owner does. It keeps no goroutines.
//
// One goroutine writes to an Index (AddSeries, RemoveSeries, Freeze, Publish,
// ReplaceFiles). Any number may call RegisterFields, CheckFields, ClaimFields,
// Contains and View, and any number may read a View.
package tsi
