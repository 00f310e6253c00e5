package server

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tsdbd/services/scrub"
)

// TestClusterScrub flips bytes of files of a follower that nobody reads. A scrub finds each
// one, and the node is healed without any query or comparison.
func TestClusterScrub(t *testing.T) {
	n := openNodes(t)
	leader := n.leader()
	n.query(leader, "CREATE DATABASE d")
	var lines strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&lines, "m,h=h%d v=%d,s=\"text %d\" %d\n", i%70, i*i%1009, i%17, i)
	}
	if status, answer, _ := n.ask(leader, "POST", "/write?db=d", lines.String()); status != 204 {
		t.Fatal(status, answer)
	}
	at := n.follower()
	eventually(t, "the follower has the points", func() bool {
		return strings.Contains(n.query(at, "SELECT count(v) FROM m WHERE time < 1000s"), "[0,5000]")
	})
	n.close(at) // flushes
	n.open(at)
	eventually(t, "the follower is ready", func() bool {
		ok, _ := n.servers[at].health().Health()
		return ok
	})
	ask := func(method string) (st scrub.Status) {
		t.Helper()
		status, answer, _ := n.ask(at, method, scrub.Path, "")
		if err := json.Unmarshal([]byte(answer), &st); status != 200 || err != nil {
			t.Fatal(status, answer, err)
		}
		return st
	}
	for _, c := range []struct {
		pattern string
		gone    bool
	}{
		{"db-1/shard-*/*.tsm", false},
		{"db-1/shard-*/*.tsm", true},
		{"db-1/shard-*/*.tsi", false},
		{"db-1/shard-*/MANIFEST", false},
		{"db-1/series/series.log", false},
		{"meta/catalog.0", true},
	} {
		dir := n.configs[at].Data.Dir
		files, err := filepath.Glob(filepath.Join(dir, c.pattern))
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		if c.gone {
			err = os.Remove(files[0])
		} else {
			err = flipMiddle(files[0])
		}
		if err != nil {
			t.Fatal(err)
		}
		ask("POST")
		eventually(t, "a pass", func() bool { return !ask("GET").Running })
		if st := ask("GET"); len(st.Damage) == 0 || st.Damage[0].Path != files[0] {
			t.Fatalf("%s: %+v", files[0], st)
		}
		eventually(t, files[0]+" is healed", func() bool {
			st := ask("GET")
			return st.Damage[0].Healed && !n.servers[at].store.Degraded()
		})
	}
	if got := n.query(at, "SELECT count(v), count(s) FROM m WHERE time < 1000s"); !strings.Contains(got, "[0,5000,5000]") {
		t.Error(got)
	}
	ask("POST")
	eventually(t, "a last pass", func() bool { return !ask("GET").Running })
	if st := ask("GET"); len(st.Damage) > 0 || len(st.Problems) > 0 {
		t.Errorf("%+v", st)
	}
}

// flipMiddle changes the byte in the middle of a file, where it is.
func flipMiddle(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	var b [1]byte
	if _, err := f.ReadAt(b[:], st.Size()/2); err != nil {
		return err
	}
	b[0] ^= 0x10
	_, err = f.WriteAt(b[:], st.Size()/2)
	return err
}
