package query

import "github.com/influxdata/influxql"

// Place says which node of a cluster runs a statement.
type Place int

// The places, from the least to the most that they ask for. A node of the last one
// can run all statements.
const (
	ThisNode Place = iota + 1 // the statement is about the node that the client asked
	AnyNode                   // the statement reads what all nodes have
	Leader                    // the statement changes data or the catalog, or shows what the leader does
)

// PlaceOf returns which node can run all statements of a query. A kind of statement
// without a rule fails on every node.
func PlaceOf(q *influxql.Query) Place {
	place := ThisNode
	for _, stmt := range q.Statements {
		p := ruleOf(stmt).place
		if s, ok := stmt.(*influxql.SelectStatement); ok && s.Target != nil {
			p = Leader
		}
		place = max(place, p)
	}
	return place
}
