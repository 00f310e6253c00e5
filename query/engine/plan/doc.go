// Package plan turns a SELECT into a plan. A Planner compiles the statement and its
// subqueries (Compiled): it checks them, with the error texts of InfluxDB 1.12, and
// resolves their time ranges. Then it opens a scan.View for each database and
// retention policy, expands regular expressions and wildcards, and gives each
// reference the widest type of all shards in the time range. The plan has one
// Level for each SELECT.
//
// A Level says what to read and which functions to call, not how. It does not
// change once it is planned. The names of a statement must be resolved before
// (syntax.Resolve).
package plan
