package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEmptySecret: a variable that was never set must not pass for a secret,
// and a printed configuration without one can be read again.
func TestEmptySecret(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.toml")
	for _, c := range []struct {
		text    string
		environ []string
		refused bool
	}{
		{"[http]\nauth-enabled = true\n", nil, false},
		{"[http]\nauth-enabled = true\nshared-secret = \"\"\n", nil, true},
		{"[http]\nshared-secret = \"\"\n", nil, false},
		{"[http]\nauth-enabled = true\n", []string{"TSDBD_HTTP_SHARED_SECRET="}, true},
		{"[http]\nauth-enabled = true\nshared-secret = \"\"\n", []string{"TSDBD_HTTP_SHARED_SECRET=a secret of thirty-two bytes, or more"}, false},
	} {
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := loadConfig(Source{File: file}, c.environ)
		if errors.Is(err, errEmptySecret) != c.refused || err != nil && !c.refused {
			t.Errorf("%q %v: %v", c.text, c.environ, err)
		}
		if err != nil {
			continue
		}
		var b strings.Builder
		if err := got.Print(&b); err != nil || strings.Contains(b.String(), "thirty-two") {
			t.Errorf("%v:\n%s", err, &b)
		}
	}
	if err := os.WriteFile(file, []byte("[http]\nauth-enabled = true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	first, err := loadConfig(Source{File: file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := first.Print(&b); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := loadConfig(Source{File: file}, nil); err != nil {
		t.Errorf("%v\n%s", err, &b)
	}
}
