package httpapi

import (
	"net/http"
	"strings"

	"tsdbd/meta"
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

// authError is an answer 401. It names no header with the message, and asks
// for a login instead.
type authError struct{ message string }

func (e *authError) Error() string { return e.message }

// The reasons for a 401, in InfluxDB's words. A wrong password and an unknown
// user are the same reason.
var (
	errUnparsedCredentials = &authError{"unable to parse authentication credentials"}
	errUsernameRequired    = &authError{"username required"}
	errAuthorizationFailed = &authError{"authorization failed"}
	errBearerDisabled      = &authError{"bearer auth disabled"}
	errInvalidToken        = &authError{"invalid token"}
	errTokenExpired        = &authError{"token is expired"}
	errTokenNoExpiration   = &authError{"token expiration required"}
	errTokenUserType       = &authError{"username in token must be a string"}
	errTokenNoUser         = &authError{"token must contain a username"}
	errUserNotFound        = &authError{"user not found"}
	errLoginsBusy          = &apiError{http.StatusServiceUnavailable, "too many logins at a time"}
	errTooManyLogins       = &apiError{http.StatusServiceUnavailable, "too many failed logins"} // Telegraf drops a batch that is answered 429
	errNoAdminYet          = &apiError{http.StatusForbidden, "create admin user first or disable authentication"}
	errAdminRequired       = &apiError{http.StatusForbidden, "administrator required"}
)

// credentials are what a request brought: a name and a password, or a token.
type credentials struct {
	name, password, token string
}

// parseCredentials finds the credentials: u and p of the URL, then the
// Authorization header as Basic, Token user:password or Bearer.
func parseCredentials(r *http.Request) (credentials, error) {
	if strings.Contains(r.URL.RawQuery, "u=") {
		q := r.URL.Query()
		if u, p := q.Get("u"), q.Get("p"); u != "" && p != "" {
			return credentials{name: u, password: p}, nil
		}
	}
	scheme, rest, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	rest = strings.TrimLeft(rest, " ")
	switch {
	case strings.EqualFold(scheme, "Basic"):
		if u, p, ok := r.BasicAuth(); ok {
			return credentials{name: u, password: p}, nil
		}
	case strings.EqualFold(scheme, "Token"):
		// A password may hold colons, a name may not.
		if u, p, ok := strings.Cut(rest, ":"); ok {
			return credentials{name: u, password: p}, nil
		}
	case strings.EqualFold(scheme, "Bearer"):
		if rest != "" {
			return credentials{token: rest}, nil
		}
	}
	return credentials{}, errUnparsedCredentials
}

// authenticate returns the user of a request. It is nil, without an error,
// while no administrator exists: then there is no one who could have made
// users, and all that is allowed is to make the first (bootstrapOnly).
func (h *Handler) authenticate(r *http.Request) (*meta.User, error) {
	catalog := h.opt.Catalog.Catalog()
	if !catalog.AdminExists() {
		return nil, nil
	}
	c, err := parseCredentials(r)
	if err != nil {
		return nil, err
	}
	if c.token != "" {
		name, err := h.tokens.user(c.token)
		if err != nil {
			return nil, err
		}
		if u := catalog.User(name); u != nil {
			return u, nil
		}
		return nil, errUserNotFound
	}
	if c.name == "" {
		return nil, errUsernameRequired
	}
	return h.logins.check(r.Context(), catalog, c.name, c.password, clientAddress(r))
}

// request is a request with what the Handler knows of it.
type request struct {
	*http.Request
	user *meta.User // nil: logins are not required, or nobody could log in yet
	free bool       // logins are not required: everything is allowed
}

// admit lets a request pass to a route, and sets its user. A browser sends
// OPTIONS without a login; only our own answer to it is for everyone.
func (h *Handler) admit(r *request, rt *route) (err error) {
	if r.free || rt.access == Open || (rt.access == openPing && !h.opt.PingAuth) || (r.Method == http.MethodOptions && rt.any == nil) {
		return nil
	}
	if r.user, err = h.authenticate(r.Request); err != nil {
		return err
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
