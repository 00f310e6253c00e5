package transport

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"tsdbd/internal/certificate"
)

// write puts a new certificate of the authority, its key, and the authority's own
// certificate into dir.
func (a authority) write(t *testing.T, dir string) certificate.Files {
	t.Helper()
	pair := a.config(t).Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	put := func(name, kind string, bytes []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return certificate.Files{
		Certificate: put("node.pem", "CERTIFICATE", pair.Certificate[0]),
		Key:         put("node.key", "PRIVATE KEY", key),
		Authorities: put("ca.pem", "CERTIFICATE", a.certificate.Raw),
	}
}

// TestRenewedCertificates replaces the certificates and the authority of two nodes that
// run, one after the other.
func TestRenewedCertificates(t *testing.T) {
	t.Parallel()
	old, renewed := newAuthority(t), newAuthority(t)
	open := func(name string) (*Transport, *certificate.Pair, string) {
		dir := t.TempDir()
		p, err := certificate.Load(old.write(t, dir))
		if err != nil {
			t.Fatal(err)
		}
		n := node(t, name, func(o *Options, _ *Hello) {
			o.Secret, o.TLS = "", func() *tls.Config { return p.Peer(&tls.Config{}) }
		})
		serve(t, n, name)
		return n, p, dir
	}
	n1, p1, dir1 := open("n1")
	n2, p2, dir2 := open("n2")
	// talk makes a new connection.
	talk := func(from, to *Transport, want string) {
		t.Helper()
		from.Client().CloseIdleConnections()
		if _, err := get(from, to.Address()); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	reload := func(p *certificate.Pair, want bool) {
		t.Helper()
		if changed, err := p.Reload(); err != nil || changed != want {
			t.Errorf("reload: changed %v, error %v", changed, err)
		}
	}
	talk(n1, n2, "")
	talk(n2, n1, "")
	before, err := n1.Streams().Dial(raft.ServerAddress(n2.Address()), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := n2.Streams().Accept()
	if err != nil {
		t.Fatal(err)
	}

	renewed.write(t, dir1)
	reload(p1, true)
	reload(p1, false)
	talk(n1, n2, "is not valid here")
	talk(n2, n1, "is not valid here")
	renewed.write(t, dir2)
	reload(p2, true)
	talk(n1, n2, "")
	talk(n2, n1, "")

	// The connection from before goes on.
	if _, err := before.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(accepted, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	before.Close()
	accepted.Close()

	// A key of another certificate is refused.
	if err := os.Rename(filepath.Join(dir1, "node.key"), filepath.Join(dir2, "node.key")); err != nil {
		t.Fatal(err)
	}
	if _, err := p2.Reload(); err == nil || !strings.Contains(err.Error(), "load certificate") {
		t.Errorf("a key of another certificate: %v", err)
	}
	talk(n1, n2, "")
	talk(n2, n1, "")
}
