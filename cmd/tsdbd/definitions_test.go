package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/testkit/apptest"
)

// TestRestoreDefinitions restores users, continuous queries, downsamples and
// subscriptions and boards into a running server, which keeps its own.
func TestRestoreDefinitions(t *testing.T) {
	s := apptest.Start(t)
	for _, q := range []string{
		"CREATE DATABASE d", "CREATE DATABASE e",
		"CREATE USER root WITH PASSWORD 'a' WITH ALL PRIVILEGES", "CREATE USER reader WITH PASSWORD 'b'", "GRANT READ ON d TO reader",
		"CREATE CONTINUOUS QUERY q ON d BEGIN SELECT mean(v) INTO x FROM m GROUP BY time(1h) END",
		"CREATE RETENTION POLICY hours ON d DURATION INF REPLICATION 1", "CREATE DOWNSAMPLE ON d FROM autogen INTO hours EVERY 1h AS max WHERE h = 'a'",
		"CREATE SUBSCRIPTION s ON d.autogen DESTINATIONS ALL 'http://127.0.0.1:9'",
	} {
		s.Query("", q)
	}
	for range 2 { // of one name
		if status, answer := s.Send("/api/boards?db=d", `{"name":"Host","board":{"version":1,"panels":[]}}`); status != 201 {
			t.Fatalf("%d %s", status, answer)
		}
	}
	s.Write("d", "m v=1 1")
	repo := t.TempDir()
	must(t, "backup", "-host", s.URL, repo)

	other := apptest.Start(t)
	other.Query("", "CREATE USER root WITH PASSWORD 'z'")
	shown := []string{"SHOW USERS", "SHOW GRANTS FOR reader", "SHOW CONTINUOUS QUERIES", "SHOW SUBSCRIPTIONS"}
	must(t, "restore", "-host", other.URL, repo)
	for _, q := range []string{"SHOW USERS", "SHOW CONTINUOUS QUERIES", "SHOW SUBSCRIPTIONS"} {
		if got := other.Query("", q); strings.Contains(got, "reader") || strings.Contains(got, "mean") || strings.Contains(got, "127.0.0.1:9") {
			t.Errorf("restored without being asked: %s: %s", q, got)
		}
	}
	out := must(t, "restore", "-definitions", "-host", other.URL, repo)
	if !strings.Contains(out, "1 users, 1 continuous queries, 1 downsamples, 1 subscriptions, 2 boards made") {
		t.Errorf("restore says %q", out)
	}
	for _, q := range shown[1:] {
		if got, want := other.Query("", q), s.Query("", q); got != want {
			t.Errorf("%s: %s, want %s", q, got, want)
		}
	}
	if got := other.Query("", "SHOW DOWNSAMPLES"); !strings.Contains(got, `["autogen","hours","1h","max","h = 'a'",`) {
		t.Errorf("downsamples: %s", got)
	}
	if got := other.Query("", "SHOW USERS"); !strings.Contains(got, `["root",false]`) || !strings.Contains(got, `["reader",false]`) {
		t.Errorf("users: %s", got)
	}
	if out := must(t, "restore", "-definitions", "-host", other.URL, repo); !strings.Contains(out, "0 users, 0 continuous queries, 0 downsamples, 0 subscriptions, 0 boards made") {
		t.Errorf("restore again says %q", out)
	}
	// Under another name a subscription, a downsample and a board go along, a query, which names
	// its database, does not.
	out = must(t, "restore", "-definitions", "-host", other.URL, "-db", "d", "-newdb", "copy", repo)
	if !strings.Contains(out, "0 users, 0 continuous queries, 1 downsamples, 1 subscriptions, 2 boards made") {
		t.Errorf("restore under another name says %q", out)
	}
	other.Stop()
	s.Stop()
}

// TestRestoreGrants restores a database that was dropped: users that are still there get back
// their grants on it, and on no other database.
func TestRestoreGrants(t *testing.T) {
	s := apptest.Start(t)
	for _, q := range []string{
		"CREATE DATABASE g", "CREATE DATABASE other", "CREATE USER root WITH PASSWORD 'a' WITH ALL PRIVILEGES",
		"CREATE USER writer WITH PASSWORD 'b'", "CREATE USER gone WITH PASSWORD 'b'", "CREATE USER stranger WITH PASSWORD 'b'",
		"GRANT WRITE ON g TO writer", "GRANT READ ON other TO writer", "GRANT READ ON g TO gone", "GRANT READ ON other TO stranger",
	} {
		s.Query("", q)
	}
	s.Write("g", "m v=1 1")
	s.Write("other", "m v=1 1")
	repo := t.TempDir()
	must(t, "backup", "-host", s.URL, repo)
	f := func(says, grants string, args ...string) {
		t.Helper()
		out := must(t, append([]string{"restore", "-host", s.URL}, append(args, repo)...)...)
		if !strings.Contains(out, says) {
			t.Errorf("%q says %q", args, out)
		}
		if got := s.Query("", "SHOW GRANTS FOR writer"); !strings.Contains(got, grants) {
			t.Errorf("%q: the writer has %s, want %s", args, got, grants)
		}
		if got := s.Query("", "SHOW GRANTS FOR stranger"); strings.Contains(got, "copy") || strings.Contains(got, `"g"`) {
			t.Errorf("%q: the stranger has %s", args, got)
		}
	}
	s.Query("", "DROP USER gone; REVOKE ALL PRIVILEGES ON other FROM writer; GRANT WRITE ON other TO writer; DROP DATABASE g")
	f("2 grants on databases that the server lacked are not restored", `"values":[["other","WRITE"]]`, "-db", "g")
	f("0 grants given", `"values":[["other","WRITE"]]`, "-db", "g", "-definitions")
	s.Query("", "DROP USER gone; DROP DATABASE g")
	f("1 users, 0 continuous queries, 0 downsamples, 0 subscriptions, 0 boards made; 1 grants given", `"values":[["g","WRITE"],["other","WRITE"]]`, "-db", "g", "-definitions")
	f("0 grants given", `"values":[["g","WRITE"],["other","WRITE"]]`, "-db", "g", "-newdb", "other", "-definitions")
	f("2 grants given", `"values":[["copy","WRITE"],["g","WRITE"],["other","WRITE"]]`, "-db", "g", "-newdb", "copy", "-definitions")
	// A new name is not that of another database of the backup.
	s.Query("", "DROP DATABASE other")
	f("2 grants given", `"values":[["copy","WRITE"],["g","WRITE"],["other","WRITE"]]`, "-db", "g", "-newdb", "other", "-definitions")
	if got := s.Query("", "SHOW GRANTS FOR stranger"); strings.Contains(got, "READ") {
		t.Errorf("the stranger has %s", got)
	}
	s.Stop()
}

// TestRestoreHistory restores a downsample into a running server, which answers from it as the
// first one did: for what had expired there, and for rows that are too old to be restored.
func TestRestoreHistory(t *testing.T) {
	start := func() *apptest.Server {
		s := apptest.New(t)
		s.Env = []string{"TSDBD_RETENTION_CHECK_INTERVAL=100ms"}
		s.Restart()
		return s
	}
	settled := func(s *apptest.Server) {
		for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			shown := s.Query("d", "SHOW DOWNSAMPLES")
			if strings.Contains(shown, `Z",0,1,`) && strings.Contains(shown, `,0,"0s",`) {
				return
			}
			if time.Now().After(end) {
				t.Fatal(shown)
			}
		}
	}
	s := start()
	for _, q := range []string{
		"CREATE DATABASE d WITH SHARD DURATION 1h NAME raw", "CREATE RETENTION POLICY tens ON d DURATION INF REPLICATION 1 SHARD DURATION 1h",
		"CREATE DOWNSAMPLE ON d FROM raw INTO tens EVERY 10s AS mean",
	} {
		s.Query("", q)
	}
	first := time.Now().Truncate(time.Hour).Add(-8 * time.Hour)
	for n := range 12 { // two in each shard group
		s.Write("d", fmt.Sprintf("m v=%d %d", n, first.Add(time.Duration(n)*30*time.Minute).UnixNano()))
	}
	settled(s)
	life := time.Since(first.Add(2*time.Hour + 25*time.Minute)) // the third group stays
	s.Query("", fmt.Sprintf("ALTER RETENTION POLICY raw ON d DURATION %ds", life/time.Second))
	for strings.Contains(s.Query("", "SHOW SHARD GROUPS"), fmt.Sprintf(`"raw","%s"`, first.UTC().Add(time.Hour).Format(time.RFC3339))) {
		time.Sleep(50 * time.Millisecond)
	}
	const q = "SELECT count(v), sum(v) FROM m"
	want := s.Query("d", q)
	if !strings.Contains(want, "12,66]") {
		t.Errorf("the first server has %s", want)
	}
	repo := t.TempDir()
	must(t, "backup", "-host", s.URL, repo)
	other := start()
	must(t, "restore", "-definitions", "-host", other.URL, repo)
	settled(other)
	if got := other.Query("d", q); got != want {
		t.Errorf("the restored server has %s, want %s", got, want)
	}
}
