// Package history keeps what the queries of the last hour have cost, by their shape: the
// text without its literals of time, so that the refreshes of a dashboard are one shape,
// with the language, the database and the user.
//
// History.Add counts a query that has ended: a hash of its text, and a short lock. Only the
// first query of a shape makes a text that is shown, without passwords. History.Since adds
// up the slots of five minutes that a time is in and those behind it.
//
// At most maxShapes and maxBytes are kept. What exceeds them goes, the shapes without a
// query in the last hour first, then those that took the least time, the oldest first. Nothing is on the
// disk: a restart begins with nothing.
//
// A History is safe for concurrent use.
package history
