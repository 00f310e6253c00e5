package main

import (
	"strings"
	"testing"

	"tsdbd/internal/testkit/apptest"
)

// TestRestoreDefinitions restores users, continuous queries, downsamples and
// subscriptions into a running server, which keeps its own.
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
	if !strings.Contains(out, "1 users, 1 continuous queries, 1 downsamples, 1 subscriptions made") {
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
	if out := must(t, "restore", "-definitions", "-host", other.URL, repo); !strings.Contains(out, "0 users, 0 continuous queries, 0 downsamples, 0 subscriptions made") {
		t.Errorf("restore again says %q", out)
	}
	// Under another name a subscription and a downsample go along, a query, which names
	// its database, does not.
	out = must(t, "restore", "-definitions", "-host", other.URL, "-db", "d", "-newdb", "copy", repo)
	if !strings.Contains(out, "0 users, 0 continuous queries, 1 downsamples, 1 subscriptions made") {
		t.Errorf("restore under another name says %q", out)
	}
	other.Stop()
	s.Stop()
}
