package query

import (
	"github.com/influxdata/influxql"

	"tsdbd/meta"
	"tsdbd/query/syntax"
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
// it; so does the target of INTO. A kind of statement that is not known here
// takes an administrator. No needs at all: anyone may, and the answer holds
// only what the user may see (ExecuteOptions.MayRead and MaySee).
func Needs(stmt influxql.Statement, database string) []Need {
	on := func(name string) string {
		if name != "" {
			return name
		}
		return database
	}
	read := func(name string, sources influxql.Sources) []Need {
		db := on(name)
		return appendSources([]Need{{Privilege: meta.ReadPrivilege, Database: db}}, sources, meta.ReadPrivilege, db)
	}
	write := func(name string, sources influxql.Sources) []Need {
		db := on(name)
		return appendSources([]Need{{Privilege: meta.WritePrivilege, Database: db}}, sources, meta.WritePrivilege, db)
	}
	if of, sources, ok := shown(stmt); ok {
		return read(*of, sources)
	}
	switch s := stmt.(type) {
	case *syntax.ShowCardinality:
		return read(s.Database, nil)
	case *influxql.SelectStatement:
		return selectNeeds(nil, s, database)
	case *influxql.ExplainStatement:
		return selectNeeds(nil, s.Statement, database)
	case *influxql.ShowDatabasesStatement:
		return nil
	case *influxql.ShowMeasurementsStatement:
		if s.WildcardDatabase {
			return nil
		}
		return read(s.Database, sourceList(s.Source))
	case *influxql.ShowRetentionPoliciesStatement:
		return read(s.Database, nil)
	case *influxql.ShowContinuousQueriesStatement, *influxql.ShowQueriesStatement:
		return read("", nil)
	case *influxql.DeleteSeriesStatement:
		return write("", s.Sources)
	case *influxql.DropSeriesStatement:
		return write("", s.Sources)
	case *influxql.DropRetentionPolicyStatement:
		return write(s.Database, nil)
	case *influxql.DropContinuousQueryStatement:
		return write(s.Database, nil)
	case *influxql.CreateContinuousQueryStatement:
		// What it will read and write when nobody is asked any more.
		return selectNeeds(read(s.Database, nil), s.Source, on(s.Database))
	}
	return []Need{{Admin: true}}
}

// selectNeeds appends the needs of a SELECT and its subqueries.
func selectNeeds(dst []Need, s *influxql.SelectStatement, database string) []Need {
	dst = appendSources(dst, s.Sources, meta.ReadPrivilege, database)
	if s.Target != nil && s.Target.Measurement != nil {
		db := s.Target.Measurement.Database
		if db == "" {
			db = database
		}
		dst = appendNeed(dst, Need{Privilege: meta.WritePrivilege, Database: db})
	}
	return dst
}

// appendSources appends a need for the database of each source.
func appendSources(dst []Need, sources influxql.Sources, p meta.Privilege, database string) []Need {
	for _, source := range sources {
		switch source := source.(type) {
		case *influxql.Measurement:
			db := source.Database
			if db == "" {
				db = database
			}
			dst = appendNeed(dst, Need{Privilege: p, Database: db})
		case *influxql.SubQuery:
			dst = selectNeeds(dst, source.Statement, database)
		case nil:
		default:
			dst = appendNeed(dst, Need{Admin: true})
		}
	}
	return dst
}

// appendNeed appends a need that is not there yet.
func appendNeed(dst []Need, n Need) []Need {
	for _, have := range dst {
		if have == n {
			return dst
		}
	}
	return append(dst, n)
}

func sourceList(source influxql.Source) influxql.Sources {
	if source == nil {
		return nil
	}
	return influxql.Sources{source}
}
