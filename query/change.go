package query

import (
	"cmp"
	"slices"

	"github.com/influxdata/influxql"

	"tsdbd/query/admission"
)

// effect says what a statement does to data and to the catalog.
type effect int

const (
	destroys effect = iota // removes or alters what is there, or ends a query
	adds                   // points, a part of the catalog, a right, a password
	reads                  // changes nothing
)

// Change is a statement that changes something.
type Change struct {
	Statement string `json:"statement"` // its text, without passwords
	Database  string `json:"database"`  // that it is about, "" if it is about none
	Destroys  bool   `json:"destroys"`  // it removes or alters what is there, or ends a query
}

// Changes returns the statements of q that change something. These are all but SHOW,
// SELECT without INTO, and EXPLAIN of such a SELECT. database is that of the request.
func Changes(q *influxql.Query, database string) (changes []Change) {
	for _, stmt := range q.Statements {
		if does := effectOf(stmt); does != reads {
			changes = append(changes, Change{admission.RedactURLs(stmt.String()), databaseOf(stmt, database), does == destroys})
		}
	}
	return changes
}

// OnlyReads reports whether q changes nothing, so that Changes would return nothing.
func OnlyReads(q *influxql.Query) bool {
	return !slices.ContainsFunc(q.Statements, func(stmt influxql.Statement) bool { return effectOf(stmt) != reads })
}

// effectOf returns what a statement does.
func effectOf(stmt influxql.Statement) effect {
	if targetOf(stmt) != nil {
		return adds
	}
	return ruleOf(stmt).effect
}

// targetOf returns the INTO of a SELECT, or of one that is explained; nil is none.
func targetOf(stmt influxql.Statement) *influxql.Target {
	switch s := stmt.(type) {
	case *influxql.SelectStatement:
		return s.Target
	case *influxql.ExplainStatement:
		return s.Statement.Target
	}
	return nil
}

// databaseOf returns the database that a statement changes, "" for one that changes no
// database. database is that of the request.
func databaseOf(stmt influxql.Statement, database string) string {
	if target := targetOf(stmt); target != nil {
		return cmp.Or(target.Measurement.Database, database)
	}
	r := ruleOf(stmt)
	if r.names == nil {
		return ""
	}
	if name, _ := r.names(stmt); name != nil && (*name != "" || r.explicit) {
		return *name
	}
	return database
}

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
