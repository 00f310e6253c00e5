package config

import (
	"encoding"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestConfigurationPage holds docs/configuration.md against the struct: every
// key is there once, in order, with its default and variable.
func TestConfigurationPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 4 || len(strings.TrimSuffix(cells[3], " |")) < 10 {
			t.Errorf("a row has not a key, a default, a variable and a meaning: %s", line)
			continue
		}
		documented = append(documented, strings.TrimPrefix(cells[0], "| ")+" "+cells[1]+" "+cells[2])
	}
	filled := example()
	filled.shareMemory(8 << 30)
	computed := filled.Settings()
	var real []string
	for i, s := range example().Settings() {
		value := fmt.Sprint(s.Value)
		if m, ok := s.Value.Interface().(encoding.TextMarshaler); ok {
			b, err := m.MarshalText()
			if err != nil {
				t.Fatal(err)
			}
			value = string(b)
		}
		switch {
		case (s.Value.Kind() == reflect.Slice || s.Value.Kind() == reflect.Map) && s.Value.Len() == 0:
			value = "empty"
		case !s.Value.Equal(computed[i].Value):
			value = "auto"
		case value == "":
			value = "empty"
		default:
			value = "`" + value + "`"
		}
		real = append(real, fmt.Sprintf("`%s` %s `%s`", s.Key, value, s.Env))
	}
	for _, r := range real {
		if !slices.Contains(documented, r) {
			t.Errorf("missing: %s", r)
		}
	}
	for _, d := range documented {
		if !slices.Contains(real, d) {
			t.Errorf("not so: %s", d)
		}
	}
	if !t.Failed() && !slices.Equal(documented, real) {
		t.Error("the order is not that of the struct")
	}
}

// TestReloadPage holds the list of docs/configuration.md against the tags.
func TestReloadPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "\n## Reload\n")
	list, _, _ = strings.Cut(list, "\n## ")
	for _, s := range example().Settings() {
		named := strings.Contains(list, "`"+s.Name+"`") || strings.Contains(list, "`"+s.Key+"`") || strings.Contains(list, "all of `["+s.Section+"]`")
		if named != s.Reload && s.Key != "http.access-log-path" { // the file is reopened
			t.Errorf("%s: on the page %v, applied %v", s.Key, named, s.Reload)
		}
	}
}

func TestUnknownKeysAreExplained(t *testing.T) {
	f := func(want string, toml string, env ...string) {
		t.Helper()
		if _, err := loadConfig(Source{File: writeFile(t, toml)}, env); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s%v: %v, want %s", toml, env, err, want)
		}
	}
	f("unknown key http.auth-enable, did you mean http.auth-enabled?", "[http]\nauth-enable = true\n")
	f("unknown key http.auth_enabled, did you mean http.auth-enabled?", "[http]\nauth_enabled = true\n")
	f("unknown key data.bind-address, did you mean http.bind-address?", "[data]\nbind-address = \"x\"\n")
	f("unknown key htp, did you mean http?\nunknown key htp.x", "[htp]\nx = 1\n")
	f("unknown key http.zzzzzzzzzzzz", "[http]\nzzzzzzzzzzzz = 1\n")
	f("unknown variable TSDBD_HTTP_AUTH_ENABLE, did you mean TSDBD_HTTP_AUTH_ENABLED?", "", "TSDBD_HTTP_AUTH_ENABLE=true")
	f("unknown variable TSDBD_HTTP_SHAREDSECRET, did you mean TSDBD_HTTP_SHARED_SECRET?", "", "TSDBD_HTTP_SHAREDSECRET=x")
	for _, made := range []string{"TSDBD_PORT=tcp://10.0.0.1:80", "TSDBD_HTTP_PORT=x", "TSDBD_SERVICE_HOST=x", "TSDBD_SERVICE_PORT_HTTP=1", "TSDBD_USERNAME=x", "TSDBD_PASSWORD=x"} {
		if _, err := loadConfig(Source{}, []string{made}); err != nil {
			t.Errorf("%s: %v", made, err)
		}
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	c, err := loadConfig(Source{}, []string{"TSDBD_HTTP_SHARED_SECRET=sesame"})
	if err != nil || c.HTTP.SharedSecret.text != "sesame" {
		t.Fatal(c, err)
	}
	var b strings.Builder
	if err := c.Print(&b); err != nil {
		t.Fatal(err)
	}
	shown := b.String() + fmt.Sprintf("%v %+v %#v %s", c, *c, c.HTTP, c.HTTP.SharedSecret)
	if strings.Contains(shown, "sesame") {
		t.Error(shown)
	}
	_, err = loadConfig(Source{File: writeFile(t, b.String())}, nil)
	if err == nil || !strings.Contains(err.Error(), "the value is the placeholder") {
		t.Errorf("what stands for a secret is taken for one: %v", err)
	}
}

func TestSecuritySettings(t *testing.T) {
	f := func(want string, env ...string) {
		t.Helper()
		if _, err := loadConfig(Source{}, env); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", env, err, want)
		}
	}
	f("http.https-certificate", "TSDBD_HTTP_HTTPS_ENABLED=true")
	f(`TLS version "tls1.1" is not supported (insecure); use 1.2 or 1.3`, "TSDBD_TLS_MIN_VERSION=tls1.1")
	f(`"1.4" is not 1.2 or 1.3`, "TSDBD_TLS_MAX_VERSION=1.4")
	f("tls.ciphers: unknown cipher suite", "TSDBD_TLS_CIPHERS=AES")
	f("http.realm", "TSDBD_HTTP_REALM=a\"b")
	f("prometheus.database", "TSDBD_PROMETHEUS_DATABASE=a/b")
	f("http.realm", "TSDBD_HTTP_REALM=a\nb")
	f("http.bind-socket", "TSDBD_HTTP_UNIX_SOCKET_ENABLED=true", "TSDBD_HTTP_BIND_SOCKET=")
	f("not a file mode", "TSDBD_HTTP_UNIX_SOCKET_PERMISSIONS=rw")
	f("not a file mode", "TSDBD_HTTP_UNIX_SOCKET_PERMISSIONS=4777")
	f("http.max-row-limit", "TSDBD_HTTP_MAX_ROW_LIMIT=-1")
}
