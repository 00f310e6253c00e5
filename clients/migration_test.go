package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tsdbd/internal/testkit/apptest"
)

// migrated are asked of both servers after the move.
var migrated = []struct{ db, q string }{
	{"shop", "SHOW MEASUREMENTS"},
	{"shop", "SHOW SERIES"},
	{"shop", "SHOW FIELD KEYS"},
	{"shop", "SHOW TAG VALUES WITH KEY IN (town, kind)"},
	{"shop", "SELECT count(*) FROM sales"},
	{"shop", "SELECT count(*), sum(amount), mean(price) FROM sales WHERE time >= 1500000000s AND time < 1500864000s GROUP BY time(1d), town"},
	{"shop", "SELECT * FROM sales WHERE time < 1500001000s"},
	{"shop", "SELECT count(*) FROM long.sales"},
	{"shop", "SELECT * FROM odd"},
	{"odd name", "SELECT * FROM /.*/"},
}

// TestMigration moves the data of a real InfluxDB as
// docs/migrating-from-influxdb.md says: influx_inspect export, tsdbd import.
func TestMigration(t *testing.T) {
	s := newSuite(t, "move from InfluxDB")
	inspect := s.built("influx_inspect", "github.com/influxdata/influxdb", "v1.8.3", "cmd/influx_inspect")
	peer := startInfluxd(t)
	if peer == nil {
		s.skip("influxd is not installed (apt-get install influxdb)")
	}
	out, _, err := command(t, "", nil, "", "influxd", "version")
	s.must(err)
	s.version = strings.Fields(strings.TrimPrefix(out, "InfluxDB v"))[0]
	want, ask := fillPeer(t, s, peer)
	peer.stop()

	file := filepath.Join(t.TempDir(), "export.gz")
	_, errs, err := command(t, "", nil, "", inspect, "export", "-datadir", peer.dir+"/data", "-waldir", peer.dir+"/wal", "-compress", "-out", file)
	if err != nil {
		s.check("export", fmt.Errorf("%w\n%s", err, errs))
	}
	server := start(t)
	// The export does not tell which policy is the default one.
	server.Query("", "CREATE DATABASE shop")
	out, errs, err = command(t, "", nil, "", apptest.Binary(t), "import", "-host", server.URL, file)
	if err != nil {
		err = fmt.Errorf("%w\n%s%s", err, out, errs)
	}
	s.check("import", err)
	t.Logf("tsdbd import: %s", strings.TrimSpace(out))
	for i, w := range want {
		s.equal(migrated[i].q, ask(server.URL, i), w)
	}
	n, err := server.Count("shop", "SELECT count(amount) FROM sales")
	s.check("count", err)
	s.equal("count", n, peerLines)

	// The same file once more changes nothing.
	_, _, err = command(t, "", nil, "", apptest.Binary(t), "import", "-host", server.URL, file)
	s.check("import again", err)
	for i, w := range want {
		s.equal(migrated[i].q, ask(server.URL, i), w)
	}
	_, body, err := server.Do(context.Background(), http.MethodGet, "/query", url.Values{"q": {`SHOW RETENTION POLICIES ON shop`}}, "")
	s.check("policies", err)
	s.equal("policies", json.Valid([]byte(body)) && strings.Contains(body, `"long"`), true)
}

// peerLines is how many sales fillPeer writes.
const peerLines = 20_000

// fillPeer writes data with names and values that need escaping, and returns what the
// server answers to migrated, and what asks another one the same.
func fillPeer(t *testing.T, s *suite, peer *influxd) (want []string, ask func(base string, i int) string) {
	t.Helper()
	send := func(path string, params url.Values, body string) string {
		t.Helper()
		resp, err := http.Post(peer.url+path+"?"+params.Encode(), "text/plain", strings.NewReader(body))
		s.must(err)
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		s.must(err)
		if resp.StatusCode/100 != 2 || strings.Contains(string(b), `"error"`) {
			t.Fatalf("%s: %d %s", path, resp.StatusCode, b)
		}
		return string(b)
	}
	for _, q := range []string{"CREATE DATABASE shop", "CREATE RETENTION POLICY long ON shop DURATION INF REPLICATION 1 SHARD DURATION 30d", `CREATE DATABASE "odd name"`} {
		send("/query", url.Values{"q": {q}}, "")
	}
	var b strings.Builder
	for i := range peerLines {
		fmt.Fprintf(&b, "sales,town=%s,kind=k%d amount=%di,price=%g,open=%t,note=\"line \\\"%d\\\" \\\\ é\" %d\n",
			[]string{"oslo", `r\ ome`, `a\,b\=c`}[i%3], i%5, i, float64(i)/8, i%2 == 0, i, (1_500_000_000+int64(i)*60)*1e9)
	}
	send("/write", url.Values{"db": {"shop"}}, b.String())
	send("/write", url.Values{"db": {"shop"}, "rp": {"long"}}, "sales,town=oslo amount=1i 1000000000000000000\nsales,town=oslo amount=2i -1000000000\n")
	send("/write", url.Values{"db": {"shop"}}, `odd,t\ =v\=\ w f\ \,\==1,s="a,b c=d",e="" 1500000000000000000`)
	send("/write", url.Values{"db": {"odd name"}}, "m\\ x v=1e-300,w=-0.1 1500000000000000001\nm,k=last v=9007199254740993 1500000000000000002")
	ask = func(base string, i int) string {
		t.Helper()
		resp, err := http.Get(base + "/query?" + url.Values{"db": {migrated[i].db}, "q": {migrated[i].q}, "epoch": {"ns"}}.Encode())
		s.must(err)
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		s.must(err)
		return string(b)
	}
	want = make([]string, len(migrated))
	for i := range migrated {
		want[i] = ask(peer.url, i)
	}
	return want, ask
}

// TestMigrationFiles moves the files of a real InfluxDB by the commands of
// docs/migrating-from-influxdb.md: tsdbd import influxdb, into a data directory and into a
// server.
func TestMigrationFiles(t *testing.T) {
	s := newSuite(t, "move the files of InfluxDB")
	peer := startInfluxd(t)
	if peer == nil {
		s.skip("influxd is not installed (apt-get install influxdb)")
	}
	out, _, err := command(t, "", nil, "", "influxd", "version")
	s.must(err)
	s.version = strings.Fields(strings.TrimPrefix(out, "InfluxDB v"))[0]
	want, ask := fillPeer(t, s, peer)
	for _, q := range []string{"DELETE FROM sales WHERE town = 'oslo' AND time >= 1500000000s AND time < 1500010000s", "CREATE USER boss WITH PASSWORD 'of sales' WITH ALL PRIVILEGES"} {
		resp, err := http.PostForm(peer.url+"/query", url.Values{"db": {"shop"}, "q": {q}})
		s.must(err)
		s.must(resp.Body.Close())
	}
	for i := range migrated {
		want[i] = ask(peer.url, i)
	}

	data, dir := filepath.Join(t.TempDir(), "data"), t.TempDir()
	server := start(t)
	run := func(line string) (string, error) {
		args := strings.Fields(strings.NewReplacer("/var/lib/influxdb", peer.dir, "/var/lib/tsdbd", data, "http://127.0.0.1:8086", server.URL).Replace(line))
		out, errs, err := command(t, dir, nil, "", append([]string{apptest.Binary(t)}, args[1:]...)...)
		if err != nil {
			err = fmt.Errorf("%s: %w\n%s%s", line, err, out, errs)
		}
		return out, err
	}
	if _, err := run("tsdbd import influxdb -dry-run /var/lib/influxdb"); err == nil || !strings.Contains(err.Error(), "a server uses the directory") {
		s.check("a server that runs", fmt.Errorf("it is not refused: %w", err))
	}
	peer.stop()
	page, err := os.ReadFile("../docs/migrating-from-influxdb.md")
	s.must(err)
	commands := 0
	for line := range strings.Lines(string(page)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "tsdbd import influxdb ") && strings.HasSuffix(line, "/var/lib/influxdb") {
			out, err := run(line)
			s.check(line, err)
			t.Logf("%s\n%s", line, out)
			commands++
		}
	}
	s.equal("commands of the page", commands, 3)
	stopped := apptest.StartOn(t, data)
	for i, w := range want {
		s.equal("files: "+migrated[i].q, ask(stopped.URL, i), w)
		s.equal("server: "+migrated[i].q, ask(server.URL, i), w)
	}
	s.equal("user", strings.Contains(stopped.Query("", "SHOW USERS"), `["boss",true]`), true)
}
