package certificate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var day = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// write puts a certificate that signs itself and expires after days, and its key, into
// files of dir.
func write(t *testing.T, dir, name string, days int) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: day.AddDate(0, 0, days)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	put := func(path, kind string, bytes []byte) string {
		path = filepath.Join(dir, path)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return put(name+".pem", "CERTIFICATE", der), put(name+".key", "PRIVATE KEY", pkcs8)
}

// TestReload replaces the files of a pair, and breaks them.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	cert, key := write(t, dir, "node", 10)
	ca, _ := write(t, dir, "ca", 20)
	p, err := Load(Files{Certificate: cert, Key: key, Authorities: ca})
	if err != nil {
		t.Fatal(err)
	}
	// reload expects a change and the day of expiry, or an error.
	reload := func(changed bool, days int, refused string) {
		t.Helper()
		got, err := p.Reload()
		if refused != "" && (err == nil || !strings.Contains(err.Error(), refused)) || refused == "" && err != nil {
			t.Errorf("error %v, want %q", err, refused)
		}
		if want := day.AddDate(0, 0, days); got != changed || !p.NotAfter().Equal(want) {
			t.Errorf("changed %v, expires %v, want %v and %v", got, p.NotAfter(), changed, want)
		}
	}
	reload(false, 10, "")
	write(t, dir, "node", 30)
	reload(true, 20, "") // the authority's
	write(t, dir, "ca", 40)
	reload(true, 30, "")
	all := &tls.Config{MinVersion: tls.VersionTLS13}
	if c := p.Peer(all); c.MinVersion != tls.VersionTLS13 || len(c.Certificates) != 1 || c.RootCAs == nil {
		t.Errorf("%+v", c)
	}
	if len(all.Certificates) != 0 {
		t.Error("the settings of all connections have the certificate of the node")
	}

	if err := os.WriteFile(ca, []byte("no PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "node", 50)
	reload(false, 30, "read certificate authorities: no certificate in "+ca)
	write(t, dir, "ca", 60)
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	reload(false, 30, "load certificate "+cert+" with key "+key)
	if _, err := Load(Files{Certificate: cert}); err == nil {
		t.Error("a certificate without a key is loaded")
	}
}
