package meta

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"tsdbd/internal/binio"
	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/model"
)

// randomChange returns a command of any kind that is mostly accepted, on two databases.
func randomChange(rnd *rand.Rand, d *Data) Command {
	db, rp, user := fmt.Sprint("db", rnd.IntN(2)), fmt.Sprint("rp", rnd.IntN(3)), fmt.Sprint("u\xe9", rnd.IntN(3))
	query, shard := fmt.Sprint("q", rnd.IntN(3)), 1+rnd.Uint64N(d.LastShardID+1)
	for id := range d.Shards() {
		if rnd.IntN(4) == 0 {
			shard = id
			break
		}
	}
	kept := time.Duration(2+rnd.IntN(9)) * day
	switch rnd.IntN(40) {
	case 0:
		return DropDatabase{Name: db}
	case 1:
		return CreateRetentionPolicy{Database: db, Policy: RetentionPolicySpec{Name: rp, Duration: &kept}, Default: rnd.IntN(2) == 0}
	case 2:
		return DropRetentionPolicy{Database: db, Name: rp}
	case 3:
		return DropShard{ID: shard}
	case 4:
		return CreateContinuousQuery{db, query, strings.Repeat("<", rnd.IntN(8000))}
	case 5:
		return DropContinuousQuery{db, query}
	case 6:
		return CreateUser{Name: user, Hash: "$2a$10$hash", Admin: rnd.IntN(2) == 0}
	case 7, 8:
		return CreateShardGroups{Database: db, Times: []int64{rnd.Int64N(1e18), rnd.Int64N(1e18)}}
	case 9:
		return CreateShardGroup{Database: db, RetentionPolicy: rp, Time: -rnd.Int64N(1e18)}
	case 10:
		return AlterRetentionPolicy{Database: db, Policy: RetentionPolicySpec{Name: rp, Duration: &kept, PastWriteLimit: &kept, ColdAfter: &kept}, Shards: FineShardDurations}
	case 11:
		at, _ := d.Shard(shard)
		if at.Group == nil {
			return DropShardGroup{Database: db, ID: shard}
		}
		return DropShardGroup{at.Database.Name, at.Policy.Name, at.Group.ID, at.Policy.Duration * time.Duration(rnd.IntN(2)), rnd.IntN(2) == 0}
	case 12:
		return SetPassword{user, fmt.Sprint("$2a$10$", rnd.Int())}
	case 13:
		return SetAdmin{user, rnd.IntN(2) == 0}
	case 14, 15:
		return SetPrivilege{user, db, Privilege(rnd.IntN(4))}
	case 16:
		return DropUser{user}
	case 17, 18:
		var runs []QueryRun
		if have := d.Database(db); have != nil {
			for _, q := range have.ContinuousQueries {
				runs = append(runs, QueryRun{db, q.Name, q.Query, ContinuousRun{At: rnd.Int64(), LeapTo: rnd.Int64N(2)}})
			}
		}
		return SetContinuousRuns{append(runs, QueryRun{"none", "q", "", ContinuousRun{}})}
	case 19, 20:
		return CreateDownsample{db, "autogen", rp, []string{"", "n"}[rnd.IntN(2)], "", false, []Definition{{Period: Period{Every: time.Duration(1+rnd.IntN(3)) * time.Hour}, Functions: []string{"mean", "max"}, Where: "host = 'a'"}}, rnd.Int64N(2e18), 0, 0, 0, []DownsampleUse{"", UseOff}[rnd.IntN(2)]}
	case 21:
		for have, t := range d.Downsamples() {
			if rnd.IntN(2) == 0 {
				return AlterDownsample{have.Name, t.From, t.Into, Period{Every: time.Duration(1+rnd.IntN(3)) * time.Hour}, []string{"min"}, []string{"max"}, rnd.IntN(2) == 0, rnd.Int64N(2e18), []DownsampleUse{"", UseDefault, UseExpired}[rnd.IntN(3)]}
			}
		}
		for have, t := range d.Downsamples() {
			return DropDownsample{have.Name, t.From, t.Into}
		}
		return DropDownsample{db, "autogen", rp}
	case 22:
		for _, t := range d.Downsamples() {
			return CompleteWindows{t.ID, d.Applied, []ComputedWindows{{From: 1, To: 2, Except: []string{"m"}}}}
		}
		return CompleteWindows{}
	case 23:
		return CreateSubscription{db, "", Subscription{query, "ANY", []string{"udp://h:1", "\xff"}}}
	case 24:
		return DropSubscription{db, "", query}
	case 25:
		return AcceptLoss{[]AcceptedLoss{{0, model.TimeRange{Min: rnd.Int64(), Max: model.MaxTime}, "a.wal", query}, {shard * rnd.Uint64N(2), model.TimeRange{}, "b.tsm", user}}}
	case 26:
		return SetLogFormat{uint8(rnd.IntN(4))}
	}
	return CreateDatabase{Name: db, WithoutPolicy: rnd.IntN(9) == 0}
}

// Random changes are saved by records and by whole copies. What a start reads is what the
// catalog was at the last Save, also if one of the copies is damaged, cut, or gone. Some
// changes are refused, and some come after others that the log has lost.
func TestRecordsAreTheChanges(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testseed.Of(t), 38))
	disk := vfstest.New()
	c, err := Open(disk, "/meta", Options{})
	if err != nil {
		t.Fatal(err)
	}
	var records, whole, opened int
	changed := map[string]bool{} // by the kind of change
	for range 700 {
		for range 1 + rnd.IntN(3) {
			d := c.Data()
			after := d.counters()
			if rnd.IntN(20) == 0 {
				after.Index, after.Shard = after.Index+2, after.Shard+rnd.Uint64N(3)
			}
			cmd := randomChange(rnd, d)
			b, err := (&Change{cmd, after}).encode() // as the log has it
			if err != nil {
				t.Fatal(err)
			}
			ch, err := DecodeCommand(b)
			if err != nil {
				t.Fatal(err)
			}
			if c.Apply(d.Applied+1, ch) == nil && c.Data().Index > d.Index {
				changed[fmt.Sprintf("%T", cmd)] = true
			}
		}
		if gone := c.Data().Dropped; rnd.IntN(3) == 0 {
			c.Removed(Dropped{gone.Databases, gone.Shards[:rnd.IntN(len(gone.Shards)+1)]})
		}
		if rnd.IntN(100) == 0 {
			if err := c.Skip(c.Data().LastDatabaseID+1, c.Data().LastShardID+3); err != nil {
				t.Fatal(err)
			}
		}
		before, unsaved := disk.Content("/meta/catalog.0"), c.Unsaved()
		if err := c.Save(); err != nil {
			t.Fatal(err)
		}
		after := disk.Content("/meta/catalog.0")
		switch {
		case !unsaved:
			if !bytes.Equal(before, after) {
				t.Fatal("a Save without a change writes")
			}
			continue // what was removed waits
		case len(before) > 0 && bytes.HasPrefix(after, before):
			records++
		default:
			whole++
		}
		if s := c.saving.copies; s[0] != s[1] || s[0].size != int64(len(after)) || s[0].size-s[0].base > recordsBytes {
			t.Fatalf("copies of %+v, %d bytes", s, len(after))
		}
		want, _ := json.Marshal(c.Data())
		for _, name := range copyNames {
			d, err := ReadFile(disk, path.Join("/meta", name))
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := json.Marshal(d); !bytes.Equal(got, want) {
				t.Fatalf("%s is read as\n%s\nwant\n%s", name, got, want)
			}
		}
		if rnd.IntN(10) == 0 { // goes on behind the records that are there
			if name := path.Join("/meta", copyNames[rnd.IntN(2)]); rnd.IntN(2) == 0 {
				at := rnd.Int64N(int64(len(after)))
				harm := []func() error{
					func() error { return disk.Flip(name, at, 1<<rnd.IntN(8)) },
					func() error { return disk.Truncate(name, at) },
					func() error { return disk.Remove(name) },
				}[rnd.IntN(3)]
				if err := harm(); err != nil {
					t.Fatal(err)
				}
			}
			if c, err = Open(disk, "/meta", Options{}); err != nil {
				t.Fatal(err)
			}
			if got, _ := json.Marshal(c.Data()); !bytes.Equal(got, want) {
				t.Fatal("opened as another catalog")
			}
			opened++
		}
	}
	if records < 300 || whole < 3 || opened < 20 || len(changed) < 24 {
		t.Errorf("%d records, %d whole copies, %d starts, changes of %v", records, whole, opened, slices.Sorted(maps.Keys(changed)))
	}
}

// An append that fails may leave a copy damaged, and a server that is killed while it exchanges
// a copy for its reserve leaves none. The disk may stay full over a restart. Then a drop goes
// into the reserve. Power cuts at each of its operations find a sound copy.
func TestCrashOfDropBesideTornCopy(t *testing.T) {
	for torn, name := range copyNames {
		for _, then := range []string{"nothing", "restart", "gone and restart"} {
			t.Run(fmt.Sprintf("%s %s", name, then), func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(testseed.Of(t), 6))
				disk := vfstest.New()
				c, err := Open(disk, "/meta", Options{})
				if err != nil {
					t.Fatal(err)
				}
				for i := range 4 {
					if _, err := change(c, CreateDatabase{Name: fmt.Sprint("db", i)}); err != nil {
						t.Fatal(err)
					}
				}
				full := func(op vfstest.Op) error {
					if op.Kind == "write" && !strings.HasPrefix(op.Path, "/meta/reserve.") && (op.Path != "/meta/catalog.0" || torn == 0) {
						return &vfstest.ShortWrite{Bytes: op.Size / 2, Err: syscall.ENOSPC}
					}
					return nil
				}
				disk.SetHook(full)
				if _, err := change(c, CreateDatabase{Name: "more"}); !errors.Is(err, syscall.ENOSPC) {
					t.Fatal(err)
				}
				if _, err := ReadFile(disk, path.Join("/meta", name)); !errors.Is(err, binio.ErrCorrupt) {
					t.Fatalf("%s is not torn: %v", name, err)
				}
				if then == "gone and restart" {
					if err := disk.Remove(path.Join("/meta", name)); err != nil {
						t.Fatal(err)
					}
				}
				if then != "nothing" {
					if c, err = Open(disk, "/meta", Options{}); err != nil {
						t.Fatal(err)
					}
				}
				crashes := 0
				disk.SetHook(func(op vfstest.Op) error {
					for _, keep := range []float64{0, 0.5, 1} {
						again, err := Open(disk.Crash(rnd, keep), "/meta", Options{})
						if err != nil || again.Data().Database("db1") == nil {
							t.Fatalf("before %s of %s, %v kept: %v", op.Kind, op.Path, keep, err)
						}
						crashes++
					}
					return full(op)
				})
				if err := c.Apply(c.Data().Applied+1, &Change{DropDatabase{Name: "db0"}, c.Data().counters()}); err != nil {
					t.Fatal(err)
				}
				if err := c.SaveDrop(); err != nil {
					t.Fatal(err)
				}
				again, err := Open(disk.Clone(), "/meta", Options{})
				if err != nil || again.Data().Database("db0") != nil {
					t.Fatalf("after the drop: %v", err)
				}
				if crashes < 30 {
					t.Errorf("only %d crashes", crashes)
				}
			})
		}
	}
}

// The reserve is enough for a catalog whose changes are in records, and does not grow with
// each drop that goes into it.
func TestReserveBesideRecords(t *testing.T) {
	disk := vfstest.New()
	c, err := Open(disk, "/meta", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := change(c, CreateDatabase{Name: "d"}); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		times := make([]int64, 400) // a short command for many groups
		for k := range times {
			times[k] = int64(i*len(times)+k) * int64(week)
		}
		if _, err := change(c, CreateShardGroups{Database: "d", Times: times}); err != nil {
			t.Fatal(err)
		}
		if b, _ := AppendFile(nil, c.Data()); reserve(disk) < len(b) {
			t.Fatalf("a reserve of %d bytes for a catalog of %d", reserve(disk), len(b))
		}
	}
	for i := range 6 {
		disk.SetHook(func(op vfstest.Op) error {
			if op.Kind == "write" && !strings.HasPrefix(op.Path, "/meta/reserve.") {
				return &vfstest.ShortWrite{Err: syscall.ENOSPC}
			}
			return nil
		})
		if err := c.Apply(c.Data().Applied+1, &Change{DropShard{ID: uint64(1 + i)}, c.Data().counters()}); err != nil {
			t.Fatal(err)
		}
		if err := c.SaveDrop(); err != nil {
			t.Fatal(err)
		}
		disk.SetHook(nil)
		if _, err := change(c, CreateUser{Name: fmt.Sprint("u", i)}); err != nil {
			t.Fatal(err)
		}
	}
	b, _ := AppendFile(nil, c.Data())
	if n := reserve(disk); n < len(b) || n > 4*len(b) {
		t.Errorf("a reserve of %d bytes for a catalog of %d", n, len(b))
	}
}

// The reserve is enough for many new databases, whose commands are shorter than they are.
func TestReserveBesideShortCommands(t *testing.T) {
	disk := vfstest.New()
	c, err := Open(disk, "/meta", Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		for k := range 50 {
			d := c.Data()
			if err := c.Apply(d.Applied+1, &Change{CreateDatabase{Name: fmt.Sprint("d", i, ".", k)}, d.counters()}); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Save(); err != nil {
			t.Fatal(err)
		}
		if b, _ := AppendFile(nil, c.Data()); reserve(disk) < len(b) {
			t.Fatalf("a reserve of %d bytes for a catalog of %d", reserve(disk), len(b))
		}
	}
}

// A change that is made while a Save begins is not in its files, for BeforeSave did not see
// it, and is in those of the next.
func TestChangeDuringSave(t *testing.T) {
	disk := vfstest.New()
	var c *Catalog
	var late Command
	c, err := Open(disk, "/meta", Options{BeforeSave: func() error {
		cmd := late
		if late = nil; cmd == nil {
			return nil
		}
		return c.Apply(c.Data().Applied+1, &Change{cmd, c.Data().counters()})
	}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 { // the first writes whole copies
		saved, unsaved := fmt.Sprint("a", i), fmt.Sprint("b", i)
		late = CreateDatabase{Name: unsaved}
		if _, err := change(c, CreateDatabase{Name: saved}); err != nil {
			t.Fatal(err)
		}
		d, err := ReadFile(disk, "/meta/catalog.1")
		if err != nil || d.Database(saved) == nil || d.Database(unsaved) != nil || !c.Unsaved() {
			t.Fatalf("round %d: %+v, %v", i, d, err)
		}
	}
	if err := c.Save(); err != nil {
		t.Fatal(err)
	}
	if d, err := ReadFile(disk, "/meta/catalog.1"); err != nil || len(d.Databases) != 6 {
		t.Errorf("%+v, %v", d, err)
	}
}

// Damage of a record, also of the last, is found by Check and at a start. The other copy is
// used, and both are written anew. Damage of both is told with files and offsets.
func TestDamagedRecord(t *testing.T) {
	prepare := func() (*vfstest.FS, *Catalog) {
		disk := vfstest.New()
		c, err := Open(disk, "/meta", Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			if _, err := change(c, CreateDatabase{Name: fmt.Sprint("db", i)}); err != nil {
				t.Fatal(err)
			}
		}
		return disk, c
	}
	flip := func(disk *vfstest.FS, name string, at int) {
		if err := disk.Flip(name, int64(at), 1); err != nil {
			t.Fatal(err)
		}
	}
	disk, c := prepare()
	s := c.saving.copies[0]
	for _, at := range []int64{s.base, s.base + 20, s.size - 1} {
		for _, name := range copyNames {
			disk, c := prepare()
			flip(disk, path.Join("/meta", name), int(at))
			damage, err := c.Check()
			if err != nil || len(damage) != 1 || !strings.Contains(damage[0].Error(), name) {
				t.Fatalf("damage of %s at %d: %v, %v", name, at, damage, err)
			}
			if damage, err = c.Check(); err != nil || len(damage) > 0 {
				t.Fatalf("after the repair: %v, %v", damage, err)
			}
			flip(disk, path.Join("/meta", name), len(disk.Content("/meta/catalog.0"))-1)
			for range 2 {
				again, err := Open(disk, "/meta", Options{})
				if err != nil || len(again.Data().Databases) != 4 {
					t.Fatalf("damage of %s: %v", name, err)
				}
			}
		}
	}
	flip(disk, "/meta/catalog.0", int(s.base)+20)
	flip(disk, "/meta/catalog.1", int(s.size)-1)
	_, err := Open(disk, "/meta", Options{})
	if !errors.Is(err, binio.ErrCorrupt) || !strings.Contains(err.Error(), fmt.Sprintf("/meta/catalog.0 at offset %d", s.base)) ||
		!strings.Contains(err.Error(), "/meta/catalog.1 at offset ") {
		t.Errorf("both damaged: %v", err)
	}
}

// A copy that has lost its last record whole, or that somebody has replaced by an older one,
// is found by Check. The next Save would append behind its end.
func TestOlderCopy(t *testing.T) {
	for _, name := range copyNames {
		disk := vfstest.New()
		c, err := Open(disk, "/meta", Options{})
		if err != nil {
			t.Fatal(err)
		}
		var older []byte
		for i := range 4 {
			older = disk.Content("/meta/catalog.0")
			if _, err := change(c, CreateDatabase{Name: fmt.Sprint("db", i)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := disk.Put(path.Join("/meta", name), older); err != nil {
			t.Fatal(err)
		}
		damage, err := c.Check()
		if err != nil || len(damage) != 1 || !errors.Is(damage[0], binio.ErrCorrupt) || !strings.Contains(damage[0].Error(), name) {
			t.Fatalf("%s: %v, %v", name, damage, err)
		}
		if damage, err := c.Check(); err != nil || len(damage) > 0 {
			t.Fatalf("%s after the repair: %v, %v", name, damage, err)
		}
		if d, err := ReadFile(disk, path.Join("/meta", name)); err != nil || len(d.Databases) != 4 {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// growing is a disk where a file gets its last bytes once it was read.
type growing struct {
	*vfstest.FS
	rest func()
}

func (g growing) Stat(name string) (os.FileInfo, error) {
	g.rest()
	return g.FS.Stat(name)
}

// A copy that is read while a record is appended to it is read again.
func TestReadBesideAppend(t *testing.T) {
	file, after := sampleFile(t)
	for _, part := range []int{len(file) - 1, len(file) - 100} {
		disk := vfstest.New()
		put := func(b []byte) {
			if err := errors.Join(disk.MkdirAll("/meta"), disk.Put("/meta/catalog.0", b)); err != nil {
				t.Fatal(err)
			}
		}
		put(file[:part])
		if d, err := ReadFile(growing{disk, func() { put(file) }}, "/meta/catalog.0"); err != nil || d.Index != after.Index {
			t.Errorf("%d of %d bytes: %v", part, len(file), err)
		}
		put(file[:part])
		if _, err := ReadFile(disk, "/meta/catalog.0"); !errors.Is(err, binio.ErrCorrupt) {
			t.Errorf("%d of %d bytes stay: %v", part, len(file), err)
		}
	}
}

// TestLostSector: a last record of which the power cut has left a sector out is torn. Other damage
// is damage, whatever it is in.
func TestLostSector(t *testing.T) {
	b, _ := sampleFile(t)
	d, s, err := decode("f", b)
	if err != nil {
		t.Fatal(err)
	}
	changes, err := EncodeCommand(CreateUser{Name: strings.Repeat("u", 1500), Hash: "$2a$10$hash"}, d)
	if err != nil {
		t.Fatal(err)
	}
	changes = append(binary.AppendUvarint(binary.AppendUvarint(nil, d.Applied+1), uint64(len(changes))), changes...)
	at := len(b)
	b = appendRecord(b, d.Index+1, changes)
	if _, _, err := decode("f", b); err != nil {
		t.Fatal(err)
	}
	zeros := func(lo, hi int) []byte {
		bad := bytes.Clone(b)
		clear(bad[lo:hi])
		return bad
	}
	next := at - at%sector + sector
	flipped := bytes.Clone(b)
	flipped[next+7] ^= 1
	for _, c := range []struct {
		what string
		b    []byte
		torn bool
	}{
		{"all of it", zeros(at, len(b)), true},
		{"its head", zeros(at, next), true},
		{"a sector in the middle", zeros(next, next+sector), true},
		{"its end", zeros(next+2*sector, len(b)), true},
		{"less than a sector", zeros(next, next+sector-1), false},
		{"a bit", flipped, false},
		{"the record before it", zeros(int(s.base), at), false},
	} {
		got, _, err := decode("f", c.b)
		if !errors.Is(err, binio.ErrCorrupt) || errors.Is(err, ErrTorn) != c.torn || c.torn && got.Index != d.Index {
			t.Errorf("without %s: %v", c.what, err)
		}
	}
}

// Of a copy that is torn, what was saved counts if there is no other.
func TestTornCopyAlone(t *testing.T) {
	for _, other := range []string{"missing", "damaged", "torn"} {
		for cut := int64(1); cut < 40; cut += 3 {
			disk := vfstest.New()
			c, err := Open(disk, "/meta", Options{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 4 {
				if _, err := change(c, CreateDatabase{Name: fmt.Sprint("db", i)}); err != nil {
					t.Fatal(err)
				}
			}
			size := c.saving.copies[0].size
			err = disk.Truncate("/meta/catalog.0", size-cut)
			switch other {
			case "missing":
				err = errors.Join(err, disk.Remove("/meta/catalog.1"))
			case "damaged":
				err = errors.Join(err, disk.Flip("/meta/catalog.1", 50, 1))
			case "torn":
				err = errors.Join(err, disk.Truncate("/meta/catalog.1", size-2))
			}
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second finds two whole copies
				again, err := Open(disk, "/meta", Options{})
				if err != nil || len(again.Data().Databases) != 3 || again.Unsaved() {
					t.Fatalf("%d bytes cut, the other copy %s: %v", cut, other, err)
				}
			}
			if _, err := ReadFile(disk, "/meta/catalog.1"); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// FuzzRecord reads records of any changes behind a sound catalog, with right checksums.
func FuzzRecord(f *testing.F) {
	base, _ := encode(nil, sample(f), 0)
	golden, _ := sampleFile(f)
	for at := len(base); at < len(golden); {
		n := int(golden[at+8]) | int(golden[at+9])<<8
		f.Add(uint64(golden[at]), golden[at+recordHeader:][:n])
		at += n + recordOverhead
	}
	f.Fuzz(func(t *testing.T, sequence uint64, changes []byte) {
		file := appendRecord(slices.Clone(base), sequence, changes)
		d, s, err := decode("f", file)
		if err != nil {
			if !errors.Is(err, binio.ErrCorrupt) && !errors.Is(err, binio.ErrVersion) {
				t.Fatalf("unexpected error %v", err)
			}
			return
		}
		if d.Index != sequence || s.size != int64(len(file)) {
			t.Fatalf("index %d of %d, %+v", d.Index, sequence, s)
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

// TestCrashOfRepair cuts the power before each operation of an Open that replaces a torn
// copy. The next Open leaves no file over.
func TestCrashOfRepair(t *testing.T) {
	disk := vfstest.New()
	c, err := Open(disk, "/meta", Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if _, err := change(c, CreateDatabase{Name: fmt.Sprint("db", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := disk.Truncate("/meta/catalog.0", c.saving.copies[0].size-1); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(testseed.Of(t), 0))
	left := []*vfstest.FS{}
	disk.SetHook(func(vfstest.Op) error {
		for _, keep := range []float64{0, 0.5, 1} {
			left = append(left, disk.Crash(r, keep))
		}
		return nil
	})
	if _, err := Open(disk, "/meta", Options{}); err != nil {
		t.Fatal(err)
	}
	disk.SetHook(nil)
	if len(left) < 15 {
		t.Errorf("only %d power cuts", len(left))
	}
	for i, fs := range left {
		if c, err := Open(fs, "/meta", Options{}); err != nil || len(c.Data().Databases) != 2 {
			t.Errorf("cut %d: %v", i, err)
		}
		for _, name := range fs.Files() {
			if strings.HasSuffix(name, ".tmp") {
				t.Errorf("cut %d: %s is left over", i, name)
			}
		}
	}
}
