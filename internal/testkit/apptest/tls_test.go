package apptest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// writeCertificate puts a new certificate with that serial number, and its
// key, into dir.
func writeCertificate(t *testing.T, dir string, serial int64) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "tsdbd"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: pkcs8}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// dial shakes hands and returns the serial number of the server's certificate.
func dial(base string, c *tls.Config) (serial int64, err error) {
	c.InsecureSkipVerify = true // it signed itself
	conn, err := tls.Dial("tcp", strings.TrimPrefix(base, "https://"), c)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64(), nil
}

func TestTLSAndReload(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := writeCertificate(t, dir, 1)
	file := filepath.Join(dir, "tsdbd.toml")
	write := func(more string) {
		t.Helper()
		text := "[http]\nhttps-enabled = true\nhttps-certificate = \"" + cert + "\"\nhttps-private-key = \"" + key + "\"\n" + more
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	s := Start(t, "-config", file)
	if !strings.HasPrefix(s.URL, "https://") {
		t.Fatalf("it says %s", s.URL)
	}
	f := func(min, max uint16, ciphers []uint16, ok bool) {
		t.Helper()
		_, err := dial(s.URL, &tls.Config{MinVersion: min, MaxVersion: max, CipherSuites: ciphers})
		if (err == nil) != ok {
			t.Errorf("%s to %s with %v: %v", tls.VersionName(min), tls.VersionName(max), ciphers, err)
		}
	}
	f(tls.VersionTLS10, tls.VersionTLS10, nil, false)
	f(tls.VersionTLS11, tls.VersionTLS11, nil, false)
	f(tls.VersionTLS12, tls.VersionTLS12, nil, true)
	f(tls.VersionTLS13, tls.VersionTLS13, nil, true)
	f(tls.VersionTLS12, tls.VersionTLS12, []uint16{tls.TLS_ECDHE_ECDSA_WITH_RC4_128_SHA}, false)
	f(tls.VersionTLS12, tls.VersionTLS12, []uint16{tls.TLS_RSA_WITH_3DES_EDE_CBC_SHA}, false)

	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
	resp, err := client.Get(s.URL + "/ping")
	if err != nil || resp.StatusCode != 204 || resp.ProtoMajor != 1 {
		t.Fatalf("ping: %v %v", resp, err)
	}
	resp.Body.Close()
	resp, err = http.Get("http://" + strings.TrimPrefix(s.URL, "https://") + "/ping")
	if err != nil || resp.StatusCode != 400 {
		t.Errorf("plain HTTP: %v %v", resp, err)
	} else {
		resp.Body.Close()
	}

	// A new certificate and level come with SIGHUP; the rest waits.
	writeCertificate(t, dir, 2)
	write("access-log = true\n[log]\nlevel = \"debug\"\n")
	s.Reload(`changed="log.level, certificate" at_restart=http.access-log`)
	if serial, err := dial(s.URL, &tls.Config{}); err != nil || serial != 2 {
		t.Errorf("certificate %d %v", serial, err)
	}
	s.Reload(`changed=nothing at_restart=http.access-log`)

	// What cannot be read changes nothing.
	if err := os.WriteFile(key, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Reload("certificate not reloaded")
	write("access-log = true\n[log]\nlevel = \"debug\"\n[tls]\nmax-version = \"1.2\"\nciphers = [\"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384\"]\n")
	s.Reload(`changed=nothing at_restart="http.access-log, tls.ciphers, tls.max-version"`)
	write("max-row-limit = \"many\"\n")
	s.Reload("configuration not reloaded")
	if serial, err := dial(s.URL, &tls.Config{}); err != nil || serial != 2 {
		t.Errorf("certificate after a broken one: %d %v", serial, err)
	}
	client.CloseIdleConnections()
	s.Stop()
}

// TestNodeCertificate replaces the certificate of the port between nodes.
func TestNodeCertificate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := writeCertificate(t, dir, 1)
	bind := FreeAddress(t)
	s := Start(t, "-cluster-node", "n1", "-cluster-bind", bind, "-cluster-join", "n1="+bind,
		"-cluster-certificate", cert, "-cluster-private-key", key, "-cluster-ca", cert)
	shows := func(want int64) {
		t.Helper()
		if serial, err := dial(bind, &tls.Config{}); err != nil || serial != want {
			t.Errorf("certificate %d %v, want %d", serial, err, want)
		}
	}
	shows(1)
	writeCertificate(t, dir, 2)
	s.Reload("changed=certificate")
	shows(2)
	if err := os.WriteFile(key, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Reload("certificate not reloaded, the old one stays")
	shows(2)

	// It is valid for an hour.
	s.WaitLog("certificate expires soon")
	_, metrics, err := s.Do(t.Context(), http.MethodGet, "/metrics", nil, "")
	if err != nil || !strings.Contains(metrics, `tsdbd_certificate_not_after_timestamp_seconds{use="nodes"} 1.`) {
		t.Errorf("metrics: %v", err)
	}
	s.Stop()
}

// TestTLSChoices starts servers with chosen versions and suites, and shakes
// hands with them.
func TestTLSChoices(t *testing.T) {
	cert, key := writeCertificate(t, t.TempDir(), 1)
	t.Setenv("TSDBD_HTTP_HTTPS_ENABLED", "true")
	t.Setenv("TSDBD_HTTP_HTTPS_CERTIFICATE", cert)
	t.Setenv("TSDBD_HTTP_HTTPS_PRIVATE_KEY", key)
	t.Setenv("TSDBD_OPENTSDB_0_ENABLED", "true")
	t.Setenv("TSDBD_OPENTSDB_0_BIND_ADDRESS", "127.0.0.1:0")
	t.Setenv("TSDBD_OPENTSDB_0_TLS_ENABLED", "true")
	t.Setenv("TSDBD_OPENTSDB_0_CERTIFICATE", cert)
	t.Setenv("TSDBD_OPENTSDB_0_PRIVATE_KEY", key)
	const aes128, aes256 = tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
	only := func(version uint16, suites ...uint16) *tls.Config {
		return &tls.Config{MinVersion: version, MaxVersion: version, CipherSuites: suites}
	}
	f := func(settings string, taken, refused []*tls.Config) {
		t.Helper()
		s := Start(t, "-config", TempFile(t, settings))
		for _, address := range []string{s.URL, s.inputAddress("opentsdb")} {
			for _, c := range taken {
				if _, err := dial(address, c); err != nil {
					t.Errorf("%s: %s: %s with %v: %v", settings, address, tls.VersionName(c.MinVersion), c.CipherSuites, err)
				}
			}
			for _, c := range refused {
				if _, err := dial(address, c); err == nil {
					t.Errorf("%s: %s: %s with %v is taken", settings, address, tls.VersionName(c.MinVersion), c.CipherSuites)
				}
			}
		}
		s.Stop()
	}
	tls12, tls13 := only(tls.VersionTLS12), only(tls.VersionTLS13)
	f("[tls]\nmin-version = \"tls1.3\"", []*tls.Config{tls13}, []*tls.Config{tls12})
	f("[tls]\nmax-version = \"1.2\"", []*tls.Config{tls12}, []*tls.Config{tls13})
	f("[tls]\nciphers = [\"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384\"]",
		[]*tls.Config{only(tls.VersionTLS12, aes256), only(tls.VersionTLS12, aes128, aes256), tls13}, // those of 1.3 are not chosen
		[]*tls.Config{only(tls.VersionTLS12, aes128)})

	// A key that is not the certificate's, or none, is refused at the start.
	_, other := writeCertificate(t, t.TempDir(), 2)
	for _, path := range []string{other, cert, filepath.Join(t.TempDir(), "none")} {
		t.Setenv("TSDBD_HTTP_HTTPS_PRIVATE_KEY", path)
		if said := Refusal(t); !strings.Contains(said, "load certificate") {
			t.Errorf("key %s: %s", path, said)
		}
	}
}

func TestUnixSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "tsdbd") // a path short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	t.Setenv("TSDBD_HTTP_UNIX_SOCKET_ENABLED", "true")
	t.Setenv("TSDBD_HTTP_BIND_SOCKET", path)
	t.Setenv("TSDBD_HTTP_UNIX_SOCKET_PERMISSIONS", "0600")
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	data := t.TempDir()
	for range 2 {
		s := StartOn(t, data)
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("socket: %v %v", info, err)
		}
		resp, err := client.Get("http://server/ping")
		if err != nil || resp.StatusCode != 204 {
			t.Fatalf("ping by socket: %v %v", resp, err)
		}
		resp.Body.Close()
		if status, _ := s.as('n', "GET", "/ping", nil); status != 204 {
			t.Errorf("ping by TCP: %d", status)
		}
		// Another server does not take the socket away.
		if said := Refusal(t); !strings.Contains(said, "another process listens there") {
			t.Errorf("second server: %s", said)
		}
		client.CloseIdleConnections()
		s.Kill() // the socket's file stays and is replaced
	}
}
