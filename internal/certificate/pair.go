package certificate

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// Files are the paths of PEM files.
type Files struct {
	Certificate string // the certificate and its chain
	Key         string // "": Certificate has it too
	Authorities string // that sign the certificates of peers; "": none
}

// Pair is a certificate with its key and the authorities of peers, read from files
// that may be replaced while the server runs.
type Pair struct {
	files   Files
	current atomic.Pointer[content]
}

// content is what the files have.
type content struct {
	pair        tls.Certificate
	authorities authorities
}

func (c *content) equal(other *content) bool {
	return slices.EqualFunc(c.pair.Certificate, other.pair.Certificate, bytes.Equal) &&
		slices.EqualFunc(c.authorities, other.authorities, (*x509.Certificate).Equal)
}

// Load reads the files.
func Load(f Files) (*Pair, error) {
	if f.Key == "" {
		f.Key = f.Certificate
	}
	p := &Pair{files: f}
	_, err := p.Reload()
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Reload reads the files again, for new connections. changed reports whether they have
// other certificates. After an error what is in use stays.
func (p *Pair) Reload() (changed bool, err error) {
	next := new(content)
	if next.pair, err = tls.LoadX509KeyPair(p.files.Certificate, p.files.Key); err != nil {
		return false, fmt.Errorf("load certificate %s with key %s: %w", p.files.Certificate, p.files.Key, err)
	}
	if p.files.Authorities != "" {
		if next.authorities, err = readAuthorities(p.files.Authorities); err != nil {
			return false, fmt.Errorf("read certificate authorities: %w", err)
		}
	}
	have := p.current.Swap(next)
	return have == nil || !have.equal(next), nil
}

// Path returns the file of the certificate.
func (p *Pair) Path() string { return p.files.Certificate }

// NotAfter returns when the certificate expires, or the last of the authorities if that is
// sooner: peers accept nothing then.
func (p *Pair) NotAfter() time.Time {
	c := p.current.Load()
	end := c.pair.Leaf.NotAfter
	if len(c.authorities) > 0 && c.authorities.notAfter().Before(end) {
		return c.authorities.notAfter()
	}
	return end
}

// Server returns a copy of base for HTTP and inputs, whose connections show the
// certificate of their time.
func (p *Pair) Server(base *tls.Config) *tls.Config {
	t := base.Clone()
	t.NextProtos = []string{"http/1.1"}
	t.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &p.current.Load().pair, nil }
	return t
}

// Peer returns a copy of base for one connection between nodes, with the certificate and
// the authorities of now.
func (p *Pair) Peer(base *tls.Config) *tls.Config {
	t, c := base.Clone(), p.current.Load()
	t.Certificates = []tls.Certificate{c.pair}
	t.RootCAs = c.authorities.pool()
	return t
}
