package certificate

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"sync/atomic"
)

// Pair is a certificate with its key, read from files that may be replaced while
// the server runs.
type Pair struct {
	certPath, keyPath string
	current           atomic.Pointer[tls.Certificate]
}

// Load reads a certificate chain and its key, both PEM. If keyPath is
// "", certPath has both.
func Load(certPath, keyPath string) (*Pair, error) {
	if keyPath == "" {
		keyPath = certPath
	}
	p := &Pair{certPath: certPath, keyPath: keyPath}
	_, err := p.Reload()
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Reload reads the files again, for new connections. changed reports whether the
// certificate is a different one. After an error the certificate in use stays.
func (p *Pair) Reload() (changed bool, err error) {
	next, err := tls.LoadX509KeyPair(p.certPath, p.keyPath)
	if err != nil {
		return false, fmt.Errorf("load certificate %s with key %s: %w", p.certPath, p.keyPath, err)
	}
	have := p.current.Swap(&next)
	return have == nil || !bytes.Equal(have.Certificate[0], next.Certificate[0]), nil
}

// TLSConfig returns a copy of base that serves the certificate.
func (p *Pair) TLSConfig(base *tls.Config) *tls.Config {
	t := base.Clone()
	t.NextProtos = []string{"http/1.1"}
	t.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return p.current.Load(), nil }
	return t
}
