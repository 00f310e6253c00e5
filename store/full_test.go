package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/store/space"
)

// TestDiskFull fills the disk under writes and flushes, several times, and
// frees it: every refusal says so, refused points never show, acknowledged
// ones stay, writes and flushes go on by themselves, and no space stays lost.
func TestDiskFull(t *testing.T) {
	fs := vfstest.New()
	opt := testOptions(fs)
	opt.FlushBytes = 256 << 10
	s := openTest(t, fs, opt)
	s.create("db")
	want := points{}
	n := 0
	write := func() error {
		var b strings.Builder
		batch := points{}
		for k := range 200 {
			n++
			fmt.Fprintf(&b, "m,host=h%d,run=r%d f=%d %d\n", k%10, n/3000, n, n)
			batch[pointKey(fmt.Sprintf("m,host=h%d,run=r%d", k%10, n/3000), int64(n), "f")] = fmt.Sprint(float64(n))
		}
		err := s.write("db", b.String())
		if err == nil {
			for k, v := range batch {
				want[k] = v
			}
		}
		return err
	}
	refused := 0
	for round := range 2 {
		for range 40 {
			s.must(write())
		}
		free, _ := fs.Free("/data")
		used := int64(1<<40) - int64(free) // without a limit
		if free == 1<<40 {
			used = 0
			for _, name := range fs.Files() {
				st, err := fs.Stat(name)
				if err == nil {
					used += st.Size()
				}
			}
		}
		fs.SetLimit(used + int64(10+round*40)<<10)
		for range 400 {
			err := write()
			if err == nil {
				continue
			}
			if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, ErrOverloaded) {
				t.Fatalf("round %d: %v", round, err)
			}
			refused++
			if refused%20 == 0 {
				break
			}
		}
		for _, e := range s.entries() {
			s.flush(t.Context(), e)
			_, _ = e.Compact(t.Context(), true)
		}
		if text := diff(s.read("db"), want); text != "" {
			t.Fatalf("round %d, disk full: %s", round, text)
		}
		fs.SetLimit(0)
		deadline := time.Now().Add(time.Minute)
		for write() != nil {
			if time.Now().After(deadline) {
				ok, message := s.Health()
				t.Fatalf("round %d: no write a minute after space came back; health %v %s", round, ok, message)
			}
			time.Sleep(20 * time.Millisecond)
		}
		for _, e := range s.entries() {
			for range 2 {
				s.flush(t.Context(), e)
			}
			for range 3 {
				_, err := e.Compact(t.Context(), true)
				s.must(err)
			}
			if _, dirty := e.FirstUnflushed(); dirty {
				t.Errorf("round %d: shard not flushed after space came back", round)
			}
		}
		for _, name := range fs.Files() {
			if inShard(name) && strings.Contains(name, ".tmp") {
				t.Errorf("round %d: left: %s", round, name)
			}
		}
		files := 0
		for _, name := range fs.Files() {
			if inShard(name) {
				files++
			}
		}
		if files > 4 { // two copies of the manifest, one TSM, one TSI
			t.Errorf("round %d: %d files of a compacted shard: %v", round, files, fs.Files())
		}
	}
	if refused == 0 {
		t.Error("the disk was never full")
	}
	s.must(s.Close())
	s = openTest(t, fs, testOptions(fs))
	defer s.Close()
	if text := diff(s.read("db"), want); text != "" {
		t.Errorf("reopened: %s", text)
	}
	t.Logf("%d writes refused", refused)
}

// TestDeleteAfterRestartsOnFullDisk: DELETE, DROP SERIES and DROP MEASUREMENT, which
// are deletes of the store, pass on a full disk also after restarts on it, as an
// operator makes one after the other.
func TestDeleteAfterRestartsOnFullDisk(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 9))
	for _, kill := range []bool{false, true} {
		t.Run(fmt.Sprint("kill ", kill), func(t *testing.T) {
			fs := vfstest.New()
			opt := testOptions(fs)
			s := openTest(t, fs, opt)
			s.create("db")
			want := points{}
			for n := 0; ; n++ {
				if n == 40 {
					fs.SetLimit(1) // nothing more fits
				}
				line := fmt.Sprintf("m%d,host=h%d f=%d 1\n", n%10, n, n)
				err := s.write("db", line)
				if errors.Is(err, syscall.ENOSPC) {
					break
				}
				s.must(err)
				want[pointKey(fmt.Sprintf("m%d,host=h%d", n%10, n), 1, "f")] = fmt.Sprint(n)
			}
			for life := range 5 {
				if kill {
					left := fs.CrashLocked(r, 0)
					_ = s.Close()
					fs = left
				} else {
					_ = s.Close()
				}
				fs.SetLimit(1)
				opt.FS = fs
				s = openTest(t, fs, opt)
				if text := diff(s.read("db"), want); text != "" {
					t.Fatalf("life %d: %s", life, text)
				}
				// A series, and a measurement with all its series.
				s.must(s.Delete(t.Context(), scan.DeleteRequest{Database: "db", Range: model.AllTime, Where: hostIs(fmt.Sprint("h", life+20))}))
				measurement := fmt.Sprint("m", life)
				s.must(s.Delete(t.Context(), scan.DeleteRequest{Database: "db", Range: model.AllTime, Measurement: func(m string) bool { return m == measurement }}))
				for key := range want {
					series, _, _ := strings.Cut(key, " ")
					if strings.HasPrefix(series, measurement+",") || strings.HasSuffix(series, fmt.Sprintf("=h%d", life+20)) {
						delete(want, key)
					}
				}
				if text := diff(s.read("db"), want); text != "" {
					t.Fatalf("life %d, after the deletes: %s", life, text)
				}
			}
			fs.SetLimit(0)
			s.must(s.Close())
		})
	}
}

// TestCacheFullOnFullDisk: if the cache is full because the disk is, a refused
// write says so.
func TestCacheFullOnFullDisk(t *testing.T) {
	fs := vfstest.New()
	opt := testOptions(fs)
	opt.SegmentBytes, opt.CacheBytes = 1<<20, 128<<10
	s := openTest(t, fs, opt)
	s.create("db")
	s.must(s.write("db", "m,h=a f=1 1")) // makes the log's segment
	fs.SetLimit(1)
	var err error
	for n := 2; err == nil; n++ {
		err = s.write("db", fmt.Sprintf("m,h=a f=%d %d", n, n))
		if err != nil && errors.Is(err, ErrOverloaded) && !s.space.Full() {
			// No flush has failed yet.
			for _, e := range s.entries() {
				s.flush(t.Context(), e)
			}
			err = nil
		}
	}
	if !errors.Is(err, syscall.ENOSPC) || !strings.HasPrefix(err.Error(), "disk full: the cache is full") {
		t.Errorf("refused: %v", err)
	}
	if ok, message := s.Health(); ok || !strings.HasPrefix(message, "disk full") {
		t.Errorf("health: %v %s", ok, message)
	}
	fs.SetLimit(0)
	s.must(s.Close())
}

// TestLogNotWritable: health tells that no segment of the log can be made, until
// a write passes or nobody has tried for a while.
func TestLogNotWritable(t *testing.T) {
	fs := vfstest.New()
	s := openTest(t, fs, testOptions(fs))
	s.create("db")
	s.must(s.write("db", "m f=0 0"))
	s.must(s.Close())
	s = openTest(t, fs, testOptions(fs)) // the next entry needs a segment
	var now atomic.Int64
	now.Store(time.Now().UnixNano())
	s.space = space.New(fs, "/data", func() time.Time { return time.Unix(0, now.Load()) })
	deny := func(op vfstest.Op) error {
		if op.Kind == "create" && strings.HasPrefix(op.Path, "/data/wal/") {
			return syscall.EACCES
		}
		return nil
	}
	health := func(what string, want bool) {
		t.Helper()
		ok, message := s.Health()
		if ok != want || !ok && !strings.Contains(message, "permission denied") {
			t.Errorf("%s: health %v %s", what, ok, message)
		}
	}
	health("at first", true)
	fs.SetHook(deny)
	if err := s.write("db", "m f=1 1"); !errors.Is(err, syscall.EACCES) {
		t.Fatalf("write: %v", err)
	}
	health("refused", false)
	if _, n := dropped(t, s.write("db", "m time=1 1")); n != 1 {
		t.Error("not dropped") // it did not get to the log
	}
	now.Add(int64(2 * time.Minute))
	health("long ago", true)
	now.Add(-int64(2 * time.Minute))
	health("refused again", false)
	fs.SetHook(nil)
	for s.write("db", "m f=1 1") != nil { // the log tries again after a moment
		time.Sleep(10 * time.Millisecond)
	}
	health("stored", true)
	s.must(s.Close())
}
