// Package result defines the answer of a statement: Results, which are pieces of
// tables in typed columns. Encoders read them. Statements other than SELECT
// build their tables with NewTable and AddRow.
package result
