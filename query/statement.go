package query

import (
	"cmp"
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

// rule is a row of the table of statements: how the statements of one kind run, and what
// they take. It is read by Execute, Needs, Normalize, Changes and PlaceOf.
type rule struct {
	kind reflect.Type
	run  func(s *session, stmt influxql.Statement) error
	// access is what the user must be allowed. needs says it for a statement for which
	// that depends on more than its names.
	access access
	needs  func(stmt influxql.Statement, database string) []Need
	// names returns where the statement has the name of its database, nil for
	// nowhere, and the sources that it reads or writes. Nil is a statement that is
	// about no database.
	names func(stmt influxql.Statement) (database *string, sources influxql.Sources)
	// explicit: the statement names its database. The database of the request never
	// replaces an empty name.
	explicit bool
	// allPolicies: a source that names no policy means all policies.
	allPolicies bool
	effect      effect
	place       Place // shows: AnyNode unless it is set
	// noTurn: the statement does not wait for a turn on the cores. It reads neither rows
	// nor an index, or shows what the others wait for.
	noTurn bool
	// post: a GET request should not carry the statement.
	post bool
	// send emits the tables of a statement that shows something; nil is together.
	send func(o *output, tables []*result.Series) error
}

// access is what a user must be allowed to run a statement.
type access int

const (
	admin  access = iota
	reader        // of the database and of every source
	writer        // to them
	anyone        // the answer holds only what the user may see
)

// rules has a row for each kind of statement:
//
//   - shows: a method of show.Statement returns tables, and rule.send emits them. Any node
//     of a cluster may run it, unless the row names another place.
//   - changes: a method of the session returns a command to the catalog. The leader runs it,
//     without a turn, and a GET request should not carry it.
//   - on: a method of the session does everything. The row says all.
var rules = table(
	on(rule{needs: selectNeeds, effect: reads, place: AnyNode}, (*session).selectStatement),
	on(rule{needs: explainNeeds, effect: reads, place: AnyNode}, (*session).explain),

	shows(rule{access: anyone}, (*show.Statement).ShowDatabases),
	shows(rule{access: reader, names: in("Database")}, (*show.Statement).ShowRetentionPolicies),
	shows(rule{}, (*show.Statement).ShowShards),
	shows(rule{}, (*show.Statement).ShowShardGroups),
	shows(rule{}, (*show.Statement).ShowUsers),
	shows(rule{}, (*show.Statement).ShowGrants),
	shows(rule{access: reader}, (*show.Statement).ShowContinuousQueries),
	shows(rule{access: reader, place: Leader}, (*show.Statement).ShowDownsamples),
	shows(rule{}, (*show.Statement).ShowSubscriptions),
	shows(rule{place: ThisNode}, (*show.Statement).ShowStats),
	shows(rule{place: ThisNode}, (*show.Statement).ShowDiagnostics),
	shows(rule{place: ThisNode, noTurn: true, access: reader}, (*show.Statement).ShowQueries),
	shows(rule{place: ThisNode, noTurn: true}, (*show.Statement).ShowServers),
	on(rule{place: ThisNode, noTurn: true, post: true}, (*session).killQuery),

	shows(rule{needs: measurementNeeds, names: ofMeasurements}, (*show.Statement).ShowMeasurements),
	shows(rule{access: reader, names: in("Database"), send: (*output).chunked}, (*show.Statement).ShowSeries),
	shows(rule{access: reader, names: in("Database"), send: (*output).chunked}, (*show.Statement).ShowFieldKeys),
	shows(rule{access: reader, names: in("Database"), allPolicies: true, send: (*output).separately}, (*show.Statement).ShowTagKeys),
	shows(rule{access: reader, names: in("Database"), allPolicies: true, send: (*output).separately}, (*show.Statement).ShowTagValues),
	shows(rule{access: reader, names: in("Database"), send: (*output).chunked}, (*show.Statement).ShowSeriesCardinality),
	shows(rule{access: reader, names: in("Database"), send: (*output).chunked}, (*show.Statement).ShowMeasurementCardinality),
	shows(rule{access: reader, names: in("Database"), send: (*output).chunked}, (*show.Statement).ShowFieldKeyCardinality),
	shows(rule{access: reader, names: in("Database"), send: (*output).chunked}, (*show.Statement).ShowTagKeyCardinality),
	shows(rule{access: reader, names: in("Database"), send: (*output).chunked}, (*show.Statement).ShowTagValuesCardinality),
	shows(rule{access: reader, names: in("Database")}, (*show.Statement).ShowCardinality),

	on(rule{access: writer, names: in(""), allPolicies: true, place: Leader}, (*session).deleteRows),
	on(rule{access: writer, names: in(""), allPolicies: true, place: Leader, noTurn: true, post: true}, (*session).dropSeries),
	on(rule{names: in(""), place: Leader, noTurn: true, post: true}, (*session).dropMeasurement),
	on(rule{access: writer, names: ofMove, allPolicies: true, place: Leader, post: true}, (*session).move),

	changes(rule{effect: adds, explicit: true, names: in("Name")}, (*session).createDatabase),
	changes(rule{effect: adds, explicit: true, names: in("Name")}, (*session).createColdDatabase),
	changes(rule{explicit: true, names: in("Name")}, (*session).dropDatabase),
	changes(rule{effect: adds, explicit: true, names: in("Database")}, (*session).createRetentionPolicy),
	changes(rule{effect: adds, explicit: true, names: in("Database")}, (*session).createColdRetentionPolicy),
	changes(rule{explicit: true, names: in("Database")}, (*session).alterRetentionPolicy),
	changes(rule{explicit: true, names: in("Database")}, (*session).alterColdRetentionPolicy),
	changes(rule{access: writer, explicit: true, names: in("Database")}, (*session).dropRetentionPolicy),
	changes(rule{}, (*session).dropShard),
	changes(rule{}, (*session).acceptLoss),
	changes(rule{effect: adds}, (*session).createUser),
	changes(rule{effect: adds}, (*session).setPassword),
	changes(rule{}, (*session).dropUser),
	changes(rule{effect: adds, explicit: true, names: in("On")}, (*session).grant),
	changes(rule{explicit: true, names: in("On")}, (*session).revoke),
	changes(rule{effect: adds}, (*session).grantAdmin),
	changes(rule{}, (*session).revokeAdmin),
	changes(rule{effect: adds, needs: continuousNeeds, explicit: true, names: in("Database")}, (*session).createContinuousQuery),
	changes(rule{access: writer, explicit: true, names: in("Database")}, (*session).dropContinuousQuery),
	on(rule{effect: adds, explicit: true, names: in("Database"), place: Leader, noTurn: true, post: true}, (*session).executeContinuous),
	changes(rule{effect: adds, explicit: true, names: in("Database")}, (*session).createDownsample),
	changes(rule{access: writer, explicit: true, names: in("Database")}, (*session).dropDownsample),
	changes(rule{effect: adds, explicit: true, names: in("Database")}, (*session).alterDownsample),
	changes(rule{access: writer, explicit: true, names: in("Database")}, (*session).skipWindows),
	changes(rule{effect: adds, explicit: true, names: in("Database")}, (*session).createSubscription),
	changes(rule{explicit: true, names: in("Database")}, (*session).dropSubscription),
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
	return &rule{noTurn: true, run: func(*session, influxql.Statement) error {
		return fmt.Errorf("statement not supported yet: %s", stmt)
	}}
}

// on completes the rule of the statements of type S with what runs them.
func on[S influxql.Statement](r rule, run func(*session, S) error) rule {
	r.kind = reflect.TypeFor[S]()
	r.run = func(s *session, stmt influxql.Statement) error { return run(s, stmt.(S)) }
	return r
}

// shows is the rule of a statement whose answer is tables.
func shows[S influxql.Statement](r rule, tables func(*show.Statement, S) ([]*result.Series, error)) rule {
	r.effect, r.place = reads, cmp.Or(r.place, AnyNode)
	if r.send == nil {
		r.send = (*output).together
	}
	return on(r, func(s *session, stmt S) error {
		list, err := tables(s.showing(), stmt)
		if err != nil {
			return err
		}
		return r.send(s.out, list)
	})
}

// errNotUTF8 says that the catalog, which is JSON, would change a name or a text.
var errNotUTF8 = errors.New("databases, retention policies, users, queries and subscriptions have names and texts in UTF-8 only")

// changes is the rule of a statement that is a command to the catalog. A nil command
// is nothing to do.
func changes[S influxql.Statement](r rule, command func(*session, S) (meta.Command, error)) rule {
	r.place, r.noTurn, r.post = Leader, true, true
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

// in is rule.names of a statement that has the name of its database in a field of its
// type. A statement without such a field, "", is about the database of the request. The
// sources are those of the field Sources, if it has one.
func in(field string) func(influxql.Statement) (*string, influxql.Sources) {
	return func(stmt influxql.Statement) (database *string, sources influxql.Sources) {
		fields := reflect.ValueOf(stmt).Elem()
		if field != "" {
			database = fields.FieldByName(field).Addr().Interface().(*string)
		}
		if f := fields.FieldByName("Sources"); f.IsValid() {
			sources = f.Interface().(influxql.Sources)
		}
		return database, sources
	}
}

// ofMeasurements is rule.names of SHOW MEASUREMENTS, which may be about all databases.
func ofMeasurements(stmt influxql.Statement) (*string, influxql.Sources) {
	if st := stmt.(*influxql.ShowMeasurementsStatement); !st.WildcardDatabase {
		return &st.Database, nil
	}
	return nil, nil
}

// ofMove is rule.names of ALTER MEASUREMENT and UPDATE.
func ofMove(stmt influxql.Statement) (*string, influxql.Sources) {
	return nil, stmt.(*syntax.Move).Sources()
}

// changesState reports whether a GET request should not carry the statement.
func changesState(stmt influxql.Statement) bool {
	s, ok := stmt.(*influxql.SelectStatement)
	return ok && s.Target != nil || ruleOf(stmt).post
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
