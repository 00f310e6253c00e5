package query

import (
	"errors"
	"fmt"

	"github.com/influxdata/influxql"

	"tsdbd/meta"
	"tsdbd/query/syntax"
)

// Normalize fills in the database and retention policy where a statement names
// none, in place. The errors are InfluxDB's: ErrDatabaseNameRequired, or a
// meta.ErrDatabaseNotFound.
func Normalize(stmt influxql.Statement, catalog *meta.Data, database, policy string) error {
	fill := func(name *string) {
		if *name == "" {
			*name = database
		}
	}
	if of, sources, ok := shown(stmt); ok {
		fill(of)
		switch stmt.(type) {
		case *influxql.ShowTagKeysStatement, *influxql.ShowTagValuesStatement:
			return nil // these two look at all policies where a source names none
		}
		return normalizeSources(sources, catalog, *of, policy)
	}
	switch s := stmt.(type) {
	case *influxql.ShowRetentionPoliciesStatement:
		fill(&s.Database)
	case *influxql.ShowMeasurementsStatement:
		if !s.WildcardDatabase {
			fill(&s.Database)
		}
		return nil
	case *influxql.DropSeriesStatement, *influxql.DeleteSeriesStatement:
		return nil // a source without a policy is all policies
	case *influxql.CreateContinuousQueryStatement:
		if s.Database == "" {
			s.Database = database
		}
		return normalizeNode(stmt, catalog, s.Database, policy)
	}
	return normalizeNode(stmt, catalog, database, policy)
}

// shown returns the database, perhaps not named, and the sources of a statement
// that shows what measurements hold.
func shown(stmt influxql.Statement) (database *string, sources influxql.Sources, ok bool) {
	switch s := stmt.(type) {
	case *influxql.ShowSeriesStatement:
		return &s.Database, s.Sources, true
	case *influxql.ShowFieldKeysStatement:
		return &s.Database, s.Sources, true
	case *influxql.ShowTagKeysStatement:
		return &s.Database, s.Sources, true
	case *influxql.ShowTagValuesStatement:
		return &s.Database, s.Sources, true
	case *influxql.ShowSeriesCardinalityStatement:
		return &s.Database, s.Sources, true
	case *influxql.ShowMeasurementCardinalityStatement:
		return &s.Database, s.Sources, true
	case *influxql.ShowFieldKeyCardinalityStatement:
		return &s.Database, s.Sources, true
	case *influxql.ShowTagKeyCardinalityStatement:
		return &s.Database, s.Sources, true
	case *influxql.ShowTagValuesCardinalityStatement:
		return &s.Database, s.Sources, true
	}
	return nil, nil, false
}

func normalizeSources(sources influxql.Sources, catalog *meta.Data, database, policy string) error {
	for _, source := range sources {
		if err := normalizeNode(source, catalog, database, policy); err != nil {
			return err
		}
	}
	return nil
}

func normalizeNode(node influxql.Node, catalog *meta.Data, database, policy string) error {
	var first error
	influxql.WalkFunc(node, func(n influxql.Node) {
		if m, ok := n.(*influxql.Measurement); ok && first == nil {
			first = normalizeMeasurement(m, catalog, database, policy)
		}
	})
	return first
}

func normalizeMeasurement(m *influxql.Measurement, catalog *meta.Data, database, policy string) error {
	if m.Name == "" && m.SystemIterator == "" && m.Regex == nil && !m.IsTarget {
		return errors.New("invalid measurement")
	}
	if m.Database == "" {
		m.Database = database
	}
	if m.Database == "" {
		return ErrDatabaseNameRequired
	}
	db := catalog.Database(m.Database)
	if db == nil {
		return fmt.Errorf("%w: %s", meta.ErrDatabaseNotFound, m.Database)
	}
	switch {
	case m.RetentionPolicy != "":
	case policy != "":
		m.RetentionPolicy = policy
	case db.DefaultRetentionPolicy != "":
		m.RetentionPolicy = db.DefaultRetentionPolicy
	default:
		return fmt.Errorf("default retention policy not set for: %s", db.Name)
	}
	return nil
}

// refuseSystemSources refuses SELECT from names that InfluxDB keeps for itself.
func refuseSystemSources(stmt influxql.Statement) error {
	s, ok := stmt.(*influxql.SelectStatement)
	if !ok {
		return nil
	}
	for _, source := range s.Sources {
		m, ok := source.(*influxql.Measurement)
		if !ok || !influxql.IsSystemName(m.Name) {
			continue
		}
		instead := "the appropriate meta command"
		switch m.Name {
		case "_fieldKeys":
			instead = "SHOW FIELD KEYS"
		case "_measurements":
			instead = "SHOW MEASUREMENTS"
		case "_series":
			instead = "SHOW SERIES"
		case "_tagKeys":
			instead = "SHOW TAG KEYS"
		case "_tags":
			instead = "SHOW TAG VALUES"
		}
		return fmt.Errorf("unable to use system source '%s': use %s instead", m.Name, instead)
	}
	return nil
}

// changesState reports whether a statement is one that a GET request should
// not have carried. DELETE is not among them, as in InfluxDB.
func changesState(stmt influxql.Statement) bool {
	switch s := stmt.(type) {
	case *syntax.ExecuteContinuous, *influxql.AlterRetentionPolicyStatement, *influxql.CreateContinuousQueryStatement,
		*influxql.CreateDatabaseStatement, *influxql.CreateRetentionPolicyStatement,
		*influxql.CreateSubscriptionStatement, *influxql.CreateUserStatement,
		*influxql.DropContinuousQueryStatement, *influxql.DropDatabaseStatement,
		*influxql.DropMeasurementStatement, *influxql.DropSeriesStatement,
		*influxql.DropRetentionPolicyStatement, *influxql.DropShardStatement,
		*influxql.DropSubscriptionStatement, *influxql.DropUserStatement,
		*influxql.GrantStatement, *influxql.GrantAdminStatement, *influxql.KillQueryStatement,
		*influxql.RevokeStatement, *influxql.RevokeAdminStatement, *influxql.SetPasswordUserStatement:
		return true
	case *influxql.SelectStatement:
		return s.Target != nil
	}
	return false
}
