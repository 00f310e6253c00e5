package versions

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tsdbd/internal/testkit/apptest"
)

// startCold starts a server on DIR/data whose old shards go to DIR/store.
func startCold(t testing.TB, dir string) *apptest.Server {
	t.Helper()
	s := apptest.New(t)
	s.Dir = filepath.Join(dir, "data")
	s.Env = append(slices.Clone(small), "TSDBD_DATA_COMPACT_AFTER=100ms", "TSDBD_COLD_AFTER=1h", "TSDBD_COLD_CACHE_SIZE=16MiB", "TSDBD_COLD_URL="+storeOf(dir))
	s.Restart()
	return s
}

func storeOf(dir string) string { return "file://" + filepath.ToSlash(filepath.Join(dir, "store")) }

// fillCold gives a server of startCold shards in the store, and changes of them that are local:
// late rows, deleted ones, and series with another tag.
func fillCold(t testing.TB, s *apptest.Server) {
	t.Helper()
	s.Query("", "CREATE DATABASE db WITH DURATION INF SHARD DURATION 26w NAME raw")
	s.Write("db", batch(0)+batch(1))
	s.Stop()
	s.Restart()
	await(t, "cold shards", func() bool {
		must(t, "cold", "sweep", "-host", s.URL)
		return files(t, s, "*.tail") > 0 && files(t, s, "*.tsm") == 0
	})
	s.Write("db", batch(2))
	s.Query("db", fmt.Sprintf("DELETE FROM cpu WHERE host = 'h3' AND time < %d", origin+30*3600*1e9))
	s.Query("db", "UPDATE disk SET host = 'h9' WHERE host = 'h4'")
	s.Stop()
	s.Restart()
	must(t, "cold", "sweep", "-host", s.URL) // for readers
}

// files counts the files of shards whose names match a pattern.
func files(t testing.TB, s *apptest.Server, pattern string) int {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(s.Dir, "db-*", "shard-*", pattern))
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// coldQuestions are asked of a server with what fillCold has written.
func coldQuestions() (out []question) {
	for _, q := range []string{
		"SHOW SERIES ON db", "SELECT count(*) FROM cpu, disk GROUP BY host", "SELECT * FROM cpu WHERE host = 'h3' LIMIT 5",
		"SELECT percentile(usage, 90), count(distinct(note)), sum(count) FROM cpu GROUP BY time(7d) fill(none)",
		"SELECT sum(free), last(ratio) FROM disk GROUP BY host",
	} {
		out = append(out, question{Path: "/query", DB: "db", Query: q})
	}
	return out
}

// testCold opens the server and the store of a version, and a reader of the store.
func testCold(t *testing.T, archive string, answers []question) {
	dir := unpack(t, archive)
	if out := must(t, "verify", filepath.Join(dir, "data")); !strings.Contains(out, ": sound; ") {
		t.Errorf("verify: %s", out)
	}
	s := startCold(t, dir)
	if files(t, s, "*.tail") == 0 {
		t.Error("no shard is cold")
	}
	expect(t, s, "opened", answers)
	if out := must(t, "cold", "verify", "-deep", "-host", s.URL); !strings.Contains(out, ", 0 damaged") {
		t.Errorf("cold verify: %s", out)
	}
	reader := apptest.Start(t, "-reader", storeOf(dir))
	expect(t, reader, "read from the store", answers)
	reader.Stop()
	s.Write("db", batch(3))
	s.Query("db", "DROP SERIES FROM disk WHERE host = 'h1'")
	changed := ask(t, s, answers)
	must(t, "cold", "sweep", "-host", s.URL)
	expect(t, s, "swept", changed)
	must(t, "cold", "fetch", "-host", s.URL)
	if n := files(t, s, "*.tail"); n != 0 {
		t.Errorf("%d tails after the fetch", n)
	}
	if err := os.RemoveAll(filepath.Join(dir, "store", "objects")); err != nil {
		t.Fatal(err)
	}
	expect(t, s, "fetched", changed)
	s.Stop()
}
