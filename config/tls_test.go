package config

import (
	"crypto/tls"
	"slices"
	"strings"
	"testing"
)

func TestTLSSettings(t *testing.T) {
	f := func(c TLS, min, max uint16, suites ...uint16) {
		t.Helper()
		got, err := c.Parse()
		if err != nil || got.MinVersion != min || got.MaxVersion != max || !slices.Equal(got.CipherSuites, suites) {
			t.Errorf("%+v: %+v %v", c, got, err)
		}
	}
	f(TLS{}, tls.VersionTLS12, 0)
	f(TLS{MinVersion: tls.VersionTLS13, MaxVersion: tls.VersionTLS13}, tls.VersionTLS13, tls.VersionTLS13)
	f(TLS{Ciphers: []string{"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "tls_ecdhe_ecdsa_with_chacha20_poly1305"}},
		tls.VersionTLS12, 0, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256)
	f(TLS{Ciphers: []string{"TLS_AES_128_GCM_SHA256"}, MinVersion: tls.VersionTLS13}, tls.VersionTLS13, 0, tls.TLS_AES_128_GCM_SHA256)

	bad := func(c TLS, want string) {
		t.Helper()
		if _, err := c.Parse(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", c, err, want)
		}
	}
	bad(TLS{MinVersion: tls.VersionTLS13, MaxVersion: tls.VersionTLS12}, "tls.max-version must be at least tls.min-version")
	bad(TLS{Ciphers: []string{"TLS_AES_128_GCM_SHA256"}}, "tls.ciphers has no TLS 1.2 suite")
	f2 := func(name, want string) {
		t.Helper()
		bad(TLS{Ciphers: []string{name}}, "tls.ciphers: "+want)
	}
	f2("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA265", `unknown cipher suite "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA265", did you mean TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256?`)
	f2("ECDHE-RSA-AES128-GCM-SHA256", `unknown cipher suite "ECDHE-RSA-AES128-GCM-SHA256", did you mean TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256?`)
	f2("ECDHE-ECDSA-AES256-GCM-SHA384", `unknown cipher suite "ECDHE-ECDSA-AES256-GCM-SHA384", did you mean TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384?`)
	f2("HIGH:!aNULL", `unknown cipher suite "HIGH:!aNULL", there are TLS_`)
	f2("", `unknown cipher suite "", there are TLS_`)
	f2("TLS_RSA_WITH_RC4_128_SHA", "TLS_RSA_WITH_RC4_128_SHA is weak and not offered, leave it out")
}

// TestTLSSettingsOfFiles reads InfluxDB's spellings from a file and variables.
func TestTLSSettingsOfFiles(t *testing.T) {
	c, err := loadConfig(Source{File: writeFile(t, `[tls]
ciphers = [ "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256" ]
min-version = ""
max-version = "TLS1.3"
`)}, []string{"TSDBD_TLS_MIN_VERSION=tls1.3"})
	if err != nil || len(c.TLS.Ciphers) != 2 || c.TLS.MinVersion != tls.VersionTLS13 || c.TLS.MaxVersion != tls.VersionTLS13 {
		t.Errorf("%+v %v", c, err)
	}
	c, err = loadConfig(Source{}, []string{"TSDBD_TLS_CIPHERS=", "TSDBD_TLS_MAX_VERSION="})
	if err != nil || len(c.TLS.Ciphers) != 0 || c.TLS.MaxVersion != 0 {
		t.Errorf("%+v %v", c, err)
	}
}
