// Package login finds out which user of the catalog sent a request: by a name and
// a password, or by a token.
//
// Nothing of a request is trusted before its user is known, and a wrong password
// and an unknown user look the same, also by the time they take. Checks of
// passwords are slow; Logins bounds how many run, wait and fail, and remembers of a
// password that was right only a keyed hash. Passwords and tokens are in no error.
package login

import (
	"net"
	"net/http"
	"strings"

	"tsdbd/meta"
)

// Error is why a request has no user, in InfluxDB's words. A wrong password and
// an unknown user are the same reason.
type Error string

// Error implements error.
func (e Error) Error() string { return string(e) }

// The reasons why a request has no user.
const (
	errCredentials     Error = "unable to parse authentication credentials"
	errUsername        Error = "username required"
	errFailed          Error = "authorization failed"
	errBearerDisabled  Error = "bearer auth disabled"
	errToken           Error = "invalid token"
	errTokenExpired    Error = "token is expired"
	errTokenExpiration Error = "token expiration required"
	errTokenUserType   Error = "username in token must be a string"
	errTokenNoUser     Error = "token must contain a username"
	errUserNotFound    Error = "user not found"
)

// BusyError is why a login was not checked; it may be tried again.
type BusyError string

// Error implements error.
func (e BusyError) Error() string { return string(e) }

const (
	errWaiting BusyError = "too many logins at a time"
	errFailing BusyError = "too many failed logins"
)

// Logins checks logins. It is safe for concurrent use.
type Logins struct {
	passwords *passwords
	tokens    *tokens
}

// New returns Logins that check passwords against stored hashes by a function,
// and tokens that are signed with a secret; "": there are no tokens.
func New(checkPassword func(hash, password string) bool, secret string) *Logins {
	return &Logins{newPasswords(checkPassword), newTokens(secret)}
}

// Prepare makes what the first unknown user would have to wait for.
func (l *Logins) Prepare() { l.passwords.dummy() }

// User returns the user of a request. The error is an Error, a BusyError, or that
// of the request's context.
func (l *Logins) User(r *http.Request, catalog *meta.Data) (*meta.User, error) {
	c, err := parse(r)
	switch {
	case err != nil:
		return nil, err
	case c.token != "":
		name, err := l.tokens.user(c.token)
		if err != nil {
			return nil, err
		}
		if u := catalog.User(name); u != nil {
			return u, nil
		}
		return nil, errUserNotFound
	case c.name == "":
		return nil, errUsername
	}
	return l.passwords.check(r.Context(), catalog, c.name, c.password, Address(r))
}

// Address returns the address of a request's client without its port.
func Address(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		return host
	}
	return r.RemoteAddr
}

// credentials are what a request brought: a name and a password, or a token.
type credentials struct {
	name, password, token string
}

// parse finds the credentials: u and p of the URL, then the Authorization header
// as Basic, Token user:password or Bearer.
func parse(r *http.Request) (credentials, error) {
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
	return credentials{}, errCredentials
}
