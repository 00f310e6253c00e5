package transport

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"tsdbd/internal/testkit/leak"
)

const secret = "correct horse battery staple"

// Most tests wait for timeouts and elections: several run at a time.
func TestMain(m *testing.M) { leak.Main(m, 6) }

// node opens a transport on a free port of the loopback.
func node(t *testing.T, name string, change func(*Options, *Hello)) *Transport {
	t.Helper()
	h := Hello{Version: "1.2.3", Cluster: "c1", Name: name, ID: name + "/00000001"}
	o := Options{Bind: "127.0.0.1:0", Secret: secret}
	if change != nil {
		change(&o, &h)
	}
	o.Self = func() Hello { return h }
	n, err := Listen(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}

// serve answers HTTP at a node with its name.
func serve(t *testing.T, n *Transport, name string) {
	t.Helper()
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s answers %s%s", name, r.URL.Path, body)
	})}
	done := make(chan error, 1)
	l := n.HTTP()
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}

func get(n *Transport, address string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/x", nil)
	if err != nil {
		return "", err
	}
	resp, err := n.Client().Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

// authority makes certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pool        *x509.CertPool
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "nodes"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(c)
	return authority{c, key, pool}
}

// config returns the TLS configuration of a node of the authority.
func (a authority) config(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, RootCAs: a.pool}
}

// tls returns config for Options.
func (a authority) tls(t *testing.T) func() *tls.Config {
	t.Helper()
	c := a.config(t)
	return func() *tls.Config { return c }
}

func TestNodesTalk(t *testing.T) {
	a := newAuthority(t)
	for name, change := range map[string]func(*Options, *Hello){
		"secret":                 nil,
		"certificate":            func(o *Options, _ *Hello) { o.Secret, o.TLS = "", a.tls(t) },
		"certificate and secret": func(o *Options, _ *Hello) { o.TLS = a.tls(t) },
		"plain":                  func(o *Options, _ *Hello) { o.Secret = "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n1, n2 := node(t, "n1", change), node(t, "n2", change)
			serve(t, n2, "n2")
			resp, err := n1.Client().Get("http://" + n2.Address() + "/x")
			if err != nil {
				t.Fatal(err)
			}
			if s := n2.figures(); s.raft != 0 || s.http != 1 {
				t.Fatalf("%+v", s)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || string(body) != "n2 answers /x" {
				t.Fatalf("%q, %v", body, err)
			}
			l := n2.Streams()
			accepted := make(chan net.Conn)
			go func() {
				c, _ := l.Accept()
				accepted <- c
			}()
			c, err := n1.Streams().Dial(raft.ServerAddress(n2.Address()), 10*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			other := <-accepted
			if peer := other.(*Conn).Peer(); peer.Name != "n1" || peer.Address != n1.Address() || peer.ID != "n1/00000001" {
				t.Fatalf("peer %+v", peer)
			}
			sent := make([]byte, 3<<20)
			rand.Read(sent)
			go func() {
				c.Write(sent)
				c.Close()
			}()
			if got, err := io.ReadAll(other); err != nil || !bytes.Equal(got, sent) {
				t.Fatalf("%d of %d bytes, %v", len(got), len(sent), err)
			}
			other.Close()
			if s := n2.figures(); s.raft != 0 {
				t.Fatalf("%+v", s)
			}
		})
	}
}

// TestRefusals connects two nodes that must not be connected: the dialer gets the
// reason as an error, and both nodes keep it.
func TestRefusals(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	hello := func(change func(*Hello)) func(*Options, *Hello) {
		return func(_ *Options, h *Hello) { change(h) }
	}
	for _, c := range []struct {
		name           string
		dialer, dialed func(*Options, *Hello)
		want           string // in the error of the dialer
		wantDialed     string // in what the other node keeps, "" for the same
	}{
		{
			name: "secret", dialed: func(o *Options, _ *Hello) { o.Secret = "another secret of nodes" },
			want: "the secret of 127.0.0.1 is not that of n2",
		},
		{
			name: "plain to secret", dialer: func(o *Options, _ *Hello) { o.Secret = "" },
			want: "n2 (ADDRESS) has a secret and no certificates, 127.0.0.1 has not the same: give all nodes the same secret, or certificates",
		},
		{
			name: "secret to plain", dialed: func(o *Options, _ *Hello) { o.Secret = "" },
			want: "has a secret and no certificates, ADDRESS has not the same", wantDialed: "n2 (ADDRESS) has neither a secret nor certificates",
		},
		{
			name: "secret to certificate", dialed: func(o *Options, _ *Hello) { o.Secret, o.TLS = "", a.tls(t) },
			want: "has a secret and no certificates, ADDRESS has not the same", wantDialed: "n2 (ADDRESS) has certificates and no secret, 127.0.0.1 has not the same",
		},
		{
			name: "certificate of another authority", dialed: func(o *Options, _ *Hello) { o.Secret, o.TLS = "", a.tls(t) },
			dialer: func(o *Options, _ *Hello) {
				c := other.config(t)
				c.RootCAs = a.pool
				o.Secret, o.TLS = "", func() *tls.Config { return c }
			},
			want: "ADDRESS does not accept the certificate of n1", wantDialed: "the certificate of 127.0.0.1 is not valid here",
		},
		{
			name: "another authority", dialer: func(o *Options, _ *Hello) { o.Secret, o.TLS = "", other.tls(t) },
			dialed: func(o *Options, _ *Hello) { o.Secret, o.TLS = "", a.tls(t) },
			want:   "the certificate of ADDRESS is not valid here", wantDialed: "127.0.0.1 does not accept the certificate of n2",
		},
		{
			name: "cluster", dialed: hello(func(h *Hello) { h.Cluster = "c2" }),
			want: "n1 (DIALER) is in cluster c1, n2 (ADDRESS) in cluster c2",
		},
		{
			name: "too new", dialer: hello(func(h *Hello) { h.OldestProtocol, h.Protocol, h.Version = 3, 4, "9.0" }),
			dialed: hello(func(h *Hello) { h.OldestProtocol, h.Protocol = 1, 2 }),
			want:   "n1 (DIALER) runs tsdbd 9.0 with protocols 3 to 4, n2 (ADDRESS) runs 1.2.3 with protocols 1 to 2: upgrade the older node",
		},
		{
			name: "name", dialed: hello(func(h *Hello) { h.Name = "n1" }),
			want: `two nodes have the name n1: DIALER with id "n1/00000001", and ADDRESS with id "n2/00000001"`,
		},
		{
			name: "copied directory", dialed: hello(func(h *Hello) { h.Name, h.ID = "n1", "n1/00000001" }),
			want: `two nodes have the name n1: DIALER with id "n1/00000001", and ADDRESS with id "n1/00000001"`,
		},
		{name: "check", dialed: func(o *Options, _ *Hello) {
			o.Check = func(h Hello) error { return fmt.Errorf("%s has left\n", h.Name) }
		}, want: "n1 has left"},
		{name: "check of the dialer", dialer: func(o *Options, _ *Hello) {
			o.Check = func(h Hello) error { return fmt.Errorf("%s has left", h.Name) }
		}, want: "n2 has left"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n1, n2 := node(t, "n1", c.dialer), node(t, "n2", c.dialed)
			serve(t, n2, "n2")
			fill := strings.NewReplacer("ADDRESS", n2.Address(), "DIALER", n1.Address())
			want := fill.Replace(c.want)
			_, err := get(n1, n2.Address())
			var r *Refusal
			if !errors.As(err, &r) || !strings.Contains(err.Error(), want) {
				t.Fatalf("error %v\nwant  %s", err, want)
			}
			kept := n1.Refusals()
			if got, ok := kept[r.key()]; !ok || !strings.Contains(got.Reason, want) || got.Incoming || got.Time.IsZero() || len(kept) != 1 {
				t.Errorf("the dialer keeps %+v", kept)
			}
			if c.wantDialed != "" {
				want = fill.Replace(c.wantDialed)
			}
			until := time.Now().Add(20 * time.Second)
			for len(n2.Refusals()) == 0 && time.Now().Before(until) {
				time.Sleep(time.Millisecond)
			}
			kept = n2.Refusals()
			if len(kept) != 1 {
				t.Fatalf("the other node keeps %+v", kept)
			}
			for _, got := range kept {
				if !strings.Contains(got.Reason, want) || !got.Incoming {
					t.Errorf("the other node keeps %+v\nwant %s", got, want)
				}
			}
			if s := n2.figures(); s.refused != 1 || s.http != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}
