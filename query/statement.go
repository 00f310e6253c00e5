package query

import (
	"errors"
	"fmt"
	"reflect"
	"unicode/utf8"

	"github.com/influxdata/influxql"

	"tsdbd/meta"
	"tsdbd/query/result"
	"tsdbd/query/show"
	"tsdbd/query/syntax"
)

// rule says how one kind of statement runs, and what it takes.
type rule struct {
	kind reflect.Type
	run  func(s *session, stmt influxql.Statement) error
	// names returns where the statement has the name of its database, nil for
	// nowhere, and the sources that it reads or writes. Nil is a statement that is
	// about no database.
	names func(stmt influxql.Statement) (database *string, sources influxql.Sources)
	// explicit: the statement names its database. That of the request never stands in for
	// an empty name.
	explicit bool
	// allPolicies: a source that names no policy means all policies.
	allPolicies bool
	access      access
	needs       func(stmt influxql.Statement, database string) []Need // instead of access
	effect      effect
	changes     bool // a GET request should not have carried it
	turn        bool // it reads data or an index, and so waits for a turn
	place       Place
}

// access is what a user must be allowed to run a statement.
type access int

const (
	admin  access = iota
	reader        // of the database and of every source
	writer        // to them
	anyone        // the answer holds only what the user may see
)

// rules has a row for each kind of statement.
var rules = table(
	on(rule{needs: selectNeeds, effect: reads, turn: true, place: AnyNode}, (*session).selectStatement),
	on(rule{needs: explainNeeds, effect: reads, turn: true, place: AnyNode}, (*session).explain),

	shows(rule{access: anyone}, (*output).together, (*show.Statement).ShowDatabases),
	shows(rule{access: reader, names: named(func(st *influxql.ShowRetentionPoliciesStatement) *string { return &st.Database })}, (*output).together, (*show.Statement).ShowRetentionPolicies),
	shows(rule{}, (*output).together, (*show.Statement).ShowShards),
	shows(rule{}, (*output).together, (*show.Statement).ShowShardGroups),
	shows(rule{}, (*output).together, (*show.Statement).ShowUsers),
	shows(rule{}, (*output).together, (*show.Statement).ShowGrants),
	shows(rule{access: reader}, (*output).together, (*show.Statement).ShowContinuousQueries),
	atLeader(shows(rule{access: reader}, (*output).together, (*show.Statement).ShowDownsamples)),
	shows(rule{}, (*output).together, (*show.Statement).ShowSubscriptions),
	here(shows(rule{}, (*output).together, (*show.Statement).ShowStats)),
	here(shows(rule{}, (*output).together, (*show.Statement).ShowDiagnostics)),
	here(never(shows(rule{access: reader}, (*output).together, (*show.Statement).ShowQueries))),
	here(never(shows(rule{}, (*output).together, (*show.Statement).ShowServers))),
	here(on(rule{changes: true}, (*session).killQuery)),

	shows(rule{needs: measurementNeeds, names: named(measurementDatabase)}, (*output).together, (*show.Statement).ShowMeasurements),
	shows(of(func(st *influxql.ShowSeriesStatement) (*string, influxql.Sources) { return &st.Database, st.Sources }), (*output).chunked, (*show.Statement).ShowSeries),
	shows(of(func(st *influxql.ShowFieldKeysStatement) (*string, influxql.Sources) { return &st.Database, st.Sources }), (*output).chunked, (*show.Statement).ShowFieldKeys),
	shows(ofAll(func(st *influxql.ShowTagKeysStatement) (*string, influxql.Sources) { return &st.Database, st.Sources }), (*output).separately, (*show.Statement).ShowTagKeys),
	shows(ofAll(func(st *influxql.ShowTagValuesStatement) (*string, influxql.Sources) { return &st.Database, st.Sources }), (*output).separately, (*show.Statement).ShowTagValues),
	shows(of(func(st *influxql.ShowSeriesCardinalityStatement) (*string, influxql.Sources) {
		return &st.Database, st.Sources
	}), (*output).chunked, (*show.Statement).ShowSeriesCardinality),
	shows(of(func(st *influxql.ShowMeasurementCardinalityStatement) (*string, influxql.Sources) {
		return &st.Database, st.Sources
	}), (*output).chunked, (*show.Statement).ShowMeasurementCardinality),
	shows(of(func(st *influxql.ShowFieldKeyCardinalityStatement) (*string, influxql.Sources) {
		return &st.Database, st.Sources
	}), (*output).chunked, (*show.Statement).ShowFieldKeyCardinality),
	shows(of(func(st *influxql.ShowTagKeyCardinalityStatement) (*string, influxql.Sources) {
		return &st.Database, st.Sources
	}), (*output).chunked, (*show.Statement).ShowTagKeyCardinality),
	shows(of(func(st *influxql.ShowTagValuesCardinalityStatement) (*string, influxql.Sources) {
		return &st.Database, st.Sources
	}), (*output).chunked, (*show.Statement).ShowTagValuesCardinality),
	shows(rule{access: reader, names: named(func(st *syntax.ShowCardinality) *string { return &st.Database })}, (*output).together, (*show.Statement).ShowCardinality),

	on(rule{access: writer, names: from(func(st *influxql.DeleteSeriesStatement) influxql.Sources { return st.Sources }), allPolicies: true, turn: true, place: Leader}, (*session).deleteRows),
	on(rule{access: writer, names: from(func(st *influxql.DropSeriesStatement) influxql.Sources { return st.Sources }), allPolicies: true, changes: true, place: Leader}, (*session).dropSeries),
	on(rule{names: from(func(*influxql.DropMeasurementStatement) influxql.Sources { return nil }), changes: true, place: Leader}, (*session).dropMeasurement),
	on(rule{access: writer, names: from((*syntax.Move).Sources), allPolicies: true, changes: true, turn: true, place: Leader}, (*session).move),

	changes(rule{effect: adds, explicit: true, names: named(func(st *influxql.CreateDatabaseStatement) *string { return &st.Name })}, (*session).createDatabase),
	changes(rule{explicit: true, names: named(func(st *influxql.DropDatabaseStatement) *string { return &st.Name })}, (*session).dropDatabase),
	changes(rule{effect: adds, explicit: true, names: named(func(st *influxql.CreateRetentionPolicyStatement) *string { return &st.Database })}, (*session).createRetentionPolicy),
	changes(rule{explicit: true, names: named(func(st *influxql.AlterRetentionPolicyStatement) *string { return &st.Database })}, (*session).alterRetentionPolicy),
	changes(rule{access: writer, explicit: true, names: named(func(st *influxql.DropRetentionPolicyStatement) *string { return &st.Database })}, (*session).dropRetentionPolicy),
	changes(rule{}, (*session).dropShard),
	changes(rule{}, (*session).acceptLoss),
	changes(rule{effect: adds}, (*session).createUser),
	changes(rule{effect: adds}, (*session).setPassword),
	changes(rule{}, (*session).dropUser),
	changes(rule{effect: adds, explicit: true, names: named(func(st *influxql.GrantStatement) *string { return &st.On })}, (*session).grant),
	changes(rule{explicit: true, names: named(func(st *influxql.RevokeStatement) *string { return &st.On })}, (*session).revoke),
	changes(rule{effect: adds}, (*session).grantAdmin),
	changes(rule{}, (*session).revokeAdmin),
	changes(rule{effect: adds, needs: continuousNeeds, explicit: true, names: named(func(st *influxql.CreateContinuousQueryStatement) *string { return &st.Database })}, (*session).createContinuousQuery),
	changes(rule{access: writer, explicit: true, names: named(func(st *influxql.DropContinuousQueryStatement) *string { return &st.Database })}, (*session).dropContinuousQuery),
	on(rule{effect: adds, explicit: true, names: named(func(st *syntax.ExecuteContinuous) *string { return &st.Database }), changes: true, place: Leader}, (*session).executeContinuous),
	changes(rule{effect: adds, explicit: true, names: named(func(st *syntax.CreateDownsample) *string { return &st.Database })}, (*session).createDownsample),
	changes(rule{access: writer, explicit: true, names: named(func(st *syntax.DropDownsample) *string { return &st.Database })}, (*session).dropDownsample),
	changes(rule{effect: adds, explicit: true, names: named(func(st *influxql.CreateSubscriptionStatement) *string { return &st.Database })}, (*session).createSubscription),
	changes(rule{explicit: true, names: named(func(st *influxql.DropSubscriptionStatement) *string { return &st.Database })}, (*session).dropSubscription),
)

func table(list ...rule) map[reflect.Type]*rule {
	t := make(map[reflect.Type]*rule, len(list))
	for i := range list {
		t[list[i].kind] = &list[i]
	}
	return t
}

// ruleOf returns the rule of a statement. One that has none takes an administrator,
// and fails.
func ruleOf(stmt influxql.Statement) *rule {
	if r := rules[reflect.TypeOf(stmt)]; r != nil {
		return r
	}
	return &rule{run: func(*session, influxql.Statement) error {
		return fmt.Errorf("statement not supported yet: %s", stmt)
	}}
}

// on completes the rule of the statements of type S with what runs them.
func on[S influxql.Statement](r rule, run func(*session, S) error) rule {
	r.kind = reflect.TypeFor[S]()
	r.run = func(s *session, stmt influxql.Statement) error { return run(s, stmt.(S)) }
	return r
}

// shows is the rule of a statement whose answer is tables, which send hands out.
func shows[S influxql.Statement](r rule, send func(*output, []*result.Series) error, tables func(*show.Statement, S) ([]*result.Series, error)) rule {
	r.effect, r.turn, r.place = reads, true, AnyNode
	return on(r, func(s *session, stmt S) error {
		list, err := tables(s.showing(), stmt)
		if err != nil {
			return err
		}
		return send(s.out, list)
	})
}

// never is a rule of a statement that never waits for a turn: it shows what others
// wait for.
func never(r rule) rule {
	r.turn = false
	return r
}

// here is a rule of a statement that is about the node that runs it.
func here(r rule) rule {
	r.place = ThisNode
	return r
}

// atLeader is a rule of a statement that is about what the leader does.
func atLeader(r rule) rule {
	r.place = Leader
	return r
}

// errNotUTF8 says that the catalog, which is JSON, would change a name or a text.
var errNotUTF8 = errors.New("databases, retention policies, users, queries and subscriptions have names and texts in UTF-8 only")

// changes is the rule of a statement that is a command to the catalog. A nil command
// is nothing to do.
func changes[S influxql.Statement](r rule, command func(*session, S) (meta.Command, error)) rule {
	r.changes, r.place = true, Leader
	return on(r, func(s *session, stmt S) error {
		cmd, err := command(s, stmt)
		if err != nil || cmd == nil {
			return err
		}
		if !utf8.ValidString(stmt.String()) {
			return errNotUTF8
		}
		return s.opt.Admin.Apply(s.ctx, cmd)
	})
}

// of is the rule of a statement that shows what measurements hold.
func of[S influxql.Statement](names func(S) (*string, influxql.Sources)) rule {
	return rule{access: reader, names: func(stmt influxql.Statement) (*string, influxql.Sources) { return names(stmt.(S)) }}
}

// ofAll is of for a statement that looks at all policies.
func ofAll[S influxql.Statement](names func(S) (*string, influxql.Sources)) rule {
	r := of(names)
	r.allPolicies = true
	return r
}

// named is rule.names of a statement with a database alone.
func named[S influxql.Statement](database func(S) *string) func(influxql.Statement) (*string, influxql.Sources) {
	return func(stmt influxql.Statement) (*string, influxql.Sources) { return database(stmt.(S)), nil }
}

// from is rule.names of a statement with sources alone.
func from[S influxql.Statement](sources func(S) influxql.Sources) func(influxql.Statement) (*string, influxql.Sources) {
	return func(stmt influxql.Statement) (*string, influxql.Sources) { return nil, sources(stmt.(S)) }
}

// measurementDatabase is the database of SHOW MEASUREMENTS, nil if it shows those
// of all.
func measurementDatabase(st *influxql.ShowMeasurementsStatement) *string {
	if st.WildcardDatabase {
		return nil
	}
	return &st.Database
}

// changesState reports whether a GET request should not carry the statement.
func changesState(stmt influxql.Statement) bool {
	s, ok := stmt.(*influxql.SelectStatement)
	return ok && s.Target != nil || ruleOf(stmt).changes
}

// Normalize fills in the database and retention policy where a statement names
// none, in place. The errors are InfluxDB's, as of syntax.Resolve.
func Normalize(stmt influxql.Statement, catalog *meta.Data, database, policy string) error {
	r := ruleOf(stmt)
	if r.names != nil {
		if name, _ := r.names(stmt); name != nil {
			if *name == "" && !r.explicit {
				*name = database
			}
			database = *name
		}
	}
	if r.allPolicies {
		return nil
	}
	return syntax.Resolve(stmt, catalog, database, policy)
}
