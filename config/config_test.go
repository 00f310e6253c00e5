package config

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestSizes(t *testing.T) {
	f := func(text string, want int64) {
		t.Helper()
		var s Size
		if err := s.UnmarshalText([]byte(text)); err != nil || int64(s) != want {
			t.Errorf("%s: %d %v, want %d", text, s, err, want)
		}
		out, _ := s.MarshalText()
		var again Size
		if err := again.UnmarshalText(out); err != nil || again != s {
			t.Errorf("%s: written %s, read back %d %v", text, out, again, err)
		}
	}
	f("0", 0)
	f("25000000", 25_000_000)
	f("1k", 1024)
	f("1KB", 1000)
	f("48 MiB", 48<<20)
	f("64m", 64<<20)
	f("1g", 1<<30)
	f("2GiB", 2<<30)
	f("7b", 7)
	for _, bad := range []string{"", "x", "-1", "1.5m", "1t", "9999999999g", "m"} {
		if err := new(Size).UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q passes", bad)
		}
	}
}

func TestDurations(t *testing.T) {
	f := func(text string, want time.Duration, written string) {
		t.Helper()
		var d Duration
		if err := d.UnmarshalText([]byte(text)); err != nil || time.Duration(d) != want {
			t.Errorf("%s: %v %v, want %v", text, time.Duration(d), err, want)
		}
		if out, _ := d.MarshalText(); string(out) != written {
			t.Errorf("%s: written %s, want %s", text, out, written)
		}
	}
	f("0", 0, "0s")
	f("0d", 0, "0s")
	f("90s", 90*time.Second, "1m30s")
	f("30m", 30*time.Minute, "30m")
	f("2h", 2*time.Hour, "2h")
	f("2h30m", 150*time.Minute, "2h30m")
	f("7d", 7*day, "7d")
	f("1w", 7*day, "7d")
	f("1w1d12h", 8*day+12*time.Hour, "204h")
	f("100ms", 100*time.Millisecond, "100ms")
	for _, bad := range []string{"", "x", "-1s", "5", "1y", "d", "9999999w", "1d-1h"} {
		if err := new(Duration).UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q passes", bad)
		}
	}
}

// loadConfig loads what a source and an environment say.
func loadConfig(from Source, environ []string) (*Config, error) {
	from.Heap = 1 << 30
	c, _, err := from.Load(environ)
	return c, err
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tsdbd.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPrecedence(t *testing.T) {
	file := writeFile(t, "[data]\ndir = \"from-file\"\nflush-size = \"8MiB\"\n[http]\nbind-address = \"file:1\"\nmax-body-size = 1000\n[log]\nlevel = \"warn\"\n")
	env := []string{"TSDBD_HTTP_BIND_ADDRESS=env:2", "TSDBD_DATA_FLUSH_SIZE=9m", "TSDBD_LOG_LEVEL=error", "TSDBD_SERVICE_HOST=10.0.0.1", "HOME=/"}
	c, err := loadConfig(Source{File: file, Address: "flag:3", Level: "debug"}, env)
	if err != nil {
		t.Fatal(err)
	}
	if c.Data.Dir != "from-file" || c.HTTP.MaxBodySize != 1000 {
		t.Errorf("file over defaults: %+v", c)
	}
	if c.Data.FlushSize != 9<<20 {
		t.Errorf("environment over file: %+v", c.Data)
	}
	if c.HTTP.BindAddress != "flag:3" || c.Log.Level != LogLevel(slog.LevelDebug) {
		t.Errorf("flags over environment: %+v", c)
	}
	if c.Data.WALMaxSize != Default().Data.WALMaxSize {
		t.Errorf("default: %+v", c.Data)
	}
	if c, err := loadConfig(Source{}, append(env, "TSDBD_CONFIG="+file)); err != nil || c.Data.Dir != "from-file" {
		t.Errorf("file named by the environment: %v", err)
	}
}

func TestConfigErrorsNameTheSetting(t *testing.T) {
	f := func(want string, env []string, toml string) {
		t.Helper()
		if _, err := loadConfig(Source{File: writeFile(t, toml)}, env); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
	f("http.max-bodysize", nil, "[http]\nmax-bodysize = 1\n")
	f("nosuch", nil, "[nosuch]\nx = 1\n")
	f("not a size", nil, "[data]\nflush-size = \"many\"\n")
	f("line 2", nil, "[data]\ndir = \n")
	f("bind-address", nil, "[http]\nbind-address = \"\"\n")
	f("data.cache-max-memory", nil, "[data]\ncache-max-memory = \"1m\"\nflush-size = \"2m\"\n")
	f("log.format", nil, "[log]\nformat = \"xml\"\n")
	f("query.max-select-series", nil, "[query]\nmax-select-series = -1\n")
	f("TSDBD_DATA_FLUSH_SIZE", []string{"TSDBD_DATA_FLUSH_SIZE=many"}, "")
	f("TSDBD_RETENTION_ENABLED", []string{"TSDBD_RETENTION_ENABLED=perhaps"}, "")
	f("TSDBD_QUERY_MAX_SELECT_POINT", []string{"TSDBD_QUERY_MAX_SELECT_POINT=x"}, "")
	for want, from := range map[string]Source{"-log-level": {Level: "loud"}, "no such file": {File: filepath.Join(t.TempDir(), "x")}} {
		if _, err := loadConfig(from, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
}

func TestPrintedConfigReadsBack(t *testing.T) {
	c := Default()
	c.Data.Dir, c.HTTP.MaxConnectionLimit, c.Query.QueryTimeout = `with "quotes"`, 7, Duration(90*time.Second)
	c.UDP = []UDP{{Precision: "s"}, {Input: Input{Enabled: true, BindAddress: "127.0.0.1:7"}}}
	c.Graphite = []Graphite{{Templates: []string{"a.* .host.measurement* x=y,z=1"}, Tags: []string{"a=b"}}}
	c.setInputDefaults()
	c.shareMemory(1 << 30)
	var b bytes.Buffer
	if err := c.Print(&b); err != nil {
		t.Fatal(err)
	}
	got, err := loadConfig(Source{File: writeFile(t, b.String())}, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	if !reflect.DeepEqual(got, c) {
		t.Errorf("got %+v, want %+v\n%s", got, c, b.String())
	}
}

// TestPackagedSettings loads the file that packages contain, as it is and with
// all that is commented out.
func TestPackagedSettings(t *testing.T) {
	text, err := os.ReadFile("../packaging/tsdbd.toml")
	if err != nil {
		t.Fatal(err)
	}
	c, notes, err := Source{File: writeFile(t, string(text))}.Load(nil)
	if err != nil || len(notes) > 0 || c.Data.Dir != "/var/lib/tsdbd" || c.Cluster.Node != "" {
		t.Errorf("%+v %v %v", c, notes, err)
	}
	all := regexp.MustCompile(`(?m)^# ([a-z-]+ = |\[)`).ReplaceAllString(string(text), "$1")
	c, notes, err = Source{File: writeFile(t, all)}.Load(nil)
	if err != nil || len(notes) > 0 || c.Cluster.Advertise != "10.0.0.1:8088" || len(c.Cluster.Join) != 3 || !c.HTTP.HTTPSEnabled {
		t.Errorf("with all that is commented out: %+v %v %v", c, notes, err)
	}
}
