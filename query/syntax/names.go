package syntax

import (
	"errors"
	"fmt"

	"github.com/influxdata/influxql"

	"tsdbd/meta"
)

// ErrDatabaseNameRequired has InfluxDB's text.
var ErrDatabaseNameRequired = errors.New("database name required")

// Resolve fills in the database and retention policy of every measurement of node
// that names none, in place, subqueries and the target of INTO included. policy ""
// is the default policy of the database. The errors are InfluxDB's:
// ErrDatabaseNameRequired, or a meta.ErrDatabaseNotFound.
func Resolve(node influxql.Node, catalog *meta.Data, database, policy string) error {
	var first error
	influxql.WalkFunc(node, func(n influxql.Node) {
		if m, ok := n.(*influxql.Measurement); ok && first == nil {
			first = resolveMeasurement(m, catalog, database, policy)
		}
	})
	return first
}

func resolveMeasurement(m *influxql.Measurement, catalog *meta.Data, database, policy string) error {
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

// Clone copies a SELECT. The copy that influxql makes forgets that INTO takes the names of
// the sources (:MEASUREMENT), and Resolve would refuse it.
func Clone(stmt *influxql.SelectStatement) *influxql.SelectStatement {
	clone := stmt.Clone()
	if stmt.Target != nil {
		clone.Target.Measurement = stmt.Target.Measurement.Clone()
	}
	return clone
}

// RefuseSystemSources refuses a SELECT, wherever in stmt, that reads from a name
// that InfluxDB keeps for itself.
func RefuseSystemSources(stmt influxql.Statement) (err error) {
	influxql.WalkFunc(stmt, func(n influxql.Node) {
		s, ok := n.(*influxql.SelectStatement)
		if !ok {
			return
		}
		for _, source := range s.Sources {
			m, ok := source.(*influxql.Measurement)
			if !ok || err != nil || !influxql.IsSystemName(m.Name) {
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
			err = fmt.Errorf("unable to use system source '%s': use %s instead", m.Name, instead)
		}
	})
	return err
}
