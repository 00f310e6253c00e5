package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestStatistics: SHOW STATS has InfluxDB's parts with what there is of them.
func TestStatistics(t *testing.T) {
	s := startServer(t, t.TempDir())
	s.query("", "CREATE DATABASE d; CREATE SUBSCRIPTION sub ON d.autogen DESTINATIONS ALL 'udp://127.0.0.1:9'")
	s.write("d", "m,h=a v=1 1000\nm,h=b v=2 1000")
	all := s.query("", "SHOW STATS")
	for _, want := range []string{
		`"name":"cq","columns":["queryFail","queryOk"]`,
		`"name":"database","tags":{"database":"d"},"columns":["numMeasurements","numSeries"],"values":[[1,2]]`,
		`"name":"httpd"`, `"name":"queryExecutor"`, `"name":"runtime"`, `"name":"write"`,
		`"name":"shard","tags":{"database":"d","id":"1","retentionPolicy":"autogen"},"columns":["diskBytes"]`,
		`"name":"subscriber","columns":["createFailures","memUsage","pointsWritten","writeFailures"]`,
		`"name":"tsm1_cache","tags":{"database":"d","id":"1","retentionPolicy":"autogen"},"columns":["memBytes"]`,
		`"name":"tsm1_engine","columns":["cacheCompactionDuration","cacheCompactionErr","cacheCompactions",`,
		`"name":"tsm1_filestore","tags":{"database":"d","id":"1","retentionPolicy":"autogen"},"columns":["diskBytes","numFiles"]`,
		`"name":"tsm1_wal","columns":["currentSegmentDiskBytes","oldSegmentsDiskBytes","writeErr","writeOk"]`,
	} {
		if !strings.Contains(all, want) {
			t.Errorf("SHOW STATS has no %s:\n%s", want, all)
		}
	}
	if one := s.query("", "SHOW STATS FOR 'cq'"); strings.Count(one, `"name"`) != 1 || !strings.Contains(one, `[[0,0]]`) {
		t.Errorf("SHOW STATS FOR 'cq': %s", one)
	}
}

// TestServicesOff: with both services off nothing runs and nothing is copied,
// but queries can be run by hand.
func TestServicesOff(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "config.toml")
	text := "[continuous_queries]\nenabled = false\n[subscriber]\nenabled = false\nwrite-concurrency = 4\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServer(t, filepath.Join(dir, "data"), "-config", file)
	s.query("", "CREATE DATABASE d; CREATE SUBSCRIPTION sub ON d.autogen DESTINATIONS ALL 'udp://127.0.0.1:9'")
	s.query("", "CREATE CONTINUOUS QUERY q ON d BEGIN SELECT sum(v) INTO o FROM m GROUP BY time(1h) END")
	s.write("d", "m,h=a v=1 1000\nm,h=b v=2 1000")
	if got := s.query("", "EXECUTE CONTINUOUS QUERY q ON d FROM 0s TO 1h"); !strings.Contains(got, `"columns":["time","windows","written"],"values":[[0,1,1]]`) {
		t.Errorf("got %s", got)
	}
	if got := s.query("d", "SELECT sum FROM o"); !strings.Contains(got, `[0,3]`) {
		t.Errorf("got %s", got)
	}
	if got := s.query("", "SHOW STATS FOR 'subscriber'"); !strings.Contains(got, `"values":[[0,0,0,0]]`) || strings.Contains(got, `"mode"`) {
		t.Errorf("got %s", got)
	}
	if log := s.log(); strings.Contains(log, "continuous query ran") {
		t.Errorf("ran: %s", log)
	}
}
