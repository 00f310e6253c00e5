package certificate

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"time"
)

// authorities are the certificates of those that sign certificates.
type authorities []*x509.Certificate

// ReadPool reads the authorities of a PEM file.
func ReadPool(path string) (*x509.CertPool, error) {
	list, err := readAuthorities(path)
	if err != nil {
		return nil, err
	}
	return list.pool(), nil
}

// readAuthorities reads a PEM file. What is no certificate in it is passed over, as by
// crypto/x509.
func readAuthorities(path string) (list authorities, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" {
			list = append(list, c)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no certificate in %s", path)
	}
	return list, nil
}

func (l authorities) pool() *x509.CertPool {
	p := x509.NewCertPool()
	for _, c := range l {
		p.AddCert(c)
	}
	return p
}

// notAfter returns when the last of them expires.
func (l authorities) notAfter() (last time.Time) {
	for _, c := range l {
		if c.NotAfter.After(last) {
			last = c.NotAfter
		}
	}
	return last
}
