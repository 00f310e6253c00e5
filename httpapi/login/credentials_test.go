package login

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"tsdbd/meta"
)

// FuzzCredentials holds that no URL and no header make the parsing of logins
// panic, and that no token passes that was not signed.
func FuzzCredentials(f *testing.F) {
	for _, header := range []string{
		"", "Basic cm9vdDpyb290cHc=", "Basic", "Basic ===", "Token a:b", "Token ", "Bearer ", "Bearer a.b.c", "Bearer ..",
		"Bearer eyJhbGciOiJub25lIn0.eyJ1c2VybmFtZSI6InJvb3QiLCJleHAiOjQxMDI0NDQ4MDB9.", "Digest x",
	} {
		f.Add(header, "u=a&p=b")
	}
	f.Add("Bearer eyJhbGciOiJIUzI1NiJ9.eyJ1c2VybmFtZSI6InJvb3QifQ.AAAA", "u=%zz&p=")
	tokens := newTokens("a secret that the fuzzer does not find out")
	f.Fuzz(func(t *testing.T, header, query string) {
		r := &http.Request{Header: http.Header{"Authorization": {header}}, URL: &url.URL{RawQuery: query}}
		c, err := parse(r)
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

// Passwords that wait to be checked are bounded; those that were right before
// do not wait.
func TestWaitingLogins(t *testing.T) {
	block := make(chan struct{})
	l := newPasswords(func(hash, password string) bool {
		if password != "pw" {
			<-block
		}
		return hash == password
	})
	data, err := meta.Apply(meta.CreateUser{Name: "ann", Hash: "pw"}, new(meta.Data))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(name, password string) error {
		_, err := l.check(context.Background(), data, name, password, name)
		return err
	}
	if err := ask("ann", "pw"); err != nil {
		t.Fatal(err)
	}
	admitted := l.turns.free + maxWaitingLogins
	answers := make(chan error, admitted+50)
	for i := range admitted + 50 {
		go func() { answers <- ask(strconv.Itoa(i), "guess") }()
	}
	for range 50 {
		if err := <-answers; err != errWaiting {
			t.Fatalf("one too many: %v", err)
		}
	}
	if err := ask("ann", "pw"); err != nil {
		t.Errorf("who was in before: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	close(block)
	for range admitted {
		if err := <-answers; err != errFailed {
			t.Fatal(err)
		}
	}
	if t.Failed() {
		return
	}
	if n := len(l.turns.known) + len(l.turns.unknown); n != 0 || l.turns.free == 0 || len(l.mu.pending) != 0 {
		t.Errorf("%d still wait, %d turns are free, pending %v", n, l.turns.free, l.mu.pending)
	}
	if _, err := l.check(ctx, data, "x", "guess", ""); err != errFailed && err != context.Canceled {
		t.Errorf("a client that left: %v", err)
	}
}

func BenchmarkVerifiedLogin(b *testing.B) {
	l := newPasswords(func(hash, password string) bool { return hash == password })
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
