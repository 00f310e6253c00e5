package apptest

import (
	"strings"
	"testing"
	"time"
)

// TestMonitor looks for the server's figures in its own database, where
// dashboards made for InfluxDB look for them.
func TestMonitor(t *testing.T) {
	t.Parallel()
	s := New(t)
	s.Env = []string{"TSDBD_MONITOR_STORE_ENABLED=true", "TSDBD_MONITOR_STORE_INTERVAL=1s"}
	s.Restart()
	s.Query("", "CREATE DATABASE d")
	s.Write("d", "m,h=a v=1")
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		// Rounds are written as a whole.
		if strings.Contains(s.Query("_internal", `SELECT last(pointReq) FROM "write" WHERE pointReq = 1`), `"values"`) {
			break
		}
		if time.Since(begin) > 60*time.Second {
			t.Fatal("nothing is written: ", s.Log())
		}
	}
	f := func(q, want string) {
		t.Helper()
		if got := s.Query("_internal", q); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", q, got, want)
		}
	}
	f(`SHOW RETENTION POLICIES`, `["monitor","168h0m0s","24h0m0s",1,true]`)
	f(`SHOW MEASUREMENTS`, `["cq"],["database"],["httpd"],["queryExecutor"],["runtime"],["shard"],["subscriber"],["tsm1_cache"],["tsm1_engine"],["tsm1_filestore"],["tsm1_wal"],["write"]`)
	f(`SHOW TAG KEYS FROM "database"`, `["database"],["hostname"]`)
	f(`SELECT last("numSeries") FROM "_internal"."monitor"."database" WHERE "database" = 'd'`, `,1]`)
	f(`SHOW FIELD KEYS FROM runtime`, `["Alloc","integer"]`)
	s.Stop()
	if strings.Contains(s.Log(), "level=WARN") {
		t.Error(s.Log())
	}
}
