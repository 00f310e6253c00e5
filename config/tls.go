package config

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// TLS is about the encryption of connections: those that are listened
// for, and those to subscribers.
type TLS struct {
	// Ciphers are the suites of TLS 1.2 that are offered, by Go's names; empty:
	// Go's choice. Those of TLS 1.3 cannot be chosen.
	Ciphers    []string   `toml:"ciphers"`
	MinVersion TLSVersion `toml:"min-version"` // 0: 1.2
	MaxVersion TLSVersion `toml:"max-version"` // 0: the highest there is
}

// Parse returns the settings as crypto/tls takes them.
func (c *TLS) Parse() (*tls.Config, error) {
	t := &tls.Config{MinVersion: cmp.Or(uint16(c.MinVersion), tls.VersionTLS12), MaxVersion: uint16(c.MaxVersion)}
	if t.MaxVersion != 0 && t.MaxVersion < t.MinVersion {
		return nil, errors.New("tls.max-version must be at least tls.min-version")
	}
	var errs []error
	chosen := false // a suite of TLS 1.2
	for _, name := range c.Ciphers {
		suite, err := cipherSuite(name)
		if err != nil {
			errs = append(errs, fmt.Errorf("tls.ciphers: %w", err))
			continue
		}
		t.CipherSuites = append(t.CipherSuites, suite.ID)
		chosen = chosen || slices.Contains(suite.SupportedVersions, tls.VersionTLS12)
	}
	if len(errs) == 0 && len(c.Ciphers) > 0 && !chosen && t.MinVersion <= tls.VersionTLS12 {
		errs = append(errs, errors.New("tls.ciphers has no TLS 1.2 suite: add one or set tls.min-version to 1.3"))
	}
	return t, errors.Join(errs...)
}

// cipherNames are InfluxDB's other names of suites.
var cipherNames = map[string]string{
	"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305":   "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
	"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
}

// shortCipher makes a name as short as OpenSSL's: ECDHE-RSA-AES128-GCM-SHA256 is
// TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256.
var shortCipher = strings.NewReplacer("TLS_", "", "WITH_", "", "_", "", "-", "")

// cipherSuite finds a suite by its name in any case. A weak suite is an error.
// InfluxDB accepts weak suites, but no client of today needs one.
func cipherSuite(name string) (*tls.CipherSuite, error) {
	upper := strings.ToUpper(name)
	upper = cmp.Or(cipherNames[upper], upper)
	var known, short []string
	for _, s := range tls.CipherSuites() {
		if s.Name == upper {
			return s, nil
		}
		known, short = append(known, s.Name), append(short, shortCipher.Replace(s.Name))
	}
	for _, s := range tls.InsecureCipherSuites() {
		if s.Name == upper {
			return nil, fmt.Errorf("%s is weak and not offered, leave it out", name)
		}
	}
	if near := nearest(shortCipher.Replace(upper), short, len(upper)/3); near != "" {
		return nil, fmt.Errorf("unknown cipher suite %q, did you mean %s?", name, known[slices.Index(short, near)])
	}
	return nil, fmt.Errorf("unknown cipher suite %q, there are %s", name, strings.Join(known, ", "))
}

// TLSVersion is a version of TLS, written 1.2 or 1.3; 0 is none and empty.
type TLSVersion uint16

// UnmarshalText reads a version, with or without InfluxDB's "tls" in front.
func (v *TLSVersion) UnmarshalText(text []byte) error {
	switch name := strings.TrimPrefix(strings.ToLower(string(text)), "tls"); name {
	case "":
		*v = 0
	case "1.2":
		*v = tls.VersionTLS12
	case "1.3":
		*v = tls.VersionTLS13
	case "1.0", "1.1", "ssl3.0":
		return fmt.Errorf("TLS version %q is not supported (insecure); use 1.2 or 1.3", text)
	default:
		return fmt.Errorf("%q is not 1.2 or 1.3", text)
	}
	return nil
}

// MarshalText writes the number.
func (v TLSVersion) MarshalText() ([]byte, error) {
	if v == 0 {
		return []byte{}, nil
	}
	return []byte(strings.TrimPrefix(tls.VersionName(uint16(v)), "TLS ")), nil
}
