package tsm1

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/transfer/tsm1/catalog"
	"tsdbd/transfer/tsm1/tsm1test"
)

// backup2 is a backup of 2.x that tests write.
type backup2 struct {
	t   *testing.T
	dir string
	doc map[string]any
}

const (
	telegrafID = "0123456789abcdef"
	otherID    = "00000000000000ff"
)

// newBackup2 writes the backup of a server with the buckets telegraf, which is mapped to
// db.rp and has the shards 7 and 8, and other, which has shard 9.
func newBackup2(t *testing.T, compressed bool) *backup2 {
	t.Helper()
	b := &backup2{t, t.TempDir(), map[string]any{"manifestVersion": 2}}
	bolt := filepath.Join(t.TempDir(), "bolt")
	groups := tsm1test.Policy("autogen", tsm1test.Group(7, -1000, 1e6, 0), tsm1test.Group(8, 1e6, 2e6, 0))
	writeBolt(t, bolt, map[string]map[string]string{
		"bucketsv1": {
			"\x01": `{"id":"` + telegrafID + `","name":"telegraf","retentionPeriod":172800000000000}`,
			"\x02": `{"id":"` + otherID + `","name":"other"}`,
		},
		"dbrpv1": {
			"\x01": `{"id":"1","database":"db","retention_policy":"rp","default":false,"virtual":false,"orgID":"o","bucketID":"` + telegrafID + `"}`,
			"\x02": `{"id":"2","database":"db","retention_policy":"stale","default":true,"virtual":false,"orgID":"o","bucketID":"` + telegrafID + `"}`,
		},
		"dbrpdefaultv1": {"odb": "1"},
		"v1_tsm1_metadata": {"meta.db": string(tsm1test.Message{}.With(5, tsm1test.Database(telegrafID, "autogen", groups)).
			With(5, tsm1test.Database(otherID, "autogen", tsm1test.Policy("autogen", tsm1test.Group(9, -1000, 1e6, 0)))).Number(9, 9))},
	})
	kv, err := os.ReadFile(bolt)
	if err != nil {
		t.Fatal(err)
	}
	file, _ := sample()
	b.doc["kv"] = b.put("x.bolt", kv, compressed)
	shard := func(bucket string, id int) map[string]any {
		return b.shard(id, b.put(fmt.Sprintf("x.%d.tar", id), tarOf(t, fmt.Sprintf("%s/autogen/%d/000000001-000000001.tsm", bucket, id), string(file.Bytes())), compressed))
	}
	b.doc["buckets"] = []any{
		bucketDoc(telegrafID, "telegraf", groupDoc(7, -1000, 1e6, shard(telegrafID, 7)), groupDoc(8, 1e6, 2e6, shard(telegrafID, 8))),
		bucketDoc(otherID, "other", groupDoc(9, -1000, 1e6, shard(otherID, 9))),
	}
	b.write("20260101T000000Z.manifest")
	return b
}

func (b *backup2) put(name string, data []byte, compressed bool) map[string]any {
	b.t.Helper()
	if compressed {
		name, data = name+".gz", gzipOf(b.t, data)
	}
	write(b.t, filepath.Join(b.dir, name), data)
	return map[string]any{"fileName": name, "size": len(data), "compression": 1}
}

func (b *backup2) shard(id int, file map[string]any) map[string]any {
	file["id"], file["shardOwners"] = id, []any{}
	return file
}

func groupDoc(id int, start, end int64, shards ...map[string]any) map[string]any {
	return map[string]any{"id": id, "startTime": time.Unix(0, start).UTC(), "endTime": time.Unix(0, end).UTC(), "shards": shards}
}

func bucketDoc(id, name string, groups ...map[string]any) map[string]any {
	return map[string]any{
		"organizationID": "0000000000000001", "organizationName": "o", "bucketID": id, "bucketName": name, "defaultRetentionPolicy": "autogen",
		"retentionPolicies": []any{map[string]any{"name": "autogen", "replicaN": 1, "duration": 48 * time.Hour, "shardGroupDuration": 24 * time.Hour, "shardGroups": groups, "subscriptions": []any{}}},
	}
}

func (b *backup2) write(name string) {
	b.t.Helper()
	doc, err := json.MarshalIndent(b.doc, "", "  ")
	if err != nil {
		b.t.Fatal(err)
	}
	write(b.t, filepath.Join(b.dir, name), doc)
}

// open opens the backup, and returns the shards, what was told, and the damage.
func (b *backup2) open(opt Options) (shards string, s *Source, damage []string, err error) {
	var fo found
	o := fo.options()
	opt.Damage = o.Damage
	s, err = Open(b.dir, opt)
	if err != nil {
		return "", nil, fo.damage, err
	}
	return someShards(s.Shards()), s, fo.damage, nil
}

// TestBucketBackup reads backups of 2.x, compressed and not, also as 2.0 wrote them.
func TestBucketBackup(t *testing.T) {
	_, want := sample()
	for _, form := range []string{"gzip", "none", "2.0"} {
		t.Run(form, func(t *testing.T) {
			b := newBackup2(t, form != "none")
			if form == "2.0" {
				kv, err := os.ReadFile(filepath.Join(b.dir, "x.bolt.gz"))
				if err != nil {
					t.Fatal(err)
				}
				var plain bytes.Buffer
				write(t, filepath.Join(b.dir, "plain.gz"), kv)
				if damage, err := gunzip(t.Context(), &plain, filepath.Join(b.dir, "plain.gz")); damage != nil || err != nil {
					t.Fatal(damage, err)
				}
				var files []any
				for id, bucket := range map[int]string{7: telegrafID, 8: telegrafID, 9: otherID} {
					info, err := os.Stat(filepath.Join(b.dir, fmt.Sprintf("x.%d.tar.gz", id)))
					if err != nil {
						t.Fatal(err)
					}
					files = append(files, map[string]any{
						"organizationID": "0000000000000001", "bucketID": bucket, "shardID": id,
						"fileName": info.Name(), "size": info.Size(), "lastModified": "2021-01-01T00:00:00Z",
					})
				}
				b.doc = map[string]any{"kv": b.put("x.bolt", plain.Bytes(), false), "files": files}
				b.write("20260101T000000Z.manifest")
			}
			scratch := t.TempDir()
			shards, s, damage, err := b.open(Options{TempDir: scratch})
			if err != nil || shards != "db.rp/7 db.rp/8 other.autogen/9" || len(damage) > 0 {
				t.Fatalf("shards %s, damage %q: %v", shards, damage, err)
			}
			if n := s.Notes(); len(n) != 1 || n[0] != "db.stale is a name of the bucket that becomes db.rp: queries have to name that" {
				t.Errorf("notes %q", n)
			}
			if rp := s.Catalog().Database("db").RetentionPolicy("rp"); rp.Duration != 48*time.Hour || s.Catalog().Database("db").DefaultRetentionPolicy != "rp" {
				t.Errorf("policy %+v", rp)
			}
			for _, sh := range s.Shards() {
				if sh.Times.Empty() || sh.Times == model.AllTime || sh.Values < 20 || sh.Values > 50 || (sh.Unpacked > 1000) != (form != "none") {
					t.Errorf("%+v", sh)
				}
				r, err := s.Rows(t.Context(), sh, model.AllTime, nil)
				if err != nil {
					t.Fatal(err)
				}
				if names, _ := os.ReadDir(scratch); len(names) > 0 && runtime.GOOS != "windows" {
					t.Errorf("a kill would leave %s", names[0].Name())
				}
				got := cells{}
				if readRows(t, r, got); got.diff(want) != "" {
					t.Error(got.diff(want))
				}
			}
			if left, _ := os.ReadDir(scratch); len(left) > 0 {
				t.Errorf("%d files are left", len(left))
			}
			if len(damage) > 0 {
				t.Error(damage)
			}
		})
	}
}

// TestBucketBackupWithoutGroups opens backups whose influxd.bolt has no shard groups. Those
// of the manifest count, and the times of the points if there are none there.
func TestBucketBackupWithoutGroups(t *testing.T) {
	b := newBackup2(t, true)
	bolt := filepath.Join(t.TempDir(), "bolt")
	writeBolt(t, bolt, map[string]map[string]string{"bucketsv1": {"\x01": `{"id":"` + telegrafID + `","name":"telegraf"}`, "\x02": `{"id":"` + otherID + `","name":"other"}`}})
	kv, err := os.ReadFile(bolt)
	if err != nil {
		t.Fatal(err)
	}
	b.put("x.bolt", kv, true)
	_, s, damage, err := b.open(Options{})
	if err != nil || len(damage) > 0 || s.Shards()[0].Times != (model.TimeRange{Min: -1000, Max: 1e6 - 1}) {
		t.Fatalf("%+v, %q: %v", s.Shards()[0], damage, err)
	}
	info, err := os.Stat(filepath.Join(b.dir, "x.9.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	b.doc = map[string]any{"kv": b.doc["kv"], "files": []any{map[string]any{"bucketID": otherID, "bucketName": "other", "shardID": 9, "fileName": info.Name(), "size": info.Size()}}}
	b.write("20260101T000000Z.manifest")
	_, s, damage, err = b.open(Options{})
	if err != nil || len(damage) > 0 || len(s.Shards()) != 1 || s.Shards()[0].Times != (model.TimeRange{Min: 10, Max: 63}) {
		t.Errorf("%+v, %q: %v", s.Shards()[0], damage, err)
	}
}

// TestHalfABucketBackup opens backups that lack something. All of them say what it is.
func TestHalfABucketBackup(t *testing.T) {
	remove := func(name string) func(b *backup2) {
		return func(b *backup2) {
			if err := os.Remove(filepath.Join(b.dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	cut := func(name string, n int) func(b *backup2) {
		return func(b *backup2) {
			old, err := os.ReadFile(filepath.Join(b.dir, name))
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(b.dir, name), old[:len(old)-n])
		}
	}
	for _, c := range []struct {
		name       string
		change     func(b *backup2)
		shards     string
		want       []string // of the damage, after all rows are read
		compressed bool
	}{
		{
			"a shard is not there", remove("x.8.tar.gz"), "db.rp/7 other.autogen/9",
			[]string{`x.8.tar.gz:-1: 20260101T000000Z.manifest names it, and it is not there: shard 8 of bucket "telegraf" is missing`},
			true,
		},
		{
			"a shard is cut", cut("x.8.tar.gz", 100), "db.rp/7 db.rp/8 other.autogen/9",
			[]string{"it is half a copy: the file has ", "it is half a copy or damaged: ends after "},
			true,
		},
		{
			"a tar is cut within a file", cut("x.8.tar", 1700), "db.rp/7 db.rp/8 other.autogen/9",
			[]string{"it is half a copy: the file has ", "it is half a copy: 000000001-000000001.tsm ends after "},
			false,
		},
		{
			"a tar is cut behind its files", cut("x.8.tar", 1024), "db.rp/7 db.rp/8 other.autogen/9",
			[]string{"it is half a copy: the file has "},
			false,
		},
		{
			"the names are not there", remove("x.bolt.gz"), "other.autogen/9 telegraf.autogen/7 telegraf.autogen/8",
			[]string{"x.bolt.gz:-1: each bucket becomes a database of its name, mappings to other databases are lost: "},
			true,
		},
		{
			"the names are cut", cut("x.bolt.gz", 50), "other.autogen/9 telegraf.autogen/7 telegraf.autogen/8",
			[]string{"each bucket becomes a database of its name, mappings to other databases are lost: "},
			true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBackup2(t, c.compressed)
			c.change(b)
			var fo found
			s, err := Open(b.dir, fo.options())
			if err != nil {
				t.Fatal(err)
			}
			if got := someShards(s.Shards()); got != c.shards {
				t.Errorf("shards %s, want %s", got, c.shards)
			}
			if len(fo.damage) == 0 {
				t.Error("Open says nothing")
			}
			readAll(t, s, model.AllTime, nil)
			for _, want := range c.want {
				if !slices.ContainsFunc(fo.damage, func(d string) bool { return strings.Contains(d, want) }) {
					t.Errorf("%q, want %q", fo.damage, want)
				}
			}
			for _, sh := range s.Shards() {
				if sh.Times != (model.TimeRange{Min: -1000, Max: 1e6 - 1}) && sh.Times != (model.TimeRange{Min: 1e6, Max: 2e6 - 1}) {
					t.Errorf("%+v", sh)
				}
			}
		})
	}
}

// TestFlippedArchive flips bytes of a compressed tar: each is reported with an offset, and
// none panics.
func TestFlippedArchive(t *testing.T) {
	b := newBackup2(t, true)
	path := filepath.Join(b.dir, "x.7.tar.gz")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(good); i += 1 + i/12 {
		bad := slices.Clone(good)
		bad[i] ^= 0x55
		write(t, path, bad)
		var fo found
		s, err := Open(b.dir, fo.options())
		if err != nil {
			t.Fatalf("byte %d: %v", i, err)
		}
		readAll(t, s, model.AllTime, nil)
		if len(fo.damage) == 0 && i > 9 { // the header has flags and a time that nothing checks
			t.Errorf("byte %d of %d is not reported", i, len(good))
		}
	}
}

// TestManyBucketBackups opens a directory with several backups.
func TestManyBucketBackups(t *testing.T) {
	b := newBackup2(t, true)
	all := b.doc["buckets"].([]any)
	gone := bucketDoc("00000000000000aa", "gone")
	b.doc["buckets"] = append(slices.Clone(all), gone)
	b.write("20260101T000000Z.manifest")
	b.doc["buckets"] = []any{bucketDoc(telegrafID, "telegraf", all[0].(map[string]any)["retentionPolicies"].([]any)[0].(map[string]any)["shardGroups"].([]map[string]any)[0])}
	b.write("20260102T000000Z.manifest")
	shards, s, damage, err := b.open(Options{})
	if err != nil || shards != "db.rp/7 other.autogen/9" || len(damage) > 0 {
		t.Fatalf("%s, %q: %v", shards, damage, err)
	}
	for i, want := range []string{
		"has 2 backups: the newest one of each bucket is used, the newest of all is 20260102T000000Z.manifest",
		`bucket "other" comes from the older 20260101T000000Z.manifest`,
		`bucket "gone" of 20260101T000000Z.manifest is left out`,
	} {
		if i >= len(s.Notes()) || !slices.ContainsFunc(s.Notes(), func(n string) bool { return strings.Contains(n, want) }) {
			t.Errorf("notes %q, want %q", s.Notes(), want)
		}
	}
	// A backup of one bucket alone.
	if err := os.Remove(filepath.Join(b.dir, "20260101T000000Z.manifest")); err != nil {
		t.Fatal(err)
	}
	shards, s, _, err = b.open(Options{})
	if err != nil || shards != "db.rp/7" || len(s.Catalog().Databases) != 1 || !slices.Contains(s.Notes(), "the backup has 1 of the 2 buckets of the server") {
		t.Errorf("%s, %q: %v", shards, s.Notes(), err)
	}
	b.doc["manifestVersion"] = 3
	b.write("20260102T000000Z.manifest")
	if _, _, _, err := b.open(Options{}); err == nil || !strings.Contains(err.Error(), "is a manifest of version 3") {
		t.Error(err)
	}
	write(t, filepath.Join(b.dir, "20260102T000000Z.manifest"), []byte(`{"kv":{"fileNa`))
	if _, _, _, err := b.open(Options{}); err == nil || !strings.Contains(err.Error(), "20260102T000000Z.manifest, it is damaged or half a copy") {
		t.Error(err)
	}
}

// TestBucketNames gives buckets names by option: by id and by name, of buckets that a
// database cannot be named by, and of buckets with one name.
func TestBucketNames(t *testing.T) {
	f := &boltFile{catalog: &catalog.Catalog{}, buckets: []bucket{
		{ID: "0000000000000001", Name: "a/b"}, {ID: "0000000000000002", Name: "twice"}, {ID: "0000000000000003", Name: "twice"}, {ID: "0000000000000004", Name: "a/b/c"}, {ID: "0000000000000005", Name: ".."},
	}}
	for _, c := range []struct {
		names map[string]string
		want  string // of the error, or all places
	}{
		{nil, `2 buckets have names that a database cannot have, give them other names: -bucket 0000000000000004=DATABASE for "a/b/c", -bucket 0000000000000005=DATABASE for ".."`},
		{map[string]string{"a/b/c": "x", "..": "y"}, "would both become twice.autogen: give one of them another name (-bucket 0000000000000003=NAME)"},
		{map[string]string{"a/b/c": "x", "..": "y", "twice": "z"}, `several buckets have the name "twice", name them by their ids: 0000000000000002, 0000000000000003`},
		{map[string]string{"nothing": "x"}, `there is no bucket "nothing"`},
		{map[string]string{"a/b/c": "x", "..": "y/rp", "0000000000000003": "z"}, "a.b twice.autogen z.autogen x.autogen y.rp"},
	} {
		places, err := f.places(c.names)
		got := fmt.Sprint(err)
		if err == nil {
			var all []string
			for _, b := range f.buckets {
				all = append(all, places[b.ID].database+"."+places[b.ID].policy)
			}
			got = strings.Join(all, " ")
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%v: %s, want %s", c.names, got, c.want)
		}
	}
}

// TestUnpackFails unpacks a shard where there is no space, and with a context that is done.
func TestUnpackFails(t *testing.T) {
	b := newBackup2(t, true)
	_, s, _, err := b.open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Rows(ctx, s.Shards()[0], model.AllTime, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that is done: %v", err)
	}
	s.opt.TempDir = filepath.Join(t.TempDir(), "nothing")
	if _, err := s.Rows(t.Context(), s.Shards()[0], model.AllTime, nil); err == nil || !strings.Contains(err.Error(), "unpack "+filepath.Join(b.dir, "x.7.tar.gz")) {
		t.Errorf("no directory for temporary files: %v", err)
	}
}

// TestGroupTimes bounds the times of shard groups to those that there are.
func TestGroupTimes(t *testing.T) {
	f := boltOf([]manifestBucket{{ID: "x", Policies: []manifestPolicy{{Groups: []manifestGroup{{Start: time.Time{}, End: time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC), Shards: []manifestShard{{ID: 3}}}}}}}})
	want := meta.ShardGroup{Start: -1 << 63, End: 1<<63 - 1, Shards: []meta.Shard{{ID: 3}}}
	if got := f.catalog.Databases[0].RetentionPolicies[0].ShardGroups[0]; got.Start != want.Start || got.End != want.End || got.Shards[0] != want.Shards[0] || f.catalog.Largest != 3 {
		t.Errorf("%+v", got)
	}
}
