// Package touched knows which windows of downsamples are to be computed: those that
// entries of the log have touched since they were computed last.
//
// The store calls Marks where it applies entries, in their order: Write and Delete for
// rows, Before and After around a change of the catalog. So all nodes of a cluster have
// the same marks, and a replay makes them again. A mark is a span of windows of one
// measurement, or of all measurements, with the sequences of the last entries that touched
// it, one for the rows of the source and one for those of the target. The service that
// computes windows looks at Waiting, reads the store, and has the log take
// meta.CompleteWindows with the sequences up to which it has read. That removes the marks
// in which neither sequence is higher.
//
// Marks may be more than is true, never less: a window that is computed again gets the
// same rows. Therefore the marks of a downsample that no file has are all windows of its
// source, and if there are too many spans, those of the measurements with most are joined
// over all windows of the source.
//
// Shard is for rows that come without the log, and is followed by Save.
//
// The file meta/touched has the marks (docs/formats/touched.md). Save must come before
// the log gives up entries, and before the catalog's files have a change that marks follow
// from.
//
// Marks may be used by any number of goroutines, but one at a time calls Write, Delete,
// Before and After.
package touched
