// Package repair puts right what damage has done to the files of a shard.
//
// Files that cannot be trusted go to the Quarantine of their directory, each
// with a text that says why and what is lost. What can be derived from TSM files
// is rebuilt from them: Load and Manifest read their sequences, Index their keys, ids,
// and fields, and Series restores keys and ids in a series file. Strays are files that a
// crash has left, or that a manifest which is lost has named.
//
// The shard decides when to call these. Opening it does so for every kind of
// damage; a running shard rebuilds only its index.
//
// Invariants: nothing is deleted. A TSM file is never rewritten.
package repair
