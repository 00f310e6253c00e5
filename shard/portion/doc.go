// Package portion chooses the series to which a merge applies moves, and finds them in
// the files that the moves concern.
//
// A merge that applies moves takes rows out of files: it writes the rows of some series,
// under their new names, to files of their own, and notes that the old files have these
// series no more. The moves connect the series of a portion with no other. So they can be
// applied to the portion alone, and each merge is bounded, however large the shard is.
package portion
