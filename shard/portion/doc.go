// Package portion chooses the series of which a merge makes the moves, and finds them in
// the files that the moves concern.
//
// A merge that makes moves takes rows out of files: it writes the rows of some series, as
// the moves have left them, to files of their own, and notes that the old files have these
// series no more. The series of a portion are connected with no other by the moves. So the
// moves can be made of them alone, and each merge is bounded, however large the shard is.
package portion
