package transport

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	local := Options{Bind: "127.0.0.1:8088"}
	remote := Options{Bind: "10.0.0.1:8088"}
	withSecret := func(o Options, s string) Options {
		o.Secret = s
		return o
	}
	certificate := []tls.Certificate{{}}
	withTLS := func(c *tls.Config) Options {
		o := remote
		o.TLS = func() *tls.Config { return c }
		return o
	}
	good := func(o Options, peers ...string) {
		t.Helper()
		if err := Check(o, peers); err != nil {
			t.Error(err)
		}
	}
	good(local)
	good(local, "localhost:1", "[::1]:2", "127.3.0.1:3")
	good(withSecret(remote, secret), "10.0.0.2:8088", "db.example.com:1")
	good(withSecret(Options{Bind: ":8088", Advertise: "10.0.0.1:8088"}, secret))
	good(withTLS(&tls.Config{Certificates: certificate, RootCAs: x509.NewCertPool()}), "10.0.0.2:8088")

	bad := func(want string, o Options, peers ...string) {
		t.Helper()
		if err := Check(o, peers); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	const alone = "nodes without a secret and without certificates must be on one machine, but "
	bad(alone+"10.0.0.1:8088 is not a loopback address", remote)
	bad(alone+"10.0.0.2:8088", local, "127.0.0.1:1", "10.0.0.2:8088")
	bad(alone+"db.example.com:1", local, "db.example.com:1")
	bad(alone+":8088", Options{Bind: ":8088", Advertise: "127.0.0.1:8088"})
	bad(alone+"10.0.0.1:1", Options{Bind: "127.0.0.1:8088", Advertise: "10.0.0.1:1"})
	bad("the secret of the cluster has 15 bytes: it needs at least 16", withSecret(local, "fifteen bytes!!"))
	bad(`address "x" to listen on for nodes`, Options{Bind: "x"})
	bad(`address "0.0.0.0:1" of a node: other nodes need a host and a port to connect to`, withSecret(local, secret), "0.0.0.0:1")
	bad(`address "10.0.0.2:0" of a node`, withSecret(local, secret), "10.0.0.2:0")
	bad(`address "10.0.0.2" of a node`, withSecret(local, secret), "10.0.0.2")
	bad("does not verify certificates", withTLS(&tls.Config{Certificates: certificate, RootCAs: x509.NewCertPool(), InsecureSkipVerify: true}))
	bad("has no certificate", withTLS(&tls.Config{RootCAs: x509.NewCertPool()}))
	bad("has no certificate authority", withTLS(&tls.Config{Certificates: certificate}))
	for _, o := range []Options{{Bind: "0.0.0.0:0", Advertise: "127.0.0.1:1"}, {Bind: "0.0.0.0:0", Secret: secret}} {
		if n, err := Listen(o); err == nil {
			n.Close()
			t.Errorf("listens on %s, advertises %q", o.Bind, o.Advertise)
		}
	}
}
