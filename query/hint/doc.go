// Package hint says why a SELECT has no rows: a name that does not exist, a text in
// double quotes, a value that no series has, a time range without rows.
//
// An Asker looks at the catalog and at indexes, never at points. It makes maxLooks
// look-ups at most, compares maxNames names at most, and then says what it knows,
// which may be nothing: of a policy with hundreds of shards it may look at too few.
// It names no database that the user may not read.
//
// A text claims only what the look-ups showed.
package hint
