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
func (h *Handler) authorizeQuery(r *http.Request, q *influxql.Query, database string) error {
	if !h.opt.AuthEnabled {
		return nil
	}
	u := userOf(r)
	if u == nil {
		if bootstrapOnly(q) {
			return nil
		}
		return forbidden("error authorizing query: create admin user first or disable authentication")
	}
	if u.Admin {
		return nil
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
func (h *Handler) limitToUser(r *http.Request, opt *query.ExecuteOptions) {
	u := userOf(r)
	if u == nil {
		return
	}
	opt.User = u.Name
	if u.Admin {
		return
	}
	opt.MayRead = func(db string) bool { return u.Authorized(meta.ReadPrivilege, db) }
	opt.MaySee = func(db string) bool { return maySee(u, db) }
}

// maySee reports whether a database may be named to a user.
func maySee(u *meta.User, db string) bool {
	return u.Authorized(meta.ReadPrivilege, db) || u.Authorized(meta.WritePrivilege, db)
}

// authorizeWrite decides on writes to a database.
func (h *Handler) authorizeWrite(r *http.Request, database string) error {
	switch {
	case h.may(r, meta.WritePrivilege, database):
		return nil
	case userOf(r) == nil:
		return forbidden("user is required to write to database %q", database)
	}
	return forbidden("%q user is not authorized to write to database %q", userName(r), database)
}

// authorizeDelete decides on /api/v2/delete.
func (h *Handler) authorizeDelete(r *http.Request, database string) error {
	switch {
	case h.may(r, meta.WritePrivilege, database):
		return nil
	case userOf(r) == nil:
		return forbidden("user is required to delete from database %q", database)
	}
	return forbidden("%q user is not authorized to delete from database %q", userName(r), database)
}

// authorizeRead decides on the reads that are not statements.
func (h *Handler) authorizeRead(r *http.Request, database string) error {
	switch {
	case h.may(r, meta.ReadPrivilege, database):
		return nil
	case userOf(r) == nil:
		return forbidden("user is required to read from database %q", database)
	}
	return forbidden("%q user is not authorized to read from database %q", userName(r), database)
}
