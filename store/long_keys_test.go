package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/vfs/vfstest"
	"tsdbd/model"
)

// longKeyLines returns a line for each of n new series with keys of 60 kB.
func longKeyLines(from, n int) string {
	var b strings.Builder
	for i := from; i < from+n; i++ {
		fmt.Fprintf(&b, "wide,v=%d%s n=1 %d\n", i, strings.Repeat("x", 60_000), i)
	}
	return b.String()
}

// TestLongKeysAreCharged writes new series whose keys are more than the memory
// there is: at once, which is refused for good, and one after another, which
// goes on once the keys are in files.
func TestLongKeysAreCharged(t *testing.T) {
	fs := vfstest.New()
	opt := testOptions(fs)
	opt.SegmentBytes, opt.CacheBytes, opt.FlushBytes = 1<<20, 1<<20, 256<<10
	s := openTest(t, fs, opt)
	defer s.Close()
	s.create("db")
	if err := s.write("db", longKeyLines(0, 20)); !errors.Is(err, ErrOverloaded) {
		t.Fatalf("1.2 MB of new keys with a budget of 1 MiB: %v", err)
	}
	db, err := s.database("db")
	s.must(err)
	if n, reserved := db.series.Len(), s.memory.reserved.Load(); n != 0 || reserved != 0 || s.memory.pending.Load() != 0 {
		t.Errorf("the refused write left %d series, %d bytes reserved, %d bytes of keys", n, reserved, s.memory.pending.Load())
	}
	refused := 0
	deadline := time.Now().Add(time.Minute)
	for i := 0; i < 100; i += 5 {
		for {
			err := s.write("db", longKeyLines(i, 5))
			if err == nil {
				break
			}
			if !errors.Is(err, ErrOverloaded) || time.Now().After(deadline) {
				t.Fatal(err)
			}
			refused++
			time.Sleep(time.Millisecond)
		}
		if held := s.held(); held > 2*opt.CacheBytes {
			t.Errorf("%d bytes are held, the budget is %d", held, opt.CacheBytes)
		}
	}
	t.Logf("%d writes refused", refused)
	if n := len(s.read("db")); n != 100 {
		t.Errorf("%d points, want 100", n)
	}
}

// TestKeysWithoutRowsAreWritten has a series file hold keys that no shard's
// flush would write, as writes leave them that fail after their series got ids.
func TestKeysWithoutRowsAreWritten(t *testing.T) {
	fs := vfstest.New()
	opt := testOptions(fs)
	opt.CacheBytes, opt.FlushBytes = 1<<20, 256<<10
	s := openTest(t, fs, opt)
	defer s.Close()
	for d := range 4 {
		name := fmt.Sprintf("db%d", d)
		s.create(name)
		db, err := s.database(name)
		s.must(err)
		for i := range 3 { // less than FlushBytes each, more than half of CacheBytes together
			key := fmt.Sprintf("wide,v=%d%s", i, strings.Repeat("x", 60_000))
			ids := make([]model.SeriesID, 1)
			s.must(db.series.Claim([]string{key}, ids))
			db.series.Confirm(ids)
		}
	}
	if err := s.write("db0", longKeyLines(10, 7)); !errors.Is(err, ErrOverloaded) && err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); s.memory.pending.Load() > opt.CacheBytes/2; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes of keys are still in memory", s.memory.pending.Load())
		}
	}
}
