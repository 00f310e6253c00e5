// Package syntax parses InfluxQL. Parse tries InfluxDB's grammar first
// (github.com/influxdata/influxql). If the grammar rejects the text, Parse looks
// for the statements and clauses that only tsdbd has.
//
// A clause of our own is rewritten to InfluxQL before the text is parsed: IN,
// BETWEEN, HAVING, fill(previous, d), and windows of calendar months. The planner
// knows only two of them, the months and the look-back of fill(previous, d). The clause COLD of
// retention policies is cut out and kept beside the statement.
//
// CheckRegexes bounds the regular expressions of a text before they are compiled.
package syntax
