package store

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"tsdbd/internal/binio"
	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/store/ledger"
)

var flipRuns = flag.Int("flips", 40, "flips and cuts per file of TestDamagedFiles")

// damaged is a closed store with files of every kind, and what it held.
type damaged struct {
	fs   *vfstest.FS
	want points
}

func makeDamaged(t testing.TB) damaged {
	fs := vfstest.New()
	s := openTest(t, fs, testOptions(fs))
	s.create("db")
	want := points{}
	n := 0
	write := func(host, rows int, off int64) {
		var b strings.Builder
		for k := range rows {
			n++
			at := off + int64(k)*1000
			fmt.Fprintf(&b, "m,host=h%d,zone=z%d f=%d,s=\"v%d\" %d\n", host, host%3, n, n, at)
			series := fmt.Sprintf("m,host=h%d,zone=z%d", host, host%3)
			want[pointKey(series, at, "f")] = fmt.Sprint(float64(n))
			want[pointKey(series, at, "s")] = fmt.Sprintf("%q", fmt.Sprint("v", n))
		}
		s.must(s.write("db", b.String()))
	}
	for round := range 3 {
		for host := range 12 {
			write(host, 30, int64(round)*20_000+int64(host%2)*week)
		}
		for _, e := range s.entries() {
			s.flush(context.Background(), e)
		}
		if round == 1 {
			times := model.TimeRange{Min: 5000, Max: 9000}
			s.must(s.Delete(context.Background(), scan.DeleteRequest{Database: "db", Range: times}))
			for key := range want {
				var at int64
				fmt.Sscanf(strings.Fields(key)[1], "%d", &at)
				if times.Contains(at) {
					delete(want, key)
				}
			}
		}
	}
	s.must(s.log.(*ledger.Log).Rotate())
	s.trim()
	write(3, 5, 77) // in the log alone
	// As a power cut leaves it: Close would flush.
	left := fs.CrashLocked(rand.New(rand.NewPCG(1, 1)), 1)
	_ = s.Close()
	return damaged{left, want}
}

// TestDamagedFiles flips bits of, cuts, and removes every file of a store. It
// must open, or refuse with an error that names the file; no answer may hold a
// value that was never written; every other file's rows must be served; what
// is missing must be told.
func TestDamagedFiles(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 9))
	d := makeDamaged(t)
	copied := func() *vfstest.FS { return d.fs.Crash(rand.New(rand.NewPCG(1, 1)), 1) }
	type outcome struct{ runs, whole, told, refused int }
	kinds := map[string]*outcome{}
	for _, name := range d.fs.Files() {
		if strings.HasSuffix(name, "LOCK") || strings.HasPrefix(name, "/data/wal/") || strings.HasPrefix(name, "/data/meta/") {
			continue // the log and the catalog have tests of their own
		}
		kind := strings.TrimPrefix(path.Ext(name), ".")
		if kind == "" {
			kind = path.Base(name)
		}
		if kind == "log" || kind == "index" {
			kind = path.Base(name)
		}
		o := kinds[kind]
		if o == nil {
			o = &outcome{}
			kinds[kind] = o
		}
		b, err := vfs.ReadFile(d.fs, name)
		if err != nil {
			t.Fatal(err)
		}
		for run := range *flipRuns {
			fs := copied()
			what := ""
			switch {
			case run == 0:
				what = "removed"
				if err := fs.Remove(name); err != nil {
					t.Fatal(err)
				}
			case run == 1 || run%4 == 0 && len(b) > 0:
				n := r.IntN(len(b))
				if run == 1 {
					n = 0
				}
				what = fmt.Sprintf("cut to %d of %d", n, len(b))
				if err := fs.Truncate(name, int64(n)); err != nil {
					t.Fatal(err)
				}
			default:
				at := r.IntN(len(b))
				if run%4 == 1 {
					at = max(0, len(b)-1-r.IntN(200))
				}
				what = fmt.Sprintf("flip at %d of %d", at, len(b))
				if err := fs.Flip(name, int64(at), byte(1)<<r.IntN(8)); err != nil {
					t.Fatal(err)
				}
			}
			o.runs++
			checkDamaged(t, fs, &d, name, kind, what, &o.whole, &o.told, &o.refused)
			if t.Failed() {
				return
			}
		}
	}
	for kind, o := range kinds {
		t.Logf("%s: %d damages, %d whole answers, %d told, %d refused to open", kind, o.runs, o.whole, o.told, o.refused)
	}
}

func checkDamaged(t *testing.T, fs *vfstest.FS, d *damaged, name, kind, what string, whole, told, refused *int) {
	base := path.Base(name)
	fail := func(format string, args ...any) {
		t.Errorf("%s %s: %s", name, what, fmt.Sprintf(format, args...))
	}
	s, err := Open("/data", testOptions(fs))
	if err != nil {
		if kind == "tsm" || kind == "tsi" || kind == "MANIFEST" || kind == "copy" {
			fail("refused to open: %v", err)
		} else if !strings.Contains(err.Error(), base) {
			fail("message names no file: %v", err)
		}
		*refused++
		return
	}
	defer s.Close()
	// Read twice: an index found damaged is rebuilt between.
	got, err := readAll(s, "db", false)
	if err != nil && kind == "tsi" {
		if !errors.Is(err, binio.ErrCorrupt) {
			fail("%v", err)
		}
		for _, e := range (&testStore{Store: s, t: t}).entries() {
			if _, err := e.Compact(context.Background(), false); err != nil {
				fail("rebuild: %v", err)
			}
		}
		*told++
		got, err = readAll(s, "db", false)
	}
	if err != nil {
		if !errors.Is(err, binio.ErrCorrupt) && kind != "series.log" || !strings.Contains(err.Error(), base) {
			fail("query: %v", err)
		}
		*told++
		return
	}
	missing := 0
	for k, v := range d.want {
		if g, ok := got[k]; !ok {
			missing++
		} else if g != v {
			// An older value may show where the newer one's file is set aside.
			if kind != "tsm" {
				fail("%s = %s, want %s", k, g, v)
			}
			missing++
		}
	}
	for k, v := range got {
		if _, ok := d.want[k]; ok {
			continue
		}
		fail("%s = %s was never written, or was deleted", k, v)
	}
	_, message := s.Health()
	if missing == 0 {
		*whole++
	} else if !strings.Contains(message, base) {
		fail("%d values missing, and health says %q", missing, message)
	} else {
		*told++
	}
	if (kind == "tsi" || kind == "MANIFEST" || kind == "copy") && missing > 0 {
		fail("%d values missing", missing)
	}
	if len(got) < len(d.want)/3 {
		fail("only %d of %d values served", len(got), len(d.want))
	}
	if err := (&testStore{Store: s, t: t}).write("db", "m,host=h1,zone=z1 f=-1 99000000"); err != nil {
		fail("write: %v", err)
	}
}
