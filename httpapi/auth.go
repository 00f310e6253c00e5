package httpapi

import (
	"fmt"
	"net/http"

	"github.com/influxdata/influxql"

	"tsdbd/meta"
	"tsdbd/query"
)

// DefaultRealm is InfluxDB's name for what a password opens.
const DefaultRealm = "InfluxDB"

// Access says who may use a route when logins are required.
type Access uint8

// The kinds of Access of a Mount.
const (
	AdminOnly Access = iota // an administrator
	LoggedIn                // any user
	Open                    // anyone
	openPing                // anyone, unless Options.PingAuth
	byRoute                 // any user; the route asks what the user may do
)

var (
	errNoAdminYet    = &apiError{http.StatusForbidden, "create admin user first or disable authentication"}
	errAdminRequired = &apiError{http.StatusForbidden, "administrator required"}
)

// request is a request with what the Handler knows of it.
type request struct {
	*http.Request
	// user sent the request. nil: logins are not required, or no administrator
	// exists; then nobody could have made users, and all that is allowed is to make
	// the first (bootstrapOnly).
	user *meta.User
	free bool // logins are not required: everything is allowed
}

// admit lets a request pass to a route, and sets its user. A browser sends
// OPTIONS without a login; only our own answer to it is for everyone.
func (h *Handler) admit(r *request, rt *route) (err error) {
	if r.free || rt.access == Open || (rt.access == openPing && !h.opt.PingAuth) || (r.Method == http.MethodOptions && rt.any == nil) {
		return nil
	}
	if catalog := h.opt.Catalog.Catalog(); catalog.AdminExists() {
		if r.user, err = h.logins.User(r.Request, catalog); err != nil {
			return err
		}
	}
	switch {
	case rt.access == AdminOnly && !r.isAdmin():
		return errAdminRequired
	case rt.access != byRoute && r.user == nil:
		return errNoAdminYet
	}
	return nil
}

// userName returns the name of the request's user, or "".
func (r *request) userName() string {
	if r.user == nil {
		return ""
	}
	return r.user.Name
}

// may reports whether the request's user may do p with a database.
func (r *request) may(p meta.Privilege, database string) bool {
	return r.free || r.user != nil && r.user.Authorized(p, database)
}

// sees reports whether a database may be named to the request's user.
func (r *request) sees(database string) bool {
	return r.may(meta.ReadPrivilege, database) || r.may(meta.WritePrivilege, database)
}

// isAdmin reports whether the request's user may do everything.
func (r *request) isAdmin() bool { return r.free || r.user != nil && r.user.Admin }

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
