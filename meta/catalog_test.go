package meta

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"tsdbd/internal/binio"
	"tsdbd/internal/identity"
	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/model"
)

var update = flag.Bool("update", false, "rewrite golden files")

// sample is a catalog with one of everything.
func sample(t testing.TB) *Data {
	d := empty()
	for _, cmd := range []Command{
		CreateDatabase{Name: "metrics", Policy: &RetentionPolicySpec{Duration: ptr(3 * day)}},
		CreateRetentionPolicy{Database: "metrics", Policy: RetentionPolicySpec{Name: "long", FutureWriteLimit: ptr(hour)}},
		CreateShardGroup{Database: "metrics", Time: 1700000000e9},
		CreateShardGroup{Database: "metrics", Time: 1700100000e9},
		CreateShardGroup{Database: "metrics", Time: 1700200000e9},
		DropShardGroup{Database: "metrics", ID: 3},
		CreateUser{Name: "ann", Hash: "$2a$10$hash", Admin: true},
		SetPrivilege{"ann", "metrics", ReadPrivilege},
		CreateContinuousQuery{"metrics", "cq", "CREATE CONTINUOUS QUERY cq ..."},
		CreateSubscription{"metrics", "long", Subscription{"sub", "ALL", []string{"http://host:1"}}},
		DropShardGroup{Database: "metrics", ID: 1, IfDuration: 3 * day},
		CreateDownsample{"metrics", "autogen", "long", "", "^c", true, []Definition{{Period: Period{Every: hour}, Functions: []string{"mean", "max"}, Where: "host = 'a'", Without: []string{"pod"}}}, 1700100000e9, 0, 0, 0, UseComplete},
		AcceptLoss{[]AcceptedLoss{{Range: model.AllTime, File: "000000000006.wal.damaged-279", ID: "000000000006.wal.damaged-279"}, {Shard: 2, Range: model.TimeRange{Min: 1700092800e9, Max: 1700179200e9 - 1}, File: "00000007.tsm", ID: "OM2QZ6DQ4QGTJDVVKPHDGLTAEP"}}},
		PutBoard{Database: "metrics", Name: "Host", Content: json.RawMessage(`{"version":1,"panels":[]}`), Time: 1700100000e9},
		CompleteWindows{12, 7, []ComputedWindows{{To: int64(hour)}, {Measurement: "cpu", To: int64(hour)}}},
	} {
		next, err := Apply(cmd, d)
		if err != nil {
			t.Fatal(err)
		}
		d = next
	}
	return d
}

// sampleFile is a catalog file of sample with two records: a new shard group; and a
// change that is refused, one that is not, and what was removed.
func sampleFile(t testing.TB) ([]byte, *Data) {
	d := sample(t)
	b, err := encode(nil, d, 0)
	if err != nil {
		t.Fatal(err)
	}
	c := Catalog{logger: slog.New(slog.DiscardHandler)}
	c.data.Store(d)
	for _, cmds := range [][]Command{
		{CreateShardGroup{Database: "metrics", Time: 1700200000e9}},
		{DropShard{ID: 77}, CreateDatabase{Name: "b", WithoutPolicy: true}},
	} {
		for _, cmd := range cmds {
			_ = c.Apply(c.Data().Applied+1, &Change{cmd, c.Data().counters()})
		}
		if len(cmds) > 1 {
			c.Removed(Dropped{Shards: []uint64{3}})
		}
		b = appendRecord(b, c.Data().Index, c.pending)
		c.pending = nil
	}
	return b, c.Data()
}

func TestGoldenFile(t *testing.T) {
	b, after := sampleFile(t)
	name := "testdata/catalog-v9.golden"
	if *update {
		if err := os.WriteFile(name, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, want) {
		t.Errorf("encoding of version 9 has changed:\n%q\n%q", b, want)
	}
	d, _, err := decode(name, want)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := json.Marshal(d)
	have, _ := json.Marshal(after)
	if !bytes.Equal(got, have) {
		t.Errorf("golden file reads as %s", got)
	}
	if d.Database("metrics") == nil {
		t.Error("decoded data has no lookup table")
	}
}

// TestGoldenCold: policies with ages of their own for the cold store have them in the catalog; one
// that has lost its age is written as one that never had any.
func TestGoldenCold(t *testing.T) {
	const name = "testdata/catalog-v9-cold.golden"
	d := mustApply(t, empty(),
		CreateDatabase{Name: "d", Policy: &RetentionPolicySpec{ColdAfter: ptr(7 * day)}},
		CreateRetentionPolicy{Database: "d", Policy: RetentionPolicySpec{Name: "never", ColdAfter: ptr(NeverCold)}},
		CreateRetentionPolicy{Database: "d", Policy: RetentionPolicySpec{Name: "default", ColdAfter: ptr(day)}},
		AlterRetentionPolicy{Database: "d", Policy: RetentionPolicySpec{Name: "default", ColdAfter: ptr(time.Duration(0))}},
	)
	b, err := encode(nil, d, 0)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(name, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, want) || bytes.Count(b, []byte("ColdAfter")) != 2 {
		t.Errorf("encoding of version 9 has changed:\n%q\n%q", b, want)
	}
	read, _, err := decode(name, want)
	if err != nil {
		t.Fatal(err)
	}
	if got := describe(read.Database("d")); got != describe(d.Database("d")) || !strings.Contains(got, "never 0s 168h0m0s 1 cold -1ns") {
		t.Errorf("golden file reads as %s", got)
	}
}

func TestDecodeFindsEveryDamage(t *testing.T) {
	good, after := sampleFile(t)
	base := int(soundCopy(good, after).base)
	second := base + recordOverhead + int(binary.LittleEndian.Uint32(good[base+8:]))
	for i := range good {
		for _, mask := range []byte{0xff, 1} {
			bad := bytes.Clone(good)
			bad[i] ^= mask
			if _, _, err := decode("f", bad); !errors.Is(err, binio.ErrCorrupt) {
				t.Fatalf("byte %d ^ %#x: %v", i, mask, err)
			}
		}
		_, _, err := decode("f", good[:i])
		if i == base || i == second { // an older catalog
			if err != nil {
				t.Fatalf("cut at %d: %v", i, err)
			}
		} else if !errors.Is(err, binio.ErrCorrupt) {
			t.Fatalf("cut at %d: %v", i, err)
		} else if at := fmt.Sprintf("at offset %d", second); i > second && !strings.Contains(err.Error(), at) {
			t.Fatalf("cut at %d: %v, want %s", i, err, at)
		}
	}
	if _, _, err := decode("f", append(bytes.Clone(good), 0)); !errors.Is(err, binio.ErrCorrupt) {
		t.Fatalf("a byte too many: %v", err)
	}
	var corrupt *binio.CorruptError
	_, _, err := decode("f", good[:10])
	if !errors.As(err, &corrupt) || corrupt.Path != "f" {
		t.Errorf("error %v names no file", err)
	}
}

func FuzzDecode(f *testing.F) {
	good, _ := encode(nil, sample(f), 0)
	f.Add(good)
	f.Add(good[:40])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		// With a right checksum, so that the payload is reached.
		if len(b) >= headerLength {
			b = bytes.Clone(b)
			copy(b, fileMagic)
			putHeader(b)
		}
		d, _, err := decode("f", b)
		if err != nil {
			if !errors.Is(err, binio.ErrCorrupt) && !errors.Is(err, binio.ErrVersion) {
				t.Fatalf("unexpected error %v", err)
			}
			return
		}
		again, err := encode(nil, d, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := decode("f", again); err != nil {
			t.Fatalf("what was read cannot be read again: %v", err)
		}
	})
}

func putHeader(b []byte) {
	payload := b[headerLength:]
	var d struct{ Index uint64 }
	_ = json.Unmarshal(payload, &d)
	h, _ := encode(nil, &Data{Index: d.Index}, 0)
	copy(b[8:20], h[8:20])
	for i := range 8 {
		b[20+i] = byte(len(payload) >> (8 * i))
	}
	crc := binio.ChecksumUpdate(binio.Checksum(b[:crcOffset]), payload)
	for i := range 4 {
		b[crcOffset+i] = byte(crc >> (8 * i))
	}
}

// change makes a change and saves it, as a log with one entry for each would.
func change(c *Catalog, cmd Command) (*Data, error) {
	d := c.Data()
	if next, err := Apply(cmd, d); err != nil || next == d {
		return next, err
	}
	if err := c.Apply(d.Applied+1, &Change{cmd, d.counters()}); err != nil {
		return nil, err
	}
	return c.Data(), c.Save()
}

func open(t *testing.T, dir string) *Catalog {
	t.Helper()
	c, err := Open(vfs.OS, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCatalogKeepsChanges(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "meta")
	c := open(t, dir)
	if d := c.Data(); d.Index != 0 || d.Database("a") != nil {
		t.Fatalf("new catalog: %+v", d)
	}
	for i := range 5 {
		if _, err := change(c, CreateDatabase{Name: fmt.Sprint("db", i)}); err != nil {
			t.Fatal(err)
		}
	}
	d, err := change(c, CreateDatabase{Name: "db0"})
	if err != nil || d != c.Data() || d.Index != 5 {
		t.Fatalf("a command without effect: index %d, %v", d.Index, err)
	}
	if _, err := change(c, CreateDatabase{Name: "more"}); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := change(c, CreateDatabase{Name: "x"}); !errors.Is(err, fs.ErrClosed) {
		t.Fatalf("Save after Close: %v", err)
	}
	if c = open(t, dir); len(c.Data().Databases) != 6 || c.Data().Index != 6 {
		t.Fatalf("reopened: %+v", c.Data())
	}
	for _, name := range copyNames {
		st, err := os.Stat(filepath.Join(dir, name))
		if err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v: it holds password hashes", name, st.Mode(), err)
		}
	}
}

func TestCatalogDamage(t *testing.T) {
	prepare := func(t *testing.T) (dir string, paths [2]string) {
		dir = t.TempDir()
		c := open(t, dir)
		for _, cmd := range []Command{CreateDatabase{Name: "a"}, CreateDatabase{Name: "b"}, CreateUser{Name: "root", Admin: true}} {
			if _, err := change(c, cmd); err != nil {
				t.Fatal(err)
			}
		}
		return dir, [2]string{filepath.Join(dir, copyNames[0]), filepath.Join(dir, copyNames[1])}
	}
	flip := func(t *testing.T, name string) {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)-3] ^= 4
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	whole := func(t *testing.T, dir string) {
		t.Helper()
		if d := open(t, dir).Data(); d.Index != 3 || d.Database("b") == nil || !d.AdminExists() {
			t.Fatalf("changes lost: index %d", d.Index)
		}
	}
	for i := range 2 {
		t.Run(fmt.Sprint("copy ", i, " damaged"), func(t *testing.T) {
			dir, paths := prepare(t)
			flip(t, paths[i])
			whole(t, dir)
			flip(t, paths[1-i]) // the first was repaired by Open
			whole(t, dir)
		})
		t.Run(fmt.Sprint("copy ", i, " missing"), func(t *testing.T) {
			dir, paths := prepare(t)
			if err := os.Remove(paths[i]); err != nil {
				t.Fatal(err)
			}
			whole(t, dir)
			flip(t, paths[1-i])
			whole(t, dir)
		})
		t.Run(fmt.Sprint("one missing, ", i, " damaged"), func(t *testing.T) {
			dir, paths := prepare(t)
			if err := os.Remove(paths[1-i]); err != nil {
				t.Fatal(err)
			}
			flip(t, paths[i])
			_, err := Open(vfs.OS, dir, Options{})
			if !errors.Is(err, binio.ErrCorrupt) || !strings.Contains(err.Error(), paths[i]) {
				t.Fatalf("opened with %v", err)
			}
		})
		t.Run(fmt.Sprint("copy ", i, " of a later version"), func(t *testing.T) {
			dir, paths := prepare(t)
			b, err := os.ReadFile(paths[i])
			if err != nil {
				t.Fatal(err)
			}
			b[8]++
			crc := binio.ChecksumUpdate(binio.Checksum(b[:crcOffset]), b[headerLength:soundCopy(b, &Data{}).base])
			for k := range 4 {
				b[crcOffset+k] = byte(crc >> (8 * k))
			}
			if err := os.WriteFile(paths[i], b, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(vfs.OS, dir, Options{}); !errors.Is(err, binio.ErrVersion) {
				t.Fatalf("opened with %v", err)
			}
			if after, _ := os.ReadFile(paths[i]); !bytes.Equal(after, b) {
				t.Fatal("the newer file was overwritten")
			}
		})
	}
	t.Run("both damaged", func(t *testing.T) {
		dir, paths := prepare(t)
		flip(t, paths[0])
		flip(t, paths[1])
		_, err := Open(vfs.OS, dir, Options{})
		if !errors.Is(err, binio.ErrCorrupt) || !strings.Contains(err.Error(), paths[0]) || !strings.Contains(err.Error(), paths[1]) {
			t.Fatalf("opened with %v", err)
		}
	})
	t.Run("missing", func(t *testing.T) {
		if _, err := Open(vfs.OS, t.TempDir(), Options{MustExist: true}); !errors.Is(err, ErrCatalogMissing) {
			t.Fatalf("opened with %v", err)
		}
	})
}

var errDisk = errors.New("input/output error")

// The disk fails from every operation on in turn, writes in the middle: what was
// saved is there after reopening, with or without a power cut, and what was not is
// there wholly or not at all. Once the disk has recovered a Save brings all.
func TestCatalogFailsAtEveryOperation(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 4))
	for n := 1; ; n++ {
		disk := vfstest.New()
		if err := errors.Join(disk.MkdirAll("/data"), disk.SyncDir("/")); err != nil {
			t.Fatal(err)
		}
		c, err := Open(disk, "/data", Options{})
		if err != nil {
			t.Fatal(err)
		}
		start := disk.Ops()
		disk.SetHook(func(op vfstest.Op) error {
			if op.N-start >= n {
				return &vfstest.ShortWrite{Bytes: op.Size / 2, Err: errDisk}
			}
			return nil
		})
		saved := 0
		for saved < 3 {
			if _, err = change(c, CreateDatabase{Name: fmt.Sprint("db", saved)}); err != nil {
				break
			}
			saved++
		}
		disk.SetHook(nil) // the disk recovers
		check := func(left *vfstest.FS, least, most int) {
			for range 2 {
				c, err := Open(left, "/data", Options{})
				if err != nil {
					t.Fatalf("operation %d: %v", n, err)
				}
				if got := len(c.Data().Databases); got < least || got > most {
					t.Fatalf("operation %d: %d databases after reopening, %d saved", n, got, least)
				}
			}
		}
		most := saved
		if err != nil {
			most++
			if !errors.Is(err, errDisk) || !errors.Is(c.Err(), errDisk) || !c.Unsaved() || len(c.Data().Databases) != most {
				t.Fatalf("operation %d: %v, %v, unsaved %v, %d databases of %d", n, err, c.Err(), c.Unsaved(), len(c.Data().Databases), most)
			}
		}
		for _, left := range []*vfstest.FS{disk.Clone(), disk.Crash(rnd, 0), disk.Crash(rnd, 0.5)} {
			check(left, saved, most)
		}
		if serr := c.Save(); serr != nil || c.Err() != nil || c.Unsaved() {
			t.Fatalf("operation %d: saved again: %v, %v", n, serr, c.Err())
		}
		check(disk.Crash(rnd, 0), most, most)
		if err == nil {
			if n < 20 {
				t.Fatalf("only %d operations seen", n)
			}
			return
		}
	}
}

// TestCatalogConcurrentUse saves and reads beside changes.
func TestCatalogConcurrentUse(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir)
	if _, err := change(c, CreateDatabase{Name: "d"}); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := c.Save(); err != nil {
					t.Error(err)
					return
				}
				c.Removed(Dropped{Shards: []uint64{uint64(c.Data().LastShardID)}})
			}
		})
	}
	for i := range 20 {
		d := c.Data()
		if err := c.Apply(d.Applied+1, &Change{CreateShardGroup{Database: "d", Time: int64(i) * int64(week)}, d.counters()}); err != nil {
			t.Error(err)
		}
	}
	close(done)
	wg.Wait()
	if err := c.Save(); err != nil {
		t.Fatal(err)
	}
	if rp, _ := open(t, dir).Data().RetentionPolicy("d", ""); len(rp.ShardGroups) != 20 {
		t.Errorf("%d groups, want 20", len(rp.ShardGroups))
	}
}

// A catalog has a lineage from its first moment to its last, and no other
// directory has it.
func TestLineage(t *testing.T) {
	fs := vfstest.New()
	c, err := Open(fs, "meta", Options{})
	if err != nil {
		t.Fatal(err)
	}
	lineage := c.Data().Lineage
	for _, cmd := range []Command{CreateDatabase{Name: "a"}, CreateDatabase{Name: "b"}, DropDatabase{Name: "a"}} {
		if _, err := change(c, cmd); err != nil {
			t.Fatal(err)
		}
	}
	again, err := Open(fs, "meta", Options{})
	if err != nil {
		t.Fatal(err)
	}
	other, err := Open(vfstest.New(), "meta", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if have := again.Data().Lineage; have != lineage || other.Data().Lineage == lineage {
		t.Errorf("lineage %s, reopened %s, other %s", lineage, have, other.Data().Lineage)
	}
	none := sample(t)
	none.Lineage = identity.Lineage{}
	b, _ := encode(nil, none, 0)
	if _, _, err := decode("f", b); !errors.Is(err, binio.ErrCorrupt) {
		t.Errorf("a catalog without a lineage was read: %v", err)
	}
	if err := Create(fs, "other", none); err == nil {
		t.Error("a catalog without a lineage was made")
	}
}

// The catalog names what was dropped until its directory is gone.
func TestDropped(t *testing.T) {
	fs := vfstest.New()
	c, err := Open(fs, "meta", Options{})
	if err != nil {
		t.Fatal(err)
	}
	apply := func(cmd Command) {
		t.Helper()
		if _, err := change(c, cmd); err != nil {
			t.Fatal(err)
		}
	}
	check := func(databases []uint32, shards []uint64) {
		t.Helper()
		again, err := Open(fs, "meta", Options{})
		if err != nil {
			t.Fatal(err)
		}
		want := Dropped{databases, shards}
		if have := c.Data().Dropped; !reflect.DeepEqual(have, want) || !reflect.DeepEqual(again.Data().Dropped, want) {
			t.Errorf("dropped %v, on disk %v, want %v", have, again.Data().Dropped, want)
		}
	}
	apply(CreateDatabase{Name: "a"})
	apply(CreateDatabase{Name: "b"})
	apply(CreateRetentionPolicy{Database: "b", Policy: RetentionPolicySpec{Name: "rp"}})
	for i := range int64(3) {
		apply(CreateShardGroup{Database: "b", Time: i * int64(30*day)})
	}
	apply(CreateShardGroup{Database: "b", RetentionPolicy: "rp", Time: 0})
	check(nil, nil)
	apply(DropShard{ID: 1})
	apply(DropShardGroup{Database: "b", ID: 2})
	check(nil, []uint64{1, 2})
	c.Removed(Dropped{Shards: []uint64{1}})
	apply(DropRetentionPolicy{Database: "b", Name: "rp"})
	check(nil, []uint64{2, 4})
	apply(DropDatabase{Name: "a"})
	check([]uint32{1}, []uint64{2, 4})
	c.Removed(Dropped{Databases: []uint32{1}, Shards: []uint64{2, 4}})
	apply(CreateDatabase{Name: "c"})
	check(nil, nil)
}

// TestDue: how far continuous queries have come is not worth a Save, but a Save has it.
func TestDue(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir)
	defer c.Close()
	sequence := uint64(0)
	f := func(due bool, cmds ...Command) {
		t.Helper()
		for _, cmd := range cmds {
			sequence++
			if err := c.Apply(sequence, &Change{cmd, c.Data().counters()}); err != nil {
				t.Fatal(err)
			}
		}
		if c.Due() != due || !c.Unsaved() {
			t.Errorf("%T: due %v, want %v, unsaved %v", cmds[len(cmds)-1], c.Due(), due, c.Unsaved())
		}
		if err := c.Save(); err != nil {
			t.Fatal(err)
		}
		if c.Due() || c.Unsaved() {
			t.Error("a Save is due after a Save")
		}
	}
	f(true, CreateDatabase{Name: "d"}, CreateContinuousQuery{"d", "q", "text"})
	f(false, SetContinuousRuns{[]QueryRun{{"d", "q", "text", ContinuousRun{At: 1}}}})
	f(true, CreateRetentionPolicy{Database: "d", Policy: RetentionPolicySpec{Name: "tier"}}, CreateDownsample{Database: "d", From: "autogen", Into: "tier", Definitions: []Definition{{Period: Period{Every: hour}, Functions: []string{"max"}}}})
	f(false, CompleteWindows{ID: 5, Windows: []ComputedWindows{{}}})
	f(true, SetContinuousRuns{[]QueryRun{{"d", "q", "text", ContinuousRun{At: 2}}}}, DropDatabase{Name: "none"}, CreateDatabase{Name: "e"})
	f(true, CreateDatabase{Name: "f"}, SetContinuousRuns{[]QueryRun{{"d", "q", "text", ContinuousRun{At: 3}}}})
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, dir)
	defer again.Close()
	if got := again.Data().Database("d").ContinuousQuery("q").Run.At; got != 3 {
		t.Errorf("run at %d", got)
	}
	if again.Due() {
		t.Error("a Save is due at the start")
	}
}
