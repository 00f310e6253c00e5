package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tsdbd/internal/testkit/apptest"
	"tsdbd/services/scrub"
)

// TestClusterScrub has a running server read its files: a damaged manifest is written
// again, a damaged data file is named, with its offset and by the exit code.
func TestClusterScrub(t *testing.T) {
	s := apptest.Start(t)
	fill(t, s)
	s.Stop() // which flushes
	s.Restart()
	if out := must(t, "cluster", "scrub", "-host", s.URL); !strings.Contains(out, ": sound; ") {
		t.Errorf("says %s", out)
	}
	flip := func(pattern string) string {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(s.Dir, pattern))
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		f, err := os.OpenFile(files[0], os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var b [1]byte
		if _, err = f.ReadAt(b[:], 40); err == nil {
			b[0] ^= 0x10
			_, err = f.WriteAt(b[:], 40)
		}
		if err != nil {
			t.Fatal(err)
		}
		return files[0]
	}
	name := flip("db-1/shard-*/MANIFEST")
	if out := must(t, "cluster", "scrub", "-host", s.URL); !strings.Contains(out, name) || !strings.Contains(out, ": healed\n") || !strings.Contains(out, ": sound; ") {
		t.Errorf("says %s", out)
	}
	name = flip("db-1/shard-*/*.tsm")
	out, _, err := tsdbd(t, "cluster", "scrub", "-host", s.URL)
	if !errors.Is(err, errDamaged) || !strings.Contains(out, name+" at offset ") || !strings.Contains(out, ": NOT healed\n") || !strings.Contains(out, ": DAMAGED; ") {
		t.Errorf("says %s, %v", out, err)
	}
	out, _, err = tsdbd(t, "cluster", "scrub", "-json", "-wait", "1s", "-host", s.URL)
	var st scrub.Status
	if uerr := json.Unmarshal([]byte(out), &st); uerr != nil || !errors.Is(err, errDamaged) || len(st.Damage) != 1 || st.Damage[0].Path != name || st.Damage[0].Healed {
		t.Errorf("says %s, %v, %v", out, uerr, err)
	}
	if _, _, err := tsdbd(t, "cluster", "scrub", "n1", "-host", s.URL); err == nil {
		t.Error("a name is no error")
	}
	if _, _, err := tsdbd(t, "cluster", "scrub", "-host", "127.0.0.1:1,"+s.URL); err == nil || errors.Is(err, errDamaged) {
		t.Errorf("a node that does not answer: %v", err)
	}
}
