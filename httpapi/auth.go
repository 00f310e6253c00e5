package httpapi

import (
	"fmt"
	"net/http"

	"github.com/influxdata/influxql"

	"tsdbd/internal/body"
	"tsdbd/meta"
	"tsdbd/query"
)

// DefaultRealm is the realm of InfluxDB.
const DefaultRealm = "InfluxDB"

// Access says who may use a route when logins are required.
type Access uint8

// The kinds of Access of a Mount.
const (
	AdminOnly Access = iota // an administrator
	LoggedIn                // any user
	Open                    // anyone
	openPing                // anyone, unless Options.PingAuth
	byRoute                 // any user; the handler checks what the user may do
)

var (
	errNoAdminYet    = &apiError{http.StatusForbidden, "create admin user first or disable authentication"}
	errAdminRequired = &apiError{http.StatusForbidden, "administrator required"}
)

// request is a request and its user.
type request struct {
	*http.Request
	// user sent the request. It is nil if logins are not required, or if no
	// administrator exists: then the first one may be created and nothing else
	// (bootstrapOnly).
	user *meta.User
	free bool // logins are not required, everything is allowed

	// path is the path of the route. db and rp are the names that stand before it,
	// see promapi.CutPrefix.
	path, db, rp string
	malformed    error // of pairs that the form lacks

	forwarded bool          // by another node of a cluster
	alone     bool          // no other node has an answer
	received  *countingBody // what the client sent of the body
	// form is the body of a form, as long as a cluster may need it to forward the
	// request.
	form *body.Body
}

// releaseForm returns the memory of the body.
func (r *request) releaseForm() {
	if r.form != nil {
		r.form.Release()
		r.form = nil
	}
}

// admit sets the user of a request, or returns why the user may not use the
// route. A browser sends OPTIONS without a login. Everyone gets the Handler's own
// answer to it; mounts require the login.
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

// authorizeQuery returns an error if the user may not run one of the statements.
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

// bootstrapOnly reports whether a query is one statement that creates an
// administrator. Nothing else is allowed while there is none. InfluxDB checks only
// the first statement and runs the statements behind it.
func bootstrapOnly(q *influxql.Query) bool {
	if len(q.Statements) != 1 {
		return false
	}
	create, ok := q.Statements[0].(*influxql.CreateUserStatement)
	return ok && create.Admin
}

// limitToUser restricts the answer of a query to what the user may see.
func (r *request) limitToUser(opt *query.ExecuteOptions) {
	opt.User = r.userName()
	if !r.isAdmin() && r.user != nil {
		opt.MayRead = func(db string) bool { return r.may(meta.ReadPrivilege, db) }
		opt.MaySee = r.sees
	}
}

// authorize returns an error if the user has no privilege for a database. The
// error names the action, such as "write to".
func (r *request) authorize(p meta.Privilege, action, database string) error {
	switch {
	case r.may(p, database):
		return nil
	case r.user == nil:
		return forbidden("user is required to %s database %q", action, database)
	}
	return forbidden("%q user is not authorized to %s database %q", r.user.Name, action, database)
}
