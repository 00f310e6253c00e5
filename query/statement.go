package query

import (
	"fmt"

	"github.com/influxdata/influxql"

	"tsdbd/meta"
	"tsdbd/query/syntax"
)

// run executes one normalized statement.
func (s *session) run(stmt influxql.Statement) error {
	switch st := stmt.(type) {
	case *influxql.SelectStatement:
		return s.selectStatement(st)
	case *influxql.ExplainStatement:
		return s.explain(st)

	case *influxql.ShowDatabasesStatement:
		return s.showDatabases()
	case *influxql.ShowRetentionPoliciesStatement:
		return s.showRetentionPolicies(st)
	case *influxql.ShowShardsStatement:
		return s.showShards()
	case *influxql.ShowShardGroupsStatement:
		return s.showShardGroups()
	case *influxql.ShowUsersStatement:
		return s.showUsers()
	case *influxql.ShowGrantsForUserStatement:
		return s.showGrants(st)
	case *influxql.ShowContinuousQueriesStatement:
		return s.showContinuousQueries()
	case *influxql.ShowSubscriptionsStatement:
		return s.showSubscriptions()

	case *influxql.ShowMeasurementsStatement:
		return s.showMeasurements(st)
	case *influxql.ShowSeriesStatement:
		return s.showSeries(st)
	case *influxql.ShowFieldKeysStatement:
		return s.showFieldKeys(st)
	case *influxql.ShowTagKeysStatement:
		return s.showTagKeys(st)
	case *influxql.ShowTagValuesStatement:
		return s.showTagValues(st)
	case *influxql.ShowSeriesCardinalityStatement:
		return s.showSeriesCardinality(st)
	case *influxql.ShowMeasurementCardinalityStatement:
		return s.showMeasurementCardinality(st)
	case *influxql.ShowFieldKeyCardinalityStatement:
		return s.showFieldKeyCardinality(st)
	case *influxql.ShowTagKeyCardinalityStatement:
		return s.showTagKeyCardinality(st)
	case *influxql.ShowTagValuesCardinalityStatement:
		return s.showTagValuesCardinality(st)

	case *syntax.ShowCardinality:
		return s.showCardinality(st)
	case *syntax.ExecuteContinuous:
		return s.executeContinuous(st)

	case *influxql.ShowQueriesStatement:
		return s.showQueries()
	case *influxql.KillQueryStatement:
		return s.killQuery(st)
	case *influxql.ShowStatsStatement:
		return s.showStats(st)
	case *influxql.ShowDiagnosticsStatement:
		return s.showDiagnostics(st)

	case *influxql.DeleteSeriesStatement:
		return s.deleteRows(st)
	case *influxql.DropSeriesStatement:
		return s.dropSeries(st)
	case *influxql.DropMeasurementStatement:
		return s.dropMeasurement(st)
	}
	if cmd, known, err := s.command(stmt); known {
		if err != nil || cmd == nil {
			return err
		}
		return s.opt.Admin.Apply(s.ctx, cmd)
	}
	return fmt.Errorf("statement not supported yet: %s", stmt)
}

// catalog returns the present catalog.
func (s *session) catalog() *meta.Data { return s.opt.Admin.Catalog() }

// databaseOf returns the database a statement works on.
func (s *session) databaseOf(name string) (*meta.Database, error) {
	if name == "" {
		return nil, ErrDatabaseNameRequired
	}
	db := s.catalog().Database(name)
	if db == nil {
		return nil, fmt.Errorf("%w: %s", meta.ErrDatabaseNotFound, name)
	}
	return db, nil
}
