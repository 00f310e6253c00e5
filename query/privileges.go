package query

import (
	"cmp"
	"slices"

	"github.com/influxdata/influxql"

	"tsdbd/meta"
)

// Need is one thing that a statement asks of the user who runs it.
type Need struct {
	Admin     bool // nothing less will do
	Privilege meta.Privilege
	Database  string // "" when neither the statement nor the request names one
}

// Needs returns what running a statement takes, the database of the request
// filled in where the statement names none, by the same rule as in Normalize.
// Every source counts, however deep in subqueries, and the database that names
// it; so does the target of INTO. A kind of statement that has no rule takes an
// administrator. No needs at all: anyone may, and the answer holds only what the
// user may see (ExecuteOptions.MayRead and MaySee).
func Needs(stmt influxql.Statement, database string) []Need {
	r := ruleOf(stmt)
	if r.needs != nil {
		return r.needs(stmt, database)
	}
	need := Need{Privilege: meta.ReadPrivilege}
	switch r.access {
	case admin:
		return []Need{{Admin: true}}
	case anyone:
		return nil
	case writer:
		need.Privilege = meta.WritePrivilege
	}
	var sources influxql.Sources
	if r.names != nil {
		var name *string
		if name, sources = r.names(stmt); name != nil {
			database = cmp.Or(*name, database)
		}
	}
	need.Database = database
	return appendSources([]Need{need}, sources, need.Privilege, database)
}

func selectNeeds(stmt influxql.Statement, database string) []Need {
	return appendSelect(nil, stmt.(*influxql.SelectStatement), database)
}

func explainNeeds(stmt influxql.Statement, database string) []Need {
	return appendSelect(nil, stmt.(*influxql.ExplainStatement).Statement, database)
}

// continuousNeeds is also what the query will read and write when nobody is asked
// any more.
func continuousNeeds(stmt influxql.Statement, database string) []Need {
	s := stmt.(*influxql.CreateContinuousQueryStatement)
	database = cmp.Or(s.Database, database)
	return appendSelect([]Need{{Privilege: meta.ReadPrivilege, Database: database}}, s.Source, database)
}

func measurementNeeds(stmt influxql.Statement, database string) []Need {
	s := stmt.(*influxql.ShowMeasurementsStatement)
	if s.WildcardDatabase {
		return nil
	}
	database = cmp.Or(s.Database, database)
	needs := []Need{{Privilege: meta.ReadPrivilege, Database: database}}
	if s.Source == nil {
		return needs
	}
	return appendSources(needs, influxql.Sources{s.Source}, meta.ReadPrivilege, database)
}

// appendSelect appends the needs of a SELECT and its subqueries.
func appendSelect(dst []Need, s *influxql.SelectStatement, database string) []Need {
	dst = appendSources(dst, s.Sources, meta.ReadPrivilege, database)
	if s.Target != nil && s.Target.Measurement != nil {
		dst = appendNeed(dst, Need{Privilege: meta.WritePrivilege, Database: cmp.Or(s.Target.Measurement.Database, database)})
	}
	return dst
}

// appendSources appends a need for the database of each source.
func appendSources(dst []Need, sources influxql.Sources, p meta.Privilege, database string) []Need {
	for _, source := range sources {
		switch source := source.(type) {
		case *influxql.Measurement:
			dst = appendNeed(dst, Need{Privilege: p, Database: cmp.Or(source.Database, database)})
		case *influxql.SubQuery:
			dst = appendSelect(dst, source.Statement, database)
		case nil:
		default:
			dst = appendNeed(dst, Need{Admin: true})
		}
	}
	return dst
}

// appendNeed appends a need that is not there yet.
func appendNeed(dst []Need, n Need) []Need {
	if slices.Contains(dst, n) {
		return dst
	}
	return append(dst, n)
}
