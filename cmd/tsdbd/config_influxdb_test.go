package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// influxConf loads an influxdb.conf and returns the notes on its keys.
func influxConf(t *testing.T, text string) (*config, string, error) {
	t.Helper()
	from := settingsFrom{file: writeFile(t, text)}
	c, err := from.load(nil)
	var b strings.Builder
	for _, n := range from.notes {
		b.WriteString(n.key + " " + n.text + "\n")
	}
	return c, b.String(), err
}

// TestFullInfluxConf loads a file with every key of InfluxDB 1.8 set to its
// default value.
func TestFullInfluxConf(t *testing.T) {
	text, err := os.ReadFile("testdata/influxdb-1.8.conf")
	if err != nil {
		t.Fatal(err)
	}
	c, notes, err := influxConf(t, string(text))
	if err != nil {
		t.Fatal(err)
	}
	if c.Data.Dir != "/var/lib/influxdb/data" || c.HTTP.BindAddress != ":8086" || c.Data.CacheMaxMemory != 1<<30 || c.Data.FlushSize != 25<<20 ||
		c.Data.CompactAfter != duration(4*time.Hour) || !c.HTTP.AccessLog || c.HTTP.MaxBodySize != 25_000_000 || c.Log.Format != "auto" {
		t.Errorf("%+v", c)
	}
	for _, want := range []string{
		"data.wal-dir has no effect: everything is kept below data.dir\n",
		"data.cache-max-memory-size is taken for data.cache-max-memory\n",
		"coordinator.query-timeout is taken for query.query-timeout\n",
		"http.log-enabled is taken for http.access-log\n",
	} {
		if !strings.Contains(notes, want) {
			t.Errorf("no note %q in\n%s", want, notes)
		}
	}
	// What is printed is ours alone.
	var b strings.Builder
	if err := c.print(&b); err != nil {
		t.Fatal(err)
	}
	if _, notes, err := influxConf(t, b.String()); err != nil || notes != "" {
		t.Errorf("read back: %v %s", err, notes)
	}
}

// TestInstalledInfluxConf loads the file of Debian's package, also with all
// that is commented out.
func TestInstalledInfluxConf(t *testing.T) {
	text, err := os.ReadFile("/etc/influxdb/influxdb.conf")
	if err != nil {
		t.Skip("influxdb is not installed")
	}
	if _, _, err := influxConf(t, string(text)); err != nil {
		t.Error(err)
	}
	all := regexp.MustCompile(`(?m)^\s*# ?([a-z-]+ ?= ?(".*"|[0-9a-z]+|\[\]))$`).ReplaceAll(text, []byte("  $1"))
	if n := strings.Count(string(all), "\n  ") - strings.Count(string(text), "\n  "); n == 0 && string(all) == string(text) {
		t.Fatal("nothing was commented out")
	}
	if _, _, err := influxConf(t, string(all)); err != nil {
		t.Error(err)
	}
}

func TestInfluxKeys(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		_, _, err := influxConf(t, text)
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	f("[coordinator]\nquery-timeout = \"1s\"\n[query]\nquery-timeout = \"2s\"\n", "key coordinator.query-timeout is the same as query.query-timeout: give one of them")
	f("[coordinator]\nquery-timeout = \"soon\"\n", `key coordinator.query-timeout: "soon" is not a duration such as 90s, 2h30m or 7d`)
	f("[coordinator]\nquery-timeut = \"1s\"\n", "unknown key coordinator.query-timeut, did you mean coordinator.query-timeout?")
	f("[meta]\nretention-autocreate = false\n", "key meta.retention-autocreate cannot be false: CREATE DATABASE makes a retention policy")
	f("[http]\nflux-enabled = true\n", "key http.flux-enabled cannot be true: Flux is not supported")
	f("[nosuch]\nx = 1\n", "unknown key nosuch.x")

	c, notes, err := influxConf(t, "reporting-disabled = true\n[logging]\nformat = \"logfmt\"\nlevel = \"warn\"\n[tls]\nmin-version = \"tls1.3\"\nmax-version = \"\"\nciphers = []\n[http.headers]\n[ifql]\nenabled = true\n")
	if err != nil || c.Log.Format != "text" || c.Log.Level.String() != "WARN" || c.TLS.MinVersion != 0x304 {
		t.Errorf("%v %+v", err, c)
	}
	if want := "reporting-disabled has no effect: nothing is reported to anybody\nlogging.format is taken for log.format\nlogging.level is taken for log.level\nifql.enabled has no effect: Flux is not supported\n"; notes != want {
		t.Errorf("notes\n%s", notes)
	}
}

func TestInfluxVariables(t *testing.T) {
	var from settingsFrom
	c, err := from.load([]string{
		"INFLUXDB_HTTP_AUTH_ENABLED=true", "INFLUXDB_COORDINATOR_QUERY_TIMEOUT=1s", "INFLUXDB_DATA_INDEX_VERSION=tsi1",
		"INFLUXDB_HTTP_LOG_ENABLED=true", "INFLUXDB_DB=x", "INFLUXDB_CONFIG_PATH=x", "HOME=/",
	})
	if err != nil || c.HTTP.AuthEnabled {
		t.Fatal(c, err)
	}
	var got []string
	for _, n := range from.notes {
		got = append(got, n.key+" "+n.text)
	}
	want := []string{
		"INFLUXDB_HTTP_AUTH_ENABLED is not read: set TSDBD_HTTP_AUTH_ENABLED",
		"INFLUXDB_COORDINATOR_QUERY_TIMEOUT is not read: set TSDBD_QUERY_QUERY_TIMEOUT",
		"INFLUXDB_DATA_INDEX_VERSION is not read: it would have no effect: there is one kind of index, in files",
		"INFLUXDB_HTTP_LOG_ENABLED is not read: set TSDBD_HTTP_ACCESS_LOG",
	}
	if !slices.Equal(got, want) {
		t.Errorf("notes %q", got)
	}
}

// TestInfluxKeysLead holds the table to the settings there are.
func TestInfluxKeysLead(t *testing.T) {
	ours := map[string]bool{}
	for _, s := range exampleConfig().settings() {
		ours[s.key] = true
	}
	for key, k := range influxKeys {
		for o := range ours {
			if o == key || strings.HasPrefix(o, key+".") {
				t.Errorf("%s is ours", key)
			}
		}
		if k.to != "" && !ours[k.to] {
			t.Errorf("%s leads to %s, which is no setting", key, k.to)
		}
		if k.to == "" && k.ignored == "" {
			t.Errorf("%s leads nowhere", key)
		}
	}
}

// TestInfluxDataIsLeftAlone starts on a directory such as an influxdb.conf
// names.
func TestInfluxDataIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "telegraf", "_series"), 0o700); err != nil {
		t.Fatal(err)
	}
	if text := refusal(t, "-data", dir); !strings.Contains(text, "there is the data of an InfluxDB") {
		t.Errorf("said %s", text)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v %v", entries, err)
	}
}

// TestMigrationPage holds the table of docs/migrating-from-influxdb.md to the
// table here.
func TestMigrationPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/migrating-from-influxdb.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "| key of an influxdb.conf | here |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := map[string]bool{}
	for line := range strings.Lines(table + "\n") {
		rows[strings.TrimSpace(line)] = true
	}
	for key, k := range influxKeys {
		here := "no effect: " + k.ignored
		switch {
		case k.to != "":
			here = "`" + k.to + "`"
		case k.only != "":
			here = "no effect, and `" + k.only + "` alone is taken: " + k.ignored
		}
		plain, section := "| `"+key+"` | "+here+" |", "| `["+key+"]` | "+here+" |"
		if !rows[plain] && !rows[section] {
			t.Errorf("missing: %s", plain)
		}
	}
	if len(rows) != len(influxKeys) {
		t.Errorf("%d rows, %d keys", len(rows), len(influxKeys))
	}
}

// TestServerWithAnInfluxConf starts on the full file and reloads it.
func TestServerWithAnInfluxConf(t *testing.T) {
	text, err := os.ReadFile("testdata/influxdb-1.8.conf")
	if err != nil {
		t.Fatal(err)
	}
	file := writeFile(t, string(text))
	s := startServer(t, t.TempDir(), "-config", file)
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), `level = "info"`, `level = "warn"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); !strings.Contains(s.log(), "configuration reloaded"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(s.log())
		}
	}
	s.stop()
	for _, want := range []string{
		`level=WARN msg="setting is InfluxDB's" key=data.wal-dir note="has no effect: everything is kept below data.dir"`,
		`level=INFO msg="setting is InfluxDB's" key=data.wal-fsync-delay note="is taken for data.wal-sync-interval"`,
		`msg="configuration reloaded" changed=log.level at_restart=nothing`,
	} {
		if !strings.Contains(s.log(), want) {
			t.Errorf("%s is not logged:\n%s", want, s.log())
		}
	}
}
