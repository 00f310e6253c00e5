package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"tsdbd/meta"
)

// FuzzCredentials holds that no URL and no header make the parsing of logins
// panic, and that no token passes that was not signed.
func FuzzCredentials(f *testing.F) {
	for _, header := range []string{"", "Basic cm9vdDpyb290cHc=", "Basic", "Basic ===", "Token a:b", "Token ", "Bearer ", "Bearer a.b.c", "Bearer ..",
		"Bearer eyJhbGciOiJub25lIn0.eyJ1c2VybmFtZSI6InJvb3QiLCJleHAiOjQxMDI0NDQ4MDB9.", "Digest x"} {
		f.Add(header, "u=a&p=b")
	}
	f.Add("Bearer eyJhbGciOiJIUzI1NiJ9.eyJ1c2VybmFtZSI6InJvb3QifQ.AAAA", "u=%zz&p=")
	tokens := newTokens("a secret that the fuzzer does not find out")
	f.Fuzz(func(t *testing.T, header, query string) {
		r := &http.Request{Header: http.Header{"Authorization": {header}}, URL: &url.URL{RawQuery: query}}
		c, err := parseCredentials(r)
		if err != nil {
			return
		}
		if c.token != "" {
			if name, err := tokens.user(c.token); err == nil {
				t.Errorf("a token for %q passes: %s", name, c.token)
			}
		} else if !strings.Contains(header, " ") && !strings.Contains(query, "u=") {
			t.Errorf("credentials %+v out of nothing", c)
		}
	})
}

func BenchmarkVerifiedLogin(b *testing.B) {
	l := newLogins(func(hash, password string) bool { return hash == password })
	data, err := meta.Apply(meta.CreateUser{Name: "ann", Hash: "pw"}, new(meta.Data))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := l.check(context.Background(), data, "ann", "pw", "127.0.0.1"); err != nil {
			b.Fatal(err)
		}
	}
}
