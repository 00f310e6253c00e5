package httpapi

import (
	"fmt"
	"net/http"

	"github.com/influxdata/influxql"

	"tsdbd/meta"
	"tsdbd/query"
)

func forbidden(format string, args ...any) error {
	return &apiError{http.StatusForbidden, fmt.Sprintf(format, args...)}
}

// authorizeQuery decides on all statements of a request before any runs.
func (r *request) authorizeQuery(q *influxql.Query, database string) error {
	u := r.user
	switch {
	case r.isAdmin(), u == nil && bootstrapOnly(q):
		return nil
	case u == nil:
		return forbidden("error authorizing query: create admin user first or disable authentication")
	}
	for _, stmt := range q.Statements {
		for _, need := range query.Needs(stmt, database) {
			switch {
			case need.Admin:
				return forbidden("error authorizing query: %s not authorized to execute statement '%s', requires admin privilege", u.Name, stmt)
			case !u.Authorized(need.Privilege, need.Database):
				return forbidden("error authorizing query: %s not authorized to execute statement '%s', requires %s on %s",
					u.Name, stmt, need.Privilege, need.Database)
			}
		}
	}
	return nil
}

// bootstrapOnly reports whether a query is one statement that makes an
// administrator: all that is allowed while there is none. InfluxDB looks at
// the first statement alone and runs what follows it.
func bootstrapOnly(q *influxql.Query) bool {
	if len(q.Statements) != 1 {
		return false
	}
	create, ok := q.Statements[0].(*influxql.CreateUserStatement)
	return ok && create.Admin
}

// limitToUser makes a query's answer hold only what the user may see.
func (r *request) limitToUser(opt *query.ExecuteOptions) {
	opt.User = r.userName()
	if !r.isAdmin() && r.user != nil {
		opt.MayRead = func(db string) bool { return r.may(meta.ReadPrivilege, db) }
		opt.MaySee = r.sees
	}
}

// authorize decides on requests that are not statements. The action is what the
// user wants to do with the database, in words.
func (r *request) authorize(p meta.Privilege, action, database string) error {
	switch {
	case r.may(p, database):
		return nil
	case r.user == nil:
		return forbidden("user is required to %s database %q", action, database)
	}
	return forbidden("%q user is not authorized to %s database %q", r.user.Name, action, database)
}
