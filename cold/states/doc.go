// Package states publishes what a server has in a cold store, so that readers can open it
// without the server (package reader).
//
// A state is the manifest of a backup of the cold shards: the catalog cut to them, their
// manifests, and the names of the objects that have their files. What of it is no cold file, as
// indexes, logs of series, and rows that came late, is put beside the cold files.
//
//	cold/states/<owner>-<term>-<number>   in hexadecimal; the greatest counts
//
// The owner is the number of the one whose the store is, the term that of the leader of a
// cluster, 0 of a single server. So a leader that was deposed, and a server that has lost the store to
// another one, publish states that do not count any more.
//
// Invariants: a state is put after all objects that it names, under the lock of the store.
// The newest state, and those of the last minutes, are needed by readers: whoever removes objects
// keeps those (backup.NeededByStates).
package states
