package listener

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"sync/atomic"
)

// Certificate is a server certificate with its key, read from files that may
// be replaced while the server runs.
type Certificate struct {
	certPath, keyPath string
	current           atomic.Pointer[tls.Certificate]
}

// LoadCertificate reads a certificate chain and its key, both PEM. If keyPath is
// "", certPath has both.
func LoadCertificate(certPath, keyPath string) (*Certificate, error) {
	if keyPath == "" {
		keyPath = certPath
	}
	c := &Certificate{certPath: certPath, keyPath: keyPath}
	_, err := c.Reload()
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Reload reads the files again, for new connections. changed reports whether the
// certificate is a different one. After an error the certificate in use stays.
func (c *Certificate) Reload() (changed bool, err error) {
	next, err := tls.LoadX509KeyPair(c.certPath, c.keyPath)
	if err != nil {
		return false, fmt.Errorf("load certificate %s with key %s: %w", c.certPath, c.keyPath, err)
	}
	have := c.current.Swap(&next)
	return have == nil || !bytes.Equal(have.Certificate[0], next.Certificate[0]), nil
}

// TLSConfig returns a copy of base that serves the certificate.
func (c *Certificate) TLSConfig(base *tls.Config) *tls.Config {
	t := base.Clone()
	t.NextProtos = []string{"http/1.1"}
	t.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil }
	return t
}
