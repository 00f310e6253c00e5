package httpapi_test

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tsdbd/httpapi"
	"tsdbd/meta"
)

// fakeUsers is a catalog of users whose hashes are their passwords with #.
type fakeUsers struct{ data atomic.Pointer[meta.Data] }

func newFakeUsers(t *testing.T, commands ...meta.Command) *fakeUsers {
	u := &fakeUsers{}
	d, err := meta.Apply(meta.CreateDatabase{Name: "db"}, new(meta.Data))
	if err != nil {
		t.Fatal(err)
	}
	u.data.Store(d)
	for _, c := range commands {
		u.apply(t, c)
	}
	return u
}

func (u *fakeUsers) Catalog() *meta.Data { return u.data.Load() }

func (u *fakeUsers) apply(t *testing.T, c meta.Command) {
	t.Helper()
	d, err := meta.Apply(c, u.data.Load())
	if err != nil {
		t.Fatal(err)
	}
	u.data.Store(d)
}

// withUsers returns options with an administrator root and a user ann.
func withUsers(t *testing.T) (*fakeUsers, *atomic.Int64, httpapi.Options) {
	users := newFakeUsers(t, meta.CreateUser{Name: "root", Hash: "#rootpw", Admin: true}, meta.CreateUser{Name: "ann", Hash: "#annpw"},
		meta.SetPrivilege{Name: "ann", Database: "db", Privilege: meta.WritePrivilege})
	var checks atomic.Int64
	return users, &checks, httpapi.Options{
		AuthEnabled: true, Catalog: users, SharedSecret: secret, Realm: "our realm",
		CheckPassword: func(hash, password string) bool {
			checks.Add(1)
			return hash == "#"+password
		},
	}
}

const secret = "the key of all our bearer tokens"

func segment(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// sign makes a token of that header and payload with HMAC-SHA256.
func sign(header, payload, key string) string {
	text := segment(header) + "." + segment(payload)
	m := hmac.New(sha256.New, []byte(key))
	m.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}

// TestTokens forges tokens in every way that was ever accepted somewhere.
func TestTokens(t *testing.T) {
	_, _, opt := withUsers(t)
	store := newFakeStore()
	store.create("db")
	_, base := start(t, store, opt)
	const header = `{"alg":"HS256","typ":"JWT"}`
	now := time.Now().Unix()
	good := fmt.Sprintf(`{"username":"root","exp":%d}`, now+3600)
	f := func(name, token, want string) {
		t.Helper()
		a := do(t, "GET", base+"/query?q=SHOW+DATABASES", "", "Authorization", "Bearer "+token)
		switch {
		case want == "" && a.status != 200:
			t.Errorf("%s: %d %s", name, a.status, a.body)
		case want != "" && (a.status != 401 || a.body != `{"error":"`+want+`"}`+"\n"):
			t.Errorf("%s: %d %s, want 401 %s", name, a.status, a.body, want)
		case want != "" && a.header.Get("WWW-Authenticate") != `Basic realm="our realm"`:
			t.Errorf("%s: %v", name, a.header)
		}
	}
	f("good", sign(header, good, secret), "")
	f("far away", sign(header, `{"username":"root","exp":4102444800}`, secret), "")
	f("fraction of a second", sign(header, fmt.Sprintf(`{"username":"root","exp":%d.5}`, now+3600), secret), "")

	const invalid = "invalid token"
	f("empty secret", sign(header, good, ""), invalid)
	f("other secret", sign(header, good, secret+"x"), invalid)
	f("alg none", segment(`{"alg":"none","typ":"JWT"}`)+"."+segment(good)+".", invalid)
	f("alg None", segment(`{"alg":"None","typ":"JWT"}`)+"."+segment(good)+".", invalid)
	f("alg none with a signature", sign(`{"alg":"none"}`, good, secret), invalid)
	f("alg hs256", sign(`{"alg":"hs256"}`, good, secret), invalid)
	f("alg missing", sign(`{"typ":"JWT"}`, good, secret), invalid)
	f("alg a number", sign(`{"alg":256}`, good, secret), invalid)
	f("alg RS256 with our HMAC", sign(`{"alg":"RS256"}`, good, secret), invalid)
	f("alg HS512 with a shorter signature", sign(`{"alg":"HS512"}`, good, secret), invalid)
	f("kid", sign(`{"alg":"HS256","kid":"../../dev/null"}`, good, ""), invalid)
	f("jwk of its own", sign(`{"alg":"HS256","jwk":{"kty":"oct","k":"AA"}}`, good, "\x00"), invalid)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	text := segment(`{"alg":"RS256","typ":"JWT"}`) + "." + segment(good)
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	f("RS256", text+"."+base64.RawURLEncoding.EncodeToString(signature), invalid)
	f("no signature", segment(header)+"."+segment(good)+".", invalid)
	f("two parts", segment(header)+"."+segment(good), invalid)
	f("four parts", sign(header, good, secret)+".x", invalid)
	f("one part", "x", invalid)
	f("dots", "..", invalid)
	f("not JSON", sign(header, "{", secret), invalid)
	f("an array", sign(header, "[]", secret), invalid)
	f("not base64", "%%%.%%%.%%%", invalid)
	f("long", sign(header, `{"x":"`+strings.Repeat("x", 9<<10)+`"}`, secret), invalid)
	forged := sign(header, good, secret)
	f("payload of another", segment(header)+"."+segment(`{"username":"root","exp":4102444801}`)+forged[strings.LastIndexByte(forged, '.'):], invalid)

	const noExp = "token expiration required"
	f("no exp", sign(header, `{"username":"root"}`, secret), noExp)
	f("exp null", sign(header, `{"username":"root","exp":null}`, secret), noExp)
	f("exp 0", sign(header, `{"username":"root","exp":0}`, secret), noExp)
	f("exp negative", sign(header, `{"username":"root","exp":-1}`, secret), noExp)
	f("exp a string", sign(header, fmt.Sprintf(`{"username":"root","exp":"%d"}`, now+3600), secret), noExp)
	f("exp too large", sign(header, `{"username":"root","exp":1e300}`, secret), noExp)
	f("exp overflows", sign(header, `{"username":"root","exp":9223372036854775808}`, secret), noExp)
	f("exp out of range", sign(header, `{"username":"root","exp":1e400}`, secret), noExp)
	f("expired", sign(header, fmt.Sprintf(`{"username":"root","exp":%d}`, now-1), secret), "token is expired")
	f("exp twice", sign(header, fmt.Sprintf(`{"username":"root","exp":%d,"exp":%d}`, now+3600, now-1), secret), "token is expired")
	f("not yet", sign(header, fmt.Sprintf(`{"username":"root","exp":%d,"nbf":%d}`, now+3600, now+1800), secret), invalid)

	exp := fmt.Sprintf(`"exp":%d`, now+3600)
	f("no user", sign(header, `{`+exp+`}`, secret), "token must contain a username")
	f("empty user", sign(header, `{"username":"",`+exp+`}`, secret), "token must contain a username")
	f("user a number", sign(header, `{"username":1,`+exp+`}`, secret), "username in token must be a string")
	f("user a list", sign(header, `{"username":["root"],`+exp+`}`, secret), "username in token must be a string")
	f("unknown user", sign(header, `{"username":"nobody",`+exp+`}`, secret), "user not found")
	f("other case", sign(header, `{"username":"Root",`+exp+`}`, secret), "user not found")
	f("other case of the claim", sign(header, `{"Username":"root",`+exp+`}`, secret), "token must contain a username")
	f("padded user", sign(header, `{"username":"root ",`+exp+`}`, secret), "user not found")

	opt.SharedSecret = ""
	_, base = start(t, store, opt)
	f("no secret, empty key", sign(header, good, ""), "bearer auth disabled")
	f("no secret", sign(header, good, secret), "bearer auth disabled")
}

func TestCredentials(t *testing.T) {
	_, _, opt := withUsers(t)
	_, base := start(t, newFakeStore(), opt)
	f := func(want string, params string, header ...string) {
		t.Helper()
		a := do(t, "GET", base+"/query?q=SHOW+DATABASES"+params, "", header...)
		if want == "" && a.status != 200 || want != "" && (a.status != 401 || a.body != `{"error":"`+want+`"}`+"\n" || a.header.Get("X-Influxdb-Error") != "") {
			t.Errorf("%s %v: %d %s %v, want %q", params, header, a.status, a.body, a.header, want)
		}
	}
	basic := func(s string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(s)) }
	const unparsed, failed = "unable to parse authentication credentials", "authorization failed"
	f("", "&u=root&p=rootpw")
	f("", "&p=rootpw&u=root")
	f("", "", "Authorization", basic("root:rootpw"))
	f("", "", "Authorization", "basic"+basic("root:rootpw")[5:])
	f("", "", "Authorization", "Token root:rootpw")
	f("", "&u=root&p=rootpw", "Authorization", basic("root:wrong")) // the URL comes first
	f(failed, "&u=root&p=wrong", "Authorization", basic("root:rootpw"))
	f("", "&u=root&p=", "Authorization", basic("root:rootpw"))
	f(unparsed, "")
	f(unparsed, "&u=root")
	f(unparsed, "", "Authorization", "Token rootpw")
	f(unparsed, "", "Authorization", "Token ")
	f(unparsed, "", "Authorization", "Token")
	f(unparsed, "", "Authorization", "Bearer ")
	f(unparsed, "", "Authorization", "Basic !!!")
	f(unparsed, "", "Authorization", basic("root"))
	f(unparsed, "", "Authorization", "Digest root:rootpw")
	f(unparsed, "", "Authorization", "root:rootpw")
	f("username required", "", "Authorization", basic(":rootpw"))
	f("username required", "", "Authorization", "Token :rootpw")
	f(failed, "", "Authorization", basic("root:"))
	f(failed, "", "Authorization", basic("Root:rootpw"))
	f(failed, "", "Authorization", basic("root:Rootpw"))
	f(failed, "", "Authorization", basic("root:rootpw\x00"))
	f(failed, "", "Authorization", basic("nobody:rootpw"))
	f(failed, "", "Authorization", basic("ann:rootpw"))

	// The form's u and p are not a login, and OPTIONS needs none.
	a := do(t, "POST", base+"/query", "q=SHOW+DATABASES&u=root&p=rootpw", "Content-Type", "application/x-www-form-urlencoded")
	if a.status != 401 {
		t.Errorf("login by form: %d", a.status)
	}
	for _, path := range []string{"/query", "/write", "/api/v2/write"} {
		if a := do(t, "OPTIONS", base+path, ""); a.status != 200 || a.body != "" {
			t.Errorf("OPTIONS %s: %d %s", path, a.status, a.body)
		}
	}
}

// A password that was right is not checked again, until it is no longer right.
func TestVerifiedLogins(t *testing.T) {
	users, checks, opt := withUsers(t)
	_, base := start(t, newFakeStore(), opt)
	f := func(u, p string, status int, checked int64) {
		t.Helper()
		before := checks.Load()
		a := do(t, "GET", base+"/query?q=SHOW+DATABASES&u="+u+"&p="+p, "")
		if a.status != status || checks.Load()-before != checked {
			t.Errorf("%s %s: %d after %d checks, want %d after %d", u, p, a.status, checks.Load()-before, status, checked)
		}
	}
	f("root", "rootpw", 200, 1)
	f("root", "rootpw", 200, 0)
	f("root", "wrong", 401, 1)
	f("root", "rootpw", 200, 0)
	f("ann", "rootpw", 401, 1)
	f("ann", "annpw", 200, 1)
	f("nobody", "x", 401, 1) // as slow as for a user that exists
	users.apply(t, meta.SetPassword{Name: "ann", Hash: "#new"})
	f("ann", "annpw", 401, 1)
	f("ann", "new", 200, 1)
	f("ann", "new", 200, 0)
	users.apply(t, meta.DropUser{Name: "ann"})
	f("ann", "new", 401, 1)
	users.apply(t, meta.CreateUser{Name: "ann", Hash: "#other"})
	f("ann", "new", 401, 1)
	f("ann", "other", 200, 1)
}

// Guessing is slowed down, without locking out who knows the password.
func TestFailedLogins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, checks, opt := withUsers(t)
		store := newFakeStore()
		opt.Writer, opt.Query = store, store
		h := httpapi.New(opt)
		defer h.Close()
		f := func(password string, want int) {
			t.Helper()
			if w := serve(h, "GET", "/query?q=SHOW+DATABASES&u=root&p="+password, nil); w.Code != want {
				t.Errorf("%s: %d %s, want %d", password, w.Code, w.Body, want)
			}
		}
		f("rootpw", 200)
		for range 3 { // seconds
			before := checks.Load()
			for i := range 40 {
				f("guess", map[bool]int{true: 401, false: 503}[i < 10])
			}
			if n := checks.Load() - before; n != 10 {
				t.Errorf("%d passwords were checked in a second", n)
			}
			f("rootpw", 200)
			time.Sleep(time.Second)
		}
	})
}

// Without an administrator one statement is let through.
func TestBootstrap(t *testing.T) {
	users := newFakeUsers(t, meta.CreateUser{Name: "ann", Hash: "#annpw"})
	store := newFakeStore()
	store.create("db")
	_, base := start(t, store, httpapi.Options{AuthEnabled: true, Catalog: users, Pprof: true})
	query := func(q string) answer {
		return do(t, "POST", base+"/query", "q="+url.QueryEscape(q), "Content-Type", "application/x-www-form-urlencoded")
	}
	const refused = `{"error":"error authorizing query: create admin user first or disable authentication"}` + "\n"
	for _, q := range []string{
		"SHOW DATABASES", "CREATE DATABASE x", "CREATE USER x WITH PASSWORD 'p'",
		"CREATE USER x WITH PASSWORD 'p' WITH ALL PRIVILEGES; DROP DATABASE db", "DROP DATABASE db; CREATE USER x WITH PASSWORD 'p' WITH ALL PRIVILEGES",
		"GRANT ALL TO ann", "SELECT * FROM db..m",
	} {
		if a := query(q); a.status != 403 || a.body != refused {
			t.Errorf("%s: %d %s", q, a.status, a.body)
		}
	}
	if a := query("CREATE USER x WITH PASSWORD 'p' WITH ALL PRIVILEGES"); a.status != 200 {
		t.Errorf("first administrator: %d %s", a.status, a.body)
	}
	for path, status := range map[string]int{
		"/write?db=db": 403, "/api/v2/write?bucket=db": 403, "/api/v2/delete?bucket=db": 403,
		"/metrics": 403, "/debug/vars": 403, "/debug/pprof/": 403, "/debug/requests": 403, "/ping": 204, "/health": 200,
	} {
		method := "GET"
		if strings.Contains(path, "=") {
			method = "POST"
		}
		if a := do(t, method, base+path, ""); a.status != status {
			t.Errorf("%s: %d %s, want %d", path, a.status, a.body, status)
		}
	}
}

// TestWritesHideDatabases: who may not write there does not learn whether a
// database exists.
func TestWritesHideDatabases(t *testing.T) {
	users, _, opt := withUsers(t)
	users.apply(t, meta.CreateUser{Name: "bob", Hash: "#bobpw"})
	_, base := start(t, newFakeStore(), opt)
	for _, path := range []string{"/write?db=", "/api/v2/write?bucket=", "/api/v1/prom/write?db=", "/api/v1/prom/read?db=", "/api/v2/delete?bucket=", "/query?q=SHOW+MEASUREMENTS&db="} {
		there := do(t, "POST", base+path+"db&u=bob&p=bobpw", "m v=1")
		none := do(t, "POST", base+path+"nope&u=bob&p=bobpw", "m v=1")
		if there.status != 403 || none.status != 403 || strings.ReplaceAll(none.body, "nope", "db") != there.body {
			t.Errorf("%s: %d %s for a database, %d %s for none", path, there.status, there.body, none.status, none.body)
		}
	}
	if a := do(t, "POST", base+"/write?db=nope&u=root&p=rootpw", "m v=1"); a.status != 404 {
		t.Errorf("an administrator gets %d %s", a.status, a.body)
	}
}

// TestHeadOfHealth answers monitors that ask without wanting the body.
func TestHeadOfHealth(t *testing.T) {
	_, base := start(t, newFakeStore(), httpapi.Options{})
	get, head := do(t, "GET", base+"/health", ""), do(t, "HEAD", base+"/health", "")
	if head.status != 200 || head.body != "" || head.header.Get("Content-Type") != get.header.Get("Content-Type") {
		t.Errorf("GET %d, HEAD %d %q %v", get.status, head.status, head.body, head.header)
	}
	_, base = start(t, newFakeStore(), httpapi.Options{Health: illness("disk failed")})
	if a := do(t, "HEAD", base+"/health", ""); a.status != 503 {
		t.Errorf("HEAD of a sick server: %d", a.status)
	}
}

// TestOpenHealth holds that a /health that needs no login tells details to administrators
// alone, whatever the status.
func TestOpenHealth(t *testing.T) {
	_, _, opt := withUsers(t)
	for _, c := range []struct {
		health httpapi.Health
		status int
		brief  string
		detail string
	}{
		{illness("disk sda1 of db has failed"), 503, "not ready: ", "sda1"},
		{degraded(true), 200, "degraded: the login", "quarantine"},
		{wellness("n4: not reachable at 10.0.0.4"), 200, "ready for queries and writes", "10.0.0.4"},
	} {
		opt.Health = c.health
		_, base := start(t, newFakeStore(), opt)
		for login, may := range map[string]bool{"": false, "?u=ann&p=annpw": false, "?u=root&p=wrong": false, "?u=root&p=rootpw": true} {
			a := do(t, "GET", base+"/health"+login, "")
			if a.status != c.status || strings.Contains(a.body, c.detail) != may || strings.Contains(a.body, `"message":"`+c.brief) == may {
				t.Errorf("%q: %d %s", login, a.status, a.body)
			}
		}
	}
	opt.Health = illness("disk sda1 of db has failed")
	opt.PingAuth = true
	_, base := start(t, newFakeStore(), opt)
	for path, status := range map[string]int{"/health": 503, "/ping": 204, "/status": 204, "/metrics": 200} {
		if a := do(t, "GET", base+path, ""); a.status != 401 {
			t.Errorf("%s without a login: %d", path, a.status)
		}
		if a := do(t, "GET", base+path+"?u=ann&p=annpw", ""); a.status != status {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}

type illness string

func (i illness) Health() (bool, string) { return false, string(i) }
func (i illness) Degraded() bool         { return false }

// A name that is no user's costs the same work as one that is: one comparison
// with a hash of the same kind and cost.
func TestUnknownUsersTakeAsLong(t *testing.T) {
	hash, err := meta.HashPassword("rootpw")
	if err != nil {
		t.Fatal(err)
	}
	users := newFakeUsers(t, meta.CreateUser{Name: "root", Hash: hash, Admin: true})
	compared := make(chan string, 100)
	_, base := start(t, newFakeStore(), httpapi.Options{AuthEnabled: true, Catalog: users, CheckPassword: func(hash, password string) bool {
		compared <- hash
		return meta.CheckPassword(hash, password)
	}})
	work := func(name string) string {
		t.Helper()
		if a := do(t, "GET", base+"/query?q=SHOW+DATABASES&p=wrong&u="+name, ""); a.status != 401 {
			t.Fatalf("%+v", a)
		}
		if n := len(compared); n != 1 {
			t.Fatalf("user %s: %d comparisons, want 1", name, n)
		}
		return <-compared
	}
	// The kind and the cost stand in a hash's first seven bytes: "$2a$10$".
	if known, unknown := work("root"), work("nobody"); len(known) != len(unknown) || known[:7] != unknown[:7] {
		t.Errorf("compared with %q for a user, %q for nobody", known, unknown)
	}
}
