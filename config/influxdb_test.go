package config

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// influxConf loads an influxdb.conf and returns the notes on its keys.
func influxConf(t *testing.T, text string) (*Config, string, error) {
	t.Helper()
	c, notes, err := Source{File: writeFile(t, text)}.Load(nil)
	var b strings.Builder
	for _, n := range notes {
		b.WriteString(n.Key + " " + n.Text + "\n")
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
		c.Data.CompactAfter != Duration(4*time.Hour) || !c.HTTP.AccessLog || c.HTTP.MaxBodySize != 25_000_000 || c.Log.Format != "auto" {
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
	if err := c.Print(&b); err != nil {
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
	f("[http]\nflux-enabled = true\n", "key http.flux-enabled cannot be true: Flux is not supported")
	f("[nosuch]\nx = 1\n", "unknown key nosuch.x")

	c, notes, err := influxConf(t, "[meta]\nretention-autocreate = false\n")
	if err != nil || len(notes) > 0 || c.Meta.RetentionAutocreate {
		t.Errorf("%v %q, %+v", err, notes, c.Meta)
	}
	c, notes, err = influxConf(t, "reporting-disabled = true\n[logging]\nformat = \"logfmt\"\nlevel = \"warn\"\n[tls]\nmin-version = \"tls1.3\"\nmax-version = \"\"\nciphers = []\n[http.headers]\n[ifql]\nenabled = true\n")
	if err != nil || c.Log.Format != "text" || c.Log.Level.String() != "WARN" || c.TLS.MinVersion != 0x304 {
		t.Errorf("%v %+v", err, c)
	}
	if want := "reporting-disabled has no effect: nothing is reported to anybody\nlogging.format is taken for log.format\nlogging.level is taken for log.level\nifql.enabled has no effect: Flux is not supported\n"; notes != want {
		t.Errorf("notes\n%s", notes)
	}
}

// TestKeysWithoutEffect sets what tsdbd could once be told. Each key gets one note.
func TestKeysWithoutEffect(t *testing.T) {
	_, notes, err := influxConf(t, `
[http]
write-tracing = true
suppress-write-log = true
[retention]
day-shards-from = "2h"
week-shards-from = "90d"
[subscriber]
total-buffer-bytes = 1000
[[udp]]
writers = 4
[[udp]]
bind-address = "127.0.0.1:8090"
writers = 2
[[graphite]]
consistency-level = "all"
[[opentsdb]]
consistency-level = "quorum"
`)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{
		"http.write-tracing", "http.suppress-write-log", "retention.day-shards-from", "retention.week-shards-from",
		"subscriber.total-buffer-bytes", "udp.writers", "graphite.consistency-level", "opentsdb.consistency-level",
	} {
		if n := strings.Count(notes, key+" has no effect: "); n != 1 {
			t.Errorf("%d notes on %s in\n%s", n, key, notes)
		}
	}
	c, list, err := Source{}.Load([]string{"TSDBD_HTTP_WRITE_TRACING=true", "TSDBD_UDP_0_WRITERS=4", "TSDBD_QUERY_MAX_SELECT_POINT=5"})
	if err != nil || c.Query.MaxSelectPoint != 5 || len(list) != 2 {
		t.Fatal(list, err)
	}
	for i, want := range []string{"TSDBD_HTTP_WRITE_TRACING is not read: it has no effect: ", "TSDBD_UDP_0_WRITERS is not read: it has no effect: "} {
		if got := list[i].Key + " " + list[i].Text; !strings.HasPrefix(got, want) {
			t.Errorf("note %q, want %q", got, want)
		}
	}
}

// TestEnterpriseKeys: the file of a data node of InfluxDB Enterprise is
// accepted, with notes.
func TestEnterpriseKeys(t *testing.T) {
	c, notes, err := influxConf(t, `bind-address = ":8088"
hostname = "data1"
gossip-frequency = "3s"
[enterprise]
license-key = "x"
[meta]
dir = "/var/lib/influxdb/meta"
meta-internal-shared-secret = "sesame"
[cluster]
dial-timeout = "1s"
query-timeout = "30s"
[hinted-handoff]
enabled = true
max-size = 10737418240
[anti-entropy]
enabled = false
`)
	if err != nil || c.Query.QueryTimeout != Duration(30*time.Second) || c.Cluster.Node != "" {
		t.Fatalf("%+v %v", c, err)
	}
	for _, want := range []string{
		"cluster.query-timeout is taken for query.query-timeout\n",
		"cluster.dial-timeout has no effect: nodes of a cluster share one log, see cluster.join\n",
		"hostname has no effect: the address of a node is cluster.advertise\n",
		"meta.meta-internal-shared-secret has no effect: see cluster.secret\n",
		"hinted-handoff.max-size has no effect: ",
		"enterprise.license-key has no effect: ",
	} {
		if !strings.Contains(notes, want) {
			t.Errorf("no note %q in\n%s", want, notes)
		}
	}
	if strings.Contains(notes, "sesame") {
		t.Error("a note shows a secret")
	}
}

func TestInfluxVariables(t *testing.T) {
	c, notes, err := Source{}.Load([]string{
		"INFLUXDB_HTTP_AUTH_ENABLED=true", "INFLUXDB_COORDINATOR_QUERY_TIMEOUT=1s", "INFLUXDB_DATA_INDEX_VERSION=tsi1",
		"INFLUXDB_HTTP_LOG_ENABLED=true", "INFLUXDB_DB=x", "INFLUXDB_CONFIG_PATH=x", "HOME=/",
	})
	if err != nil || c.HTTP.AuthEnabled {
		t.Fatal(c, err)
	}
	var got []string
	for _, n := range notes {
		got = append(got, n.Key+" "+n.Text)
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
	for _, s := range example().Settings() {
		ours[s.Key] = true
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

// TestMigrationPage holds the table of docs/migrating-from-influxdb.md to the
// table here.
func TestMigrationPage(t *testing.T) {
	text, err := os.ReadFile("../docs/migrating-from-influxdb.md")
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
