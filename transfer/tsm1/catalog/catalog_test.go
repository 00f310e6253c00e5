package catalog_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"tsdbd/internal/binio"
	"tsdbd/meta"
	"tsdbd/transfer/tsm1/catalog"
	"tsdbd/transfer/tsm1/tsm1test"
)

// TestCatalog reads a catalog in its three frames, and cut at each byte.
func TestCatalog(t *testing.T) {
	want := &catalog.Catalog{
		Databases: []*meta.Database{{
			Name: "db", DefaultRetentionPolicy: "rp",
			RetentionPolicies: []*meta.RetentionPolicy{{
				Name: "rp", Duration: 48 * time.Hour, ShardGroupDuration: 24 * time.Hour, ReplicaN: 1,
				ShardGroups:   []*meta.ShardGroup{{ID: 7, Start: -1000, End: 1e6, Shards: []meta.Shard{{ID: 7}}}},
				Subscriptions: []meta.Subscription{{Name: "sub", Mode: "ANY", Destinations: []string{"http://a", "http://b"}}},
			}},
			ContinuousQueries: []meta.ContinuousQuery{{Name: "cq", Query: "CREATE CONTINUOUS QUERY"}},
		}},
		Users: []*meta.User{{Name: "ann", Hash: "$2a$10$hash", Admin: true, Privileges: map[string]meta.Privilege{"db": meta.AllPrivileges}}},
	}
	text := func(c *catalog.Catalog) string {
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	plain := tsm1test.Catalog()
	inBackup := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, 0x59590101), uint64(len(plain)))
	inBackup = append(append(inBackup, plain...), "and more"...)
	for name, b := range map[string][]byte{"plain": plain, "backup": inBackup, "portable": tsm1test.Message{}.With(1, plain).Number(2, 1)} {
		path := filepath.Join(t.TempDir(), "meta.db")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := catalog.Read(path); err != nil || text(got) != text(want) || !got.Dropped[8] || got.Largest != 8 {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, text(got), text(want))
		}
	}
	for n := range plain {
		_, err := catalog.Parse(plain[:n])
		if !errors.Is(err, binio.ErrCorrupt) {
			t.Errorf("catalog of %d of %d bytes: %v", n, len(plain), err)
		}
	}
}

// FuzzCatalog reads any catalog.
func FuzzCatalog(f *testing.F) {
	f.Add([]byte(tsm1test.Catalog()))
	f.Add([]byte(tsm1test.Message{}.With(1, tsm1test.Catalog())))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := catalog.Parse(b); err != nil && !errors.Is(err, binio.ErrCorrupt) {
			t.Fatal(err)
		}
	})
}
