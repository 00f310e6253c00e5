package inspect

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs"
	"tsdbd/lineproto"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/model/scan"
	"tsdbd/store"
)

func newRand(t testing.TB) *rand.Rand {
	seed := testseed.Of(t)
	return rand.New(rand.NewPCG(seed, seed))
}

// treeSum returns the content of a directory tree by path.
func treeSum(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := os.Stat(p)
		if err != nil {
			return err
		}
		if d.IsDir() {
			out[p] = "directory " + st.ModTime().String()
			return nil
		}
		b, err := os.ReadFile(p)
		out[p] = fmt.Sprintf("%x %s", sha256.Sum256(b), st.ModTime())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// testStore opens a store with a database "d" that does nothing by itself.
func testStore(t testing.TB, dir string) *store.Store {
	t.Helper()
	st, err := store.Open(dir, store.Options{RetentionInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	if st.Catalog().Database("d") == nil {
		if err := st.Apply(context.Background(), meta.CreateDatabase{Name: "d"}); err != nil {
			t.Fatal(err)
		}
	}
	return st
}

func write(t testing.TB, st *store.Store, lines string) {
	t.Helper()
	table, err := st.Table("d")
	if err != nil {
		t.Fatal(err)
	}
	var p lineproto.Parser
	var b point.Batch
	if _, err := p.Parse(&b, table, []byte(lines), lineproto.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := st.Write(context.Background(), "d", "", &b); err != nil {
		t.Fatal(err)
	}
}

const week = 7 * 24 * 3600 * 1_000_000_000

func lines(series, rows int, start int64) string {
	var b strings.Builder
	for i := range rows {
		for s := range series {
			fmt.Fprintf(&b, "cpu,host=h%d,region=r%d usage=%g,n=%di,text=\"t%d\" %d\n", s, s%3, float64(i*s)/7, i, i%5, start+int64(i)*1e9)
		}
	}
	return b.String()
}

// testData makes a directory as a server leaves it that was killed: two shards
// with files, a tombstone, and rows and a delete that only the log has.
func testData(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	st := testStore(t, dir)
	write(t, st, lines(20, 300, 10*week)+lines(5, 40, 20*week))
	flush(t, st)
	write(t, st, lines(8, 50, 10*week+400e9))
	flush(t, st)
	err := st.Delete(context.Background(), scan.DeleteRequest{Database: "d", Range: model.TimeRange{Min: 10 * week, Max: 10*week + 9e9}})
	if err != nil {
		t.Fatal(err)
	}
	flush(t, st)
	write(t, st, "mem,host=x free=3i "+fmt.Sprint(int64(20*week+5))+"\n"+lines(3, 10, 20*week+1000e9))
	copied := t.TempDir()
	copyTree(t, dir, copied)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	return copied
}

func flush(t testing.TB, st *store.Store) {
	t.Helper()
	set, err := st.Backup(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	set.Release()
}

func copyTree(t testing.TB, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
}

func verify(t testing.TB, dir string) *VerifyReport {
	t.Helper()
	r, err := Verify(context.Background(), dir, VerifyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestReadingChangesNothing runs every command of the package over a directory
// with work left in its log.
func TestReadingChangesNothing(t *testing.T) {
	dir := testData(t)
	before := treeSum(t, dir)
	if r := verify(t, dir); !r.Sound || r.Entries == 0 || r.Rows == 0 || r.Series != 20 {
		t.Errorf("verify: %+v", r)
	}
	report, err := Report(dir)
	if err != nil {
		t.Fatal(err)
	}
	p := report.Databases[0].RetentionPolicy[0]
	if len(p.Measurements) != 2 || p.Measurements[0].Series != 20 || p.Measurements[1].Series != 1 || p.Shards != 2 {
		t.Errorf("report: %+v", p)
	}
	if tags := p.Measurements[0].Tags; len(tags) != 2 || tags[0] != (TSITag{"host", 20}) || tags[1] != (TSITag{"region", 3}) {
		t.Errorf("tags: %v", tags)
	}
	sum := int64(0)
	for _, m := range p.Measurements {
		sum += m.Bytes
	}
	if sum <= 0 || sum > p.Bytes {
		t.Errorf("measurements have %d bytes, the policy %d", sum, p.Bytes)
	}
	w, err := WAL(vfs.OS, dir+"/wal", true)
	if err != nil || len(w.Damage) > 0 || len(w.Segments) == 0 || len(w.Entries) == 0 {
		t.Errorf("wal: %+v %v", w, err)
	}
	kinds := map[string]int{}
	for _, e := range w.Entries {
		kinds[e.Kind]++
	}
	if kinds["write"] == 0 || kinds["delete"] == 0 {
		t.Errorf("entries: %v", kinds)
	}
	s, err := Series(vfs.OS, dir+"/db-1/series", true)
	if err != nil || s.Series != 20 || len(s.Keys) != 20 {
		t.Errorf("series: %+v %v", s, err)
	}
	x, err := Shard(vfs.OS, dir+"/db-1/shard-1")
	if err != nil {
		t.Fatal(err)
	}
	if len(x.TSM) != 2 || x.TSM[0].Rows != 6000 || len(x.Manifest.Tombstones) == 0 || len(x.TSI) == 0 || len(x.TSI[0].Measurements) != 1 {
		t.Errorf("shard: %+v", x)
	}
	for _, r := range []Texter{report, w, s, x, verify(t, dir)} {
		var text, js bytes.Buffer
		if err := errors.Join(Write(&text, r, false), Write(&js, r, true)); err != nil || text.Len() == 0 {
			t.Errorf("%T: %v", r, err)
		}
		if !json.Valid(js.Bytes()) {
			t.Errorf("%T is no JSON", r)
		}
	}
	if !maps.Equal(before, treeSum(t, dir)) {
		t.Error("the directory has changed")
	}
}

// TestOpenReadsTheLog sees rows that only the log has, and no deleted ones.
func TestOpenReadsTheLog(t *testing.T) {
	st, err := Open(testData(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	v, err := st.View("d", "", model.AllTime)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Release()
	rows := map[string]int{}
	for _, sh := range v.Shards() {
		for _, m := range sh.Measurements() {
			set, err := sh.Select(context.Background(), m, nil)
			if err != nil {
				t.Fatal(err)
			}
			c, err := sh.Scan(context.Background(), scan.Request{Measurement: m, Series: set, Fields: []string{sh.Fields(m)[0].Key}, Range: model.AllTime})
			if err != nil {
				t.Fatal(err)
			}
			for _, ok := c.NextSeries(); ok; _, ok = c.NextSeries() {
				for ch := c.NextChunk(); ch != nil; ch = c.NextChunk() {
					rows[m] += ch.Len()
				}
			}
			if c.Err() != nil {
				t.Fatal(c.Err())
			}
		}
	}
	if want := 20*290 + 5*40 + 8*50 + 3*10; rows["cpu"] != want || rows["mem"] != 1 {
		t.Errorf("rows %v, want cpu %d and mem 1", rows, want)
	}
}

func TestHoldAgainstServer(t *testing.T) {
	dir := t.TempDir()
	st := testStore(t, dir)
	if _, err := Open(dir, nil); !errors.Is(err, ErrInUse) {
		t.Errorf("open beside a server: %v", err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	hold, err := Hold(dir)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Hold(dir) // readers do not mind each other
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(dir, store.Options{}); err == nil {
		t.Error("a server opens a directory that is being read")
	}
	if err := errors.Join(hold.Close(), again.Close()); err != nil {
		t.Fatal(err)
	}
	testStore(t, dir).Close()
}

// files returns the files under dir that match a pattern of their last part.
func files(t testing.TB, dir, pattern string) []string {
	t.Helper()
	var out []string
	for p := range treeSum(t, dir) {
		if ok, _ := filepath.Match(pattern, filepath.Base(p)); ok {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	if len(out) == 0 {
		t.Fatalf("no %s in %s", pattern, dir)
	}
	return out
}

// TestVerifyFindsDamage flips bytes of every kind of file. Each must be told,
// with the file, and where the format allows with an offset near the byte.
func TestVerifyFindsDamage(t *testing.T) {
	clean := testData(t)
	r := newRand(t)
	for _, c := range []struct {
		pattern string
		reach   int64 // how far before the byte the offset may lie; 0: any
		used    func(t *testing.T, name string) int64
	}{
		{"*.tsm", 1 << 17, nil},
		{"*.tsi", 1 << 16, nil},
		{"series.log", 1 << 12, nil},
		{"MANIFEST", 0, nil},
		{"MANIFEST.copy", 0, nil},
		{"catalog.?", 0, nil},
		{"*.wal", 1 << 20, func(t *testing.T, name string) int64 {
			w, err := WAL(vfs.OS, name, false)
			if err != nil {
				t.Fatal(err)
			}
			return w.Segments[0].Used
		}},
	} {
		t.Run(c.pattern, func(t *testing.T) {
			for range 12 {
				dir := t.TempDir()
				copyTree(t, clean, dir)
				list := files(t, dir, c.pattern)
				name := list[r.IntN(len(list))]
				b, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				size := int64(len(b))
				if c.used != nil {
					size = c.used(t, name)
				}
				at := r.Int64N(size)
				b[at] ^= byte(1 + r.IntN(255))
				if err := os.WriteFile(name, b, 0o600); err != nil {
					t.Fatal(err)
				}
				report := verify(t, dir)
				if len(report.Problems) > 40 {
					t.Errorf("%d problems", len(report.Problems))
					report.Problems = report.Problems[:40]
				}
				if c.pattern == "*.wal" {
					// The end of the log cannot be told from a torn write: a notice.
					if len(report.Problems) == 0 {
						t.Errorf("byte %d of %s: nothing found", at, name)
					}
				} else if report.Sound {
					t.Errorf("byte %d of %s: sound, %v", at, name, report.Problems)
				}
				i := slices.IndexFunc(report.Problems, func(p Problem) bool { return p.Path == name })
				if i < 0 {
					t.Errorf("byte %d of %s: not named in %v", at, name, report.Problems)
					continue
				}
				p := report.Problems[i]
				if c.reach > 0 && p.Offset >= 0 && (p.Offset > at+c.reach || p.Offset < at-c.reach) {
					t.Errorf("byte %d of %s: told at %d: %s", at, name, p.Offset, p.Reason)
				}
			}
		})
	}
}

// TestVerifyFindsDisagreement takes files away and exchanges sound ones.
func TestVerifyFindsDisagreement(t *testing.T) {
	clean := testData(t)
	for name, c := range map[string]struct {
		spoil func(t *testing.T, dir string)
		want  string
	}{
		"missing data file":  {func(t *testing.T, dir string) { remove(t, files(t, dir, "*.tsm")[0]) }, "no such file"},
		"missing index file": {func(t *testing.T, dir string) { remove(t, files(t, dir, "*.tsi")[0]) }, "no such file"},
		"missing series file": {func(t *testing.T, dir string) {
			remove(t, dir+"/db-1/series/series.log", dir+"/db-1/series/series.idx")
		}, "no series file"},
		"missing catalog": {func(t *testing.T, dir string) { remove(t, dir+"/meta/catalog.0", dir+"/meta/catalog.1") }, "no catalog"},
		"cut data file": {func(t *testing.T, dir string) {
			if err := os.Truncate(files(t, dir, "*.tsm")[0], 5000); err != nil {
				t.Fatal(err)
			}
		}, "5000 bytes"},
		"another shard's file": {func(t *testing.T, dir string) {
			b, err := os.ReadFile(dir + "/db-1/shard-2/00000001.tsm")
			if err == nil {
				err = os.WriteFile(dir+"/db-1/shard-1/00000001.tsm", b, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, "the manifest says"},
		"another shard's directory": {func(t *testing.T, dir string) {
			if err := errors.Join(os.Rename(dir+"/db-1/shard-1", dir+"/x"), os.Rename(dir+"/db-1/shard-2", dir+"/db-1/shard-1")); err != nil {
				t.Fatal(err)
			}
		}, "manifest of shard 2"},
		"a directory that nobody knows": {func(t *testing.T, dir string) {
			if err := os.Mkdir(dir+"/db-77", 0o700); err != nil {
				t.Fatal(err)
			}
		}, "the catalog does not name this directory"},
		"catalog of another directory": {func(t *testing.T, dir string) {
			other := testData(t)
			for _, n := range []string{"/meta/catalog.0", "/meta/catalog.1"} {
				b, err := os.ReadFile(other + n)
				if err == nil {
					err = os.WriteFile(dir+n, b, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}, "the series log belongs to database 1 of"},
		"a flushed shard gone": {func(t *testing.T, dir string) {
			reopen(t, dir)
			if err := os.RemoveAll(dir + "/db-1/shard-2"); err != nil {
				t.Fatal(err)
			}
		}, "the files of shard 2 are gone"},
		"a database gone": {func(t *testing.T, dir string) {
			reopen(t, dir)
			if err := os.RemoveAll(dir + "/db-1"); err != nil {
				t.Fatal(err)
			}
		}, "the directory is gone"},
		"the end of the series file gone": {func(t *testing.T, dir string) {
			st, err := store.Open(dir, store.Options{RetentionInterval: -1, SegmentBytes: 4 << 10})
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				write(t, st, lines(20, 30, 20*week))
				flush(t, st) // which trims the log
			}
			if err := st.Close(); err != nil {
				t.Fatal(err)
			}
			remove(t, dir+"/db-1/series/series.idx")
			if err := os.Truncate(dir+"/db-1/series/series.log", 36); err != nil { // its header
				t.Fatal(err)
			}
		}, "series log without its end: it lacks"},
		"the log gone": {func(t *testing.T, dir string) {
			if err := os.RemoveAll(dir + "/wal"); err != nil {
				t.Fatal(err)
			}
		}, "is missing, the last of the log"},
		"the end of the log gone": {func(t *testing.T, dir string) {
			list := files(t, dir, "*.wal")
			name := list[len(list)-1]
			b, err := os.ReadFile(name)
			if err == nil {
				clear(b[100:])
				err = os.WriteFile(name, b, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, "are missing at the end of the log"},
		"a foreign segment": {func(t *testing.T, dir string) {
			other := files(t, testData(t), "*.wal")
			list := files(t, dir, "*.wal")
			b, err := os.ReadFile(other[0])
			if err == nil {
				err = os.WriteFile(list[0], b, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, "segment of data directory"},
		"a span of the log set aside": {func(t *testing.T, dir string) {
			if err := os.MkdirAll(dir+"/wal/quarantine", 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(dir+"/wal/quarantine/000000000001.wal.damaged-72", []byte("span"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "a damaged span of the log"},
		"an older copy of a shard": {func(t *testing.T, dir string) {
			old := t.TempDir()
			copyTree(t, dir+"/db-1/shard-1", old)
			st := testStore(t, dir)
			write(t, st, fmt.Sprintf("cpu,host=late v=1 %d", int64(10*week)))
			flush(t, st)
			if err := errors.Join(st.Close(), os.RemoveAll(dir+"/db-1/shard-1"), os.MkdirAll(dir+"/db-1/shard-1", 0o700)); err != nil {
				t.Fatal(err)
			}
			copyTree(t, old, dir+"/db-1/shard-1")
		}, "the manifest of shard 1 is older than the ledger says"},
		"a directory set aside": {func(t *testing.T, dir string) {
			if err := os.MkdirAll(dir+"/quarantine/db-9", 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(dir+"/quarantine/db-9.reason", []byte("unknown"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "set aside by a server: unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			copyTree(t, clean, dir)
			c.spoil(t, dir)
			report := verify(t, dir)
			found := slices.ContainsFunc(report.Problems, func(p Problem) bool { return !p.Notice && strings.Contains(p.Reason, c.want) })
			if report.Sound || !found {
				t.Errorf("no %q in %v", c.want, report.Problems)
			}
		})
	}
}

// reopen opens and closes a store, so that its ledger is up to date.
func reopen(t *testing.T, dir string) {
	t.Helper()
	if err := testStore(t, dir).Close(); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, names ...string) {
	t.Helper()
	for _, n := range names {
		if err := os.Remove(n); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

// TestVerifyNotices tells left-overs apart from damage.
func TestVerifyNotices(t *testing.T) {
	dir := testData(t)
	st := testStore(t, dir)
	for _, cmd := range []meta.Command{meta.CreateDatabase{Name: "dropped"}, meta.DropDatabase{Name: "dropped"}} {
		if err := st.Apply(context.Background(), cmd); err != nil {
			t.Fatal(err)
		}
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	gone, stays := "not in the manifest, a server will remove it or set it aside", "not in the manifest, a server leaves it alone"
	files := map[string]string{"00000099.tsm": gone, "00000099.tsm.tmp": gone, "00000099.tsm.keys": gone, "00000099.tsm.entries": gone, "00000099.tsm.bak": stays}
	for n := range files {
		if err := os.WriteFile(dir+"/db-1/shard-1/"+n, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(dir+"/db-2", 0o700); err != nil {
		t.Fatal(err)
	}
	remove(t, dir+"/meta/catalog.0")
	r := verify(t, dir)
	if !r.Sound || len(r.Problems) != len(files)+2 {
		t.Errorf("%+v", r)
	}
	for _, p := range r.Problems {
		if want, ok := files[path.Base(p.Path)]; ok && (p.Reason != want || !p.Notice) {
			t.Errorf("%+v, want %q", p, want)
		}
	}
}

// A copy of the catalog that ends in a part of a record is what a crash leaves, as long as
// the other copy is whole.
func TestVerifyTornCatalog(t *testing.T) {
	dir := testData(t)
	name := dir + "/meta/catalog.1"
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, append(b, "part"...), 0o600); err != nil {
		t.Fatal(err)
	}
	want := Problem{Path: name, Offset: int64(len(b)), Reason: "the last record has only 4 bytes", Notice: true}
	if r := verify(t, dir); !r.Sound || !slices.Contains(r.Problems, want) {
		t.Errorf("%+v", r)
	}
	remove(t, dir+"/meta/catalog.0")
	want.Notice = false
	if r := verify(t, dir); r.Sound || !slices.Contains(r.Problems, want) {
		t.Errorf("no other copy: %+v", r)
	}
}

// TestVerifyLive checks under a store that writes, flushes and merges.
func TestVerifyLive(t *testing.T) {
	dir := t.TempDir()
	st := testStore(t, dir)
	defer st.Close()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := int64(0); ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			write(t, st, lines(10, 20, 10*week+i*20e9))
			if i%40 == 0 {
				flush(t, st)
			}
		}
	}()
	defer func() { close(stop); <-done }()
	for range 10 {
		set, err := st.Backup(context.Background(), nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Verify(context.Background(), dir, VerifyOptions{Live: set})
		set.Release()
		if err != nil {
			t.Fatal(err)
		}
		if !r.Sound {
			t.Fatalf("%v", r.Problems)
		}
	}
}

// TestVerifySeriesIndex damages the index of a series file, which a server
// would rebuild without a word to its clients.
func TestVerifySeriesIndex(t *testing.T) {
	dir := t.TempDir()
	st := testStore(t, dir)
	write(t, st, lines(3000, 1, 10*week))
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if r := verify(t, dir); !r.Sound || r.Series != 3000 {
		t.Fatalf("%+v", r)
	}
	name := dir + "/db-1/series/series.idx"
	clean, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	r := newRand(t)
	for range 10 {
		b := bytes.Clone(clean)
		at := 4096 + r.IntN(4088) // a slot or the checksum of the first page
		b[at] ^= 1
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		report := verify(t, dir)
		if report.Sound || !slices.ContainsFunc(report.Problems, func(p Problem) bool { return p.Path == name }) {
			t.Errorf("byte %d: %v", at, report.Problems)
		}
	}
}

// TestVerifyQuarantine tells what a server has set aside, and finds nothing
// else wrong with what is left.
func TestVerifyQuarantine(t *testing.T) {
	dir := testData(t)
	name := dir + "/db-1/shard-1/00000001.tsm"
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-20] ^= 1 // in the footer
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	st := testStore(t, dir)
	set, err := st.Backup(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range set.Shards {
		for _, f := range append(e.Manifest.TSM, e.Manifest.TSI...) {
			if _, err := os.Stat(e.Dir + "/" + f.Name); err != nil {
				t.Errorf("a backup would name %s: %v", f.Name, err)
			}
		}
	}
	live, err := Verify(context.Background(), dir, VerifyOptions{Live: set})
	set.Release()
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*VerifyReport{live, verify(t, dir)} {
		if r.Sound || len(r.Problems) != 1 || !strings.Contains(r.Problems[0].Path, "/quarantine/00000001.tsm") || !strings.Contains(r.Problems[0].Reason, "footer") {
			t.Errorf("%+v", r.Problems)
		}
	}
}
