package tsm1

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"tsdbd/model"
	"tsdbd/transfer/tsm1/tsm1test"
)

// TestOpenRefuses says of a directory what it is, and what to give instead.
func TestOpenRefuses(t *testing.T) {
	f := func(want string, files ...string) {
		t.Helper()
		dir := t.TempDir()
		for _, name := range files {
			path := filepath.Join(dir, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(name, "/") {
				write(t, path, []byte("x"))
			}
		}
		if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", files, err, want)
		}
	}
	f("has no data of InfluxDB: give the directory that has data, wal and meta")
	f("has no data of InfluxDB", "a", "b/c")
	f("is a data directory of tsdbd", "LOCK", "meta/catalog.0", "wal/1.wal", "db-1/shard-1/1.tsm")
	f("is one shard: give the directory above", "000000001-000000001.tsm")
	f("is of InfluxDB 3", "catalogs/0", "dbs/x")
	f("is half a copy of a directory of InfluxDB 2.x", "influxd.bolt", "configs")
	f("is the directory meta of InfluxDB", "meta.db")
	f("has segments of a WAL only", "_00001.wal")
	f("has no shards", "data/db/rp/7/fields.idx", "wal/x", "meta/meta.db")
	f("bucket 0123456789abcdef is not known", "data/0123456789abcdef/autogen/7/000000001-000000001.tsm")
	f("is half a copy", "db.rp.00001.00")
	f("move it away", "data/db/rp/7/000000001-000000001.tsm", "meta/meta.db")

	file := filepath.Join(t.TempDir(), "x.tsm")
	write(t, file, nil)
	if _, err := Open(file, Options{}); err == nil || !strings.Contains(err.Error(), "is a file: give the directory") {
		t.Error(err)
	}
	if _, err := Open(filepath.Join(file, "nothing"), Options{}); err == nil {
		t.Error("a directory that is not there was opened")
	}
}

// TestRunning refuses a directory of which a process has a file open.
func TestRunning(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux says which files other processes have open")
	}
	d := newTree(t)
	file, _ := sample()
	d.tsm(t, 1, file.Bytes())
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	opened, err := os.Open(filepath.Join(d.data, "000000001-000000001.tsm"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{opened}
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	_, err = Open(d.root, Options{})
	if !errors.Is(err, ErrRunning) || !strings.Contains(err.Error(), fmt.Sprintf("process %d (", cmd.Process.Pid)) {
		t.Errorf("a file that process %d has open: %v", cmd.Process.Pid, err)
	}
	_ = in.Close()
	_ = cmd.Wait()
	if _, err := Open(d.root, Options{}); err != nil {
		t.Errorf("after the process: %v", err) // this process has the file open, too
	}
	_ = opened.Close()
}

// TestLayouts opens the same shard in all places where it may be.
func TestLayouts(t *testing.T) {
	file, want := sample()
	late := rowsOf(model.Float, 50, 70)
	var log tsm1test.Segment
	log.Write("mem", "f", late)
	logged := cells{}
	logged.put("mem", "f", &late)
	tsm := file.Bytes()

	put := func(dir string, files map[string][]byte) {
		t.Helper()
		for name, b := range files {
			path := filepath.Join(dir, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, path, b)
		}
	}
	const noBolt = "there is no catalog (meta.db)" // of 2.x, whose buckets are named by options
	f := func(name, dir string, opt Options, withLog bool, times model.TimeRange, notes ...string) *Source {
		t.Helper()
		var fo found
		o := fo.options()
		opt.Damage = o.Damage
		s, err := Open(dir, opt)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all := cells{}
		for k, v := range want {
			all[k] = v
		}
		if withLog {
			for k, v := range logged {
				all[k] = v
			}
		}
		if diff := readAll(t, s, model.AllTime, nil).diff(all); diff != "" || len(fo.damage) > 0 {
			t.Errorf("%s: %s %q", name, diff, fo.damage)
		}
		if len(s.Shards()) != 1 {
			t.Fatalf("%s: %d shards", name, len(s.Shards()))
		}
		sh := s.Shards()[0]
		if sh.Database != "db" || sh.Policy != "rp" || sh.ID != 7 || sh.Times != times || sh.TSMBytes == 0 || (sh.WALBytes > 0) != withLog {
			t.Errorf("%s: shard %+v", name, sh)
		}
		if d := s.Catalog().Database("db"); d == nil || d.RetentionPolicy("rp") == nil || d.DefaultRetentionPolicy != "rp" {
			t.Errorf("%s: the catalog has no db.rp", name)
		}
		missing := 0
		for _, n := range notes {
			if n != noBolt && (strings.Contains(n, "not there") || strings.Contains(n, "no directory") || strings.Contains(n, "no catalog")) {
				missing++
			}
		}
		if s.Missing() != missing {
			t.Errorf("%s: %d parts are missing, want %d", name, s.Missing(), missing)
		}
		if len(s.Notes()) != len(notes) {
			t.Errorf("%s: notes %q", name, s.Notes())
		}
		for i, n := range s.Notes() {
			if i < len(notes) && !strings.Contains(n, notes[i]) {
				t.Errorf("%s: note %q, want %q", name, n, notes[i])
			}
		}
		return s
	}
	grouped := model.TimeRange{Min: -1000, Max: 1e6 - 1}
	const one = "/db/rp/7/000000001-000000001.tsm"
	root := map[string][]byte{
		"data" + one: tsm, "data/db/_series/00/index": {1}, "data/db/rp/7/index/0/L0": {1}, "data/db/rp/7/000000002-000000001.tsm.tmp": {1},
		"data/db/rp/8/000000001-000000001.tsm": tsm, "wal/db/rp/7/_00002.wal": log.Bytes, "wal/db/rp/7/_00003.wal": nil, "meta/meta.db": tsm1test.Catalog(),
	}
	dir := t.TempDir()
	put(dir, root)
	s := f("root", dir, Options{}, true, grouped, "1 shards are left out because InfluxDB has dropped them: db.rp/8")
	if v := s.Shards()[0].Values; v < 20 || v > 50 {
		t.Errorf("an estimate of %d values for %d", v, len(want)+1)
	}
	wrapped := tsm1test.Database("db", "rp", tsm1test.Policy("rp", tsm1test.Group(7, 9223371273709551616, -9223372036854775808+20, 0), tsm1test.Group(8, 0, 1, 1)))
	put(dir, map[string][]byte{"meta/meta.db": tsm1test.Message{}.With(5, wrapped).Number(9, 8)})
	f("a group whose start has wrapped around", dir, Options{}, true, model.TimeRange{Min: 10, Max: 70}, "1 shards")
	put(dir, map[string][]byte{"meta/meta.db": tsm1test.Catalog()})
	f("elsewhere", filepath.Join(dir, "data"), Options{WALDir: filepath.Join(dir, "wal"), MetaDir: filepath.Join(dir, "meta")}, true, grouped, "1 shards")
	if err := os.RemoveAll(filepath.Join(dir, "data", "db", "rp", "8")); err != nil {
		t.Fatal(err)
	}
	f("data alone", filepath.Join(dir, "data"), Options{}, false, model.TimeRange{Min: 10, Max: 63}, "no directory of the log was given", "there is no catalog")
	if err := os.RemoveAll(filepath.Join(dir, "meta")); err != nil {
		t.Fatal(err)
	}
	f("without meta", dir, Options{}, true, model.TimeRange{Min: 10, Max: 70}, "there is no catalog")

	// The engine of 2.x, with and without the names of buckets.
	const id = "0123456789abcdef"
	renamed := func(of map[string][]byte) map[string][]byte {
		out := map[string][]byte{}
		for name, b := range of {
			if name != "meta/meta.db" && !strings.Contains(name, "/8/") {
				out["engine/"+strings.Replace(name, "/db/rp/", "/"+id+"/autogen/", 1)] = b
			}
		}
		return out
	}
	dir = t.TempDir()
	put(dir, renamed(root))
	f("buckets by option", dir, Options{Buckets: map[string]string{id: "db/rp"}}, true, model.TimeRange{Min: 10, Max: 70}, noBolt)
	writeBolt(t, filepath.Join(dir, "influxd.bolt"), map[string]map[string]string{
		"bucketsv1":        {"\x01": `{"id":"` + id + `","name":"some bucket","retentionPeriod":172800000000000}`, "\x02": `{"id":"00000000000000ff","name":"empty"}`},
		"dbrpv1":           {"\x01": `{"database":"db","retention_policy":"rp","default":true,"bucket_id":"` + id + `"}`, "\x02": "index"},
		"v1_tsm1_metadata": {"meta.db": string(tsm1test.Message{}.With(5, tsm1test.Database(id, "autogen", tsm1test.Policy("autogen", tsm1test.Group(7, -1000, 1e6, 0)))).Number(9, 7))},
	})
	s = f("bolt", dir, Options{}, true, grouped)
	if rp := s.Catalog().Database("db").RetentionPolicy("rp"); rp.Duration != 48*time.Hour || rp.ShardGroupDuration != 24*time.Hour || s.Catalog().Database("empty") == nil {
		t.Errorf("bolt: policy %+v", rp)
	}
	if s := f("engine", filepath.Join(dir, "engine"), Options{}, true, grouped); len(s.Catalog().Databases) != 2 {
		t.Errorf("engine: %d databases", len(s.Catalog().Databases))
	}
	if _, err := Open(dir, Options{Buckets: map[string]string{"00000000000000ff": "db/rp"}}); err == nil || !strings.Contains(err.Error(), "buckets 00000000000000ff and "+id+" would both become db.rp") {
		t.Errorf("two buckets of one name: %v", err)
	}

	// Backups.
	dir = t.TempDir()
	put(dir, map[string][]byte{
		"meta.00": nil, "meta.01": tsm1test.Catalog(),
		"db.rp.00007.00": tarOf(t, "db/rp/7/000000001-000000001.tsm", string(tsm)), "db.rp.00007.01": tarOf(t, "db/rp/7/000000001-000000001.tombstone", ""),
	})
	f("older backup", dir, Options{}, false, grouped)
	for _, name := range []string{"meta.00", "meta.01"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), "incomplete backup: the catalog (meta) is missing") {
		t.Errorf("a backup without meta: %v", err)
	}
	dir = t.TempDir()
	put(dir, map[string][]byte{
		"20200101T000000Z.manifest": []byte(`{"meta":{"fileName":"20200101T000000Z.meta"},"files":[{"database":"db","policy":"rp","shardID":7,"fileName":"20200101T000000Z.s7.tar.gz","lastModified":5}]}`),
		"20200102T000000Z.manifest": []byte(`{"meta":{"fileName":"20200102T000000Z.meta"},"files":[{"database":"db","policy":"rp","shardID":7,"fileName":"20200102T000000Z.s7.tar.gz","lastModified":6}]}`),
		"20200102T000000Z.meta":     tsm1test.Message{}.With(1, tsm1test.Catalog()), "20200101T000000Z.s7.tar.gz": {1},
		"20200102T000000Z.s7.tar.gz": gzipOf(t, tarOf(t, "db/rp/7/000000001-000000001.tsm", string(tsm))),
	})
	scratch := t.TempDir()
	s = f("portable backup", dir, Options{TempDir: scratch}, false, grouped)
	if v := s.Shards()[0].Values; v < 20 || v > 50 {
		t.Errorf("an estimate of %d values for %d in an archive", v, len(want))
	}
	if left, _ := os.ReadDir(scratch); len(left) > 0 {
		t.Errorf("%d directories are left", len(left))
	}
	archive := s.Shards()[0].archive
	b, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	write(t, archive, b[:len(b)-20])
	var fo found
	s.opt = fo.options()
	if readAll(t, s, model.AllTime, nil); len(fo.damage) != 1 || !strings.HasPrefix(fo.damage[0], fmt.Sprintf("%s:%d: ", filepath.Base(archive), len(b)-20)) {
		t.Errorf("half a backup: %q", fo.damage)
	}
	put(dir, map[string][]byte{"20200103T000000Z.manifest": []byte(`{"files":[{"database":"db","policy":"rp","shardID":9,"fileName":"gone","lastModified":6}]}`)})
	fo = found{}
	if _, err := Open(dir, fo.options()); err != nil || !slices.Contains(fo.damage, "gone:-1: 20200103T000000Z.manifest names it, and it is not there: shard 9 of db.rp is missing") {
		t.Errorf("a missing shard: %v, %q", err, fo.damage)
	}
	put(dir, map[string][]byte{"20200104T000000Z.manifest": []byte(`{"kv":{"fileName":"x.bolt.gz"},"files":[]}`)})
	if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), "has backups of InfluxDB 1.x and of 2.x") {
		t.Errorf("backups of 1.x and of 2.x: %v", err)
	}
}

func tarOf(t *testing.T, name, content string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(content)), Mode: 0o600})
	if _, werr := w.Write([]byte(content)); cmp.Or(err, werr, w.Close()) != nil {
		t.Fatal(err, werr)
	}
	return b.Bytes()
}

func gzipOf(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); cmp.Or(err, w.Close()) != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func writeBolt(t *testing.T, path string, buckets map[string]map[string]string) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for name, values := range buckets {
			b, err := tx.CreateBucket([]byte(name))
			if err != nil {
				return err
			}
			for k, v := range values {
				if err := b.Put([]byte(k), []byte(v)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedBolt: a file of bbolt with wrong bytes is an error, and never a panic.
func TestDamagedBolt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "influxd.bolt")
	writeBolt(t, path, map[string]map[string]string{"bucketsv1": {"\x01": `{"id":"0123456789abcdef","name":"x"}`}})
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	failed := 0
	try := func(bad []byte) {
		write(t, path, bad)
		if _, err := readBolt(path); err != nil {
			failed++
			if errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
		}
	}
	for i := 0; i < len(b); i += 1 + i/64 {
		bad := slices.Clone(b)
		bad[i] ^= 0xff
		try(bad)
		try(b[:i])
	}
	if failed < 20 {
		t.Errorf("%d errors", failed)
	}
}

// TestOldCatalog opens directories whose catalog does not name all shards: those with
// numbers that it has not given come by the names of their directories, others are left
// out unless they are asked for.
func TestOldCatalog(t *testing.T) {
	d := newTree(t)
	file, _ := sample()
	d.tsm(t, 1, file.Bytes())
	for _, at := range []string{"db/rp/8", "db/rp/5", "db/rp/6", "db/new/9", "other/autogen/10"} {
		dir := filepath.Join(d.root, "data", filepath.FromSlash(at))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "000000001-000000001.tsm"), file.Bytes())
	}
	if err := os.MkdirAll(filepath.Join(d.root, "meta"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(d.root, "meta", "meta.db"), tsm1test.Catalog())
	names := func(shards []*Shard) string { return someShards(shards) }
	f := func(want, unnamed string, notes int, opt Options) {
		t.Helper()
		s, err := Open(d.root, opt)
		if err != nil {
			t.Fatal(err)
		}
		if got := names(s.Shards()); got != want || names(s.Unnamed()) != unnamed || !s.Stale() || len(s.Notes()) != notes {
			t.Errorf("shards %s without %s, stale %v, %q", got, names(s.Unnamed()), s.Stale(), s.Notes())
		}
		for _, sh := range s.Shards() {
			if rp := s.Catalog().Database(sh.Database).RetentionPolicy(sh.Policy); rp == nil || sh.Values == 0 || sh.ID != 7 && sh.Times != (model.TimeRange{Min: 10, Max: 63}) {
				t.Errorf("%+v, policy %+v", sh, rp)
			}
		}
	}
	f("db.new/9 db.rp/7 other.autogen/10", "db.rp/5 db.rp/6", 2, Options{})
	f("db.new/9 db.rp/7 db.rp/5 db.rp/8 other.autogen/10", "db.rp/6", 1, Options{Shards: []uint64{5, 8}})
}
