package apptest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestStatistics: SHOW STATS has InfluxDB's parts with what there is of them.
func TestStatistics(t *testing.T) {
	t.Parallel()
	s := Start(t)
	s.Query("", "CREATE DATABASE d; CREATE SUBSCRIPTION sub ON d.autogen DESTINATIONS ALL 'udp://127.0.0.1:9'")
	s.Write("d", "m,h=a v=1 1000\nm,h=b v=2 1000")
	all := s.Query("", "SHOW STATS")
	for _, want := range []string{
		`"name":"cq","columns":["queryFail","queryOk"]`,
		`"name":"database","tags":{"database":"d"},"columns":["numMeasurements","numSeries"],"values":[[1,2]]`,
		`"name":"httpd"`, `"name":"queryExecutor"`, `"name":"runtime"`, `"name":"write"`,
		`"name":"shard","tags":{"database":"d","id":"1","retentionPolicy":"autogen"},"columns":["diskBytes","writePointsOk","writeReq","writeReqOk"]`,
		`"name":"subscriber","columns":["createFailures","memUsage","pointsWritten","writeFailures"]`,
		`"name":"tsm1_cache","tags":{"database":"d","id":"1","retentionPolicy":"autogen"},"columns":["memBytes","writeOk"]`,
		`"name":"tsm1_engine","columns":["cacheCompactionDuration","cacheCompactionErr","cacheCompactions",`,
		`"name":"tsm1_filestore","tags":{"database":"d","id":"1","retentionPolicy":"autogen"},"columns":["diskBytes","numFiles"]`,
		`"name":"tsm1_wal","columns":["currentSegmentDiskBytes","oldSegmentsDiskBytes","writeErr","writeOk"]`,
	} {
		if !strings.Contains(all, want) {
			t.Errorf("SHOW STATS has no %s:\n%s", want, all)
		}
	}
	if one := s.Query("", "SHOW STATS FOR 'cq'"); strings.Count(one, `"name"`) != 1 || !strings.Contains(one, `[[0,0]]`) {
		t.Errorf("SHOW STATS FOR 'cq': %s", one)
	}
}

// TestDiagnostics: SHOW DIAGNOSTICS tells what is in force, and no secret.
func TestDiagnostics(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "config.toml")
	text := "[http]\nshared-secret = \"a secret of thirty-two bytes, or more\"\n[query]\nmax-select-point = 12345\n[subscriber]\nwrite-concurrency = 4\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := StartOn(t, filepath.Join(dir, "data"), "-config", file)
	all := s.Query("", "SHOW DIAGNOSTICS")
	for _, want := range []string{
		`"name":"build"`, `"name":"network","columns":["hostname"]`, `"name":"runtime"`, `"name":"system"`, `"name":"config-data"`,
		`"name":"config-httpd"`, `"name":"config-coordinator"`, `"name":"config-retention"`, `"name":"config-cqs","columns":["catch-up","enabled",`,
		`"name":"config-subscriber"`, "12345", "[REDACTED]",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("SHOW DIAGNOSTICS has no %s:\n%s", want, all)
		}
	}
	if strings.Contains(all, "thirty-two") {
		t.Error("a secret is told")
	}
	if one := s.Query("", "SHOW DIAGNOSTICS FOR 'config-cqs'"); strings.Count(one, `"name"`) != 1 || !strings.Contains(one, `["1d",true,true,"1s"]`) {
		t.Errorf("SHOW DIAGNOSTICS FOR 'config-cqs': %s", one)
	}
}

// TestServicesOff: with both services off nothing runs and nothing is copied,
// but queries can be run by hand.
func TestServicesOff(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "config.toml")
	text := "[continuous_queries]\nenabled = false\n[subscriber]\nenabled = false\nwrite-concurrency = 4\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := StartOn(t, filepath.Join(dir, "data"), "-config", file)
	s.Query("", "CREATE DATABASE d; CREATE SUBSCRIPTION sub ON d.autogen DESTINATIONS ALL 'udp://127.0.0.1:9'")
	s.Query("", "CREATE CONTINUOUS QUERY q ON d BEGIN SELECT sum(v) INTO o FROM m GROUP BY time(1h) END")
	s.Write("d", "m,h=a v=1 1000\nm,h=b v=2 1000")
	if got := s.Query("", "EXECUTE CONTINUOUS QUERY q ON d FROM 0s TO 1h"); !strings.Contains(got, `"columns":["time","windows","written"],"values":[[0,1,1]]`) {
		t.Errorf("got %s", got)
	}
	if got := s.Query("d", "SELECT sum FROM o"); !strings.Contains(got, `[0,3]`) {
		t.Errorf("got %s", got)
	}
	if got := s.Query("", "SHOW STATS FOR 'subscriber'"); !strings.Contains(got, `"values":[[0,0,0,0]]`) || strings.Contains(got, `"mode"`) {
		t.Errorf("got %s", got)
	}
	if log := s.Log(); strings.Contains(log, "continuous query ran") {
		t.Errorf("ran: %s", log)
	}
}
