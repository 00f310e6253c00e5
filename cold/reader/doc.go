// Package reader opens what a server has published in a cold store (package states) as a store
// that can only be read. There may be any number of readers: none of them writes to the
// cold store, and the server does not know them.
//
// A Reader keeps in a directory what it needs of a state: tails of cold files, and whole the
// files that are no cold files. The names are those of the objects, with ".tail" behind
// them for tails, so the next state fetches only what is new. Bodies are read through
// internal/coldcache.
//
// Invariants: a file gets its name when it is whole, synced, and checked against the name of
// the object. A store never shows a part of a state. Use by two processes is refused.
package reader
