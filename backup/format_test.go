package backup

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"tsdbd/exchange"
	"tsdbd/internal/binio"
	"tsdbd/internal/identity"
	"tsdbd/internal/vfs"
	"tsdbd/meta"
	"tsdbd/model"
)

var update = flag.Bool("update", false, "rewrite golden files that do not exist")

// sampleManifest is the manifest of the golden file.
func sampleManifest() *Manifest {
	return &Manifest{
		Version: manifestVersion, Created: time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC), Sequence: 42,
		Filter: exchange.Filter{Database: "d", Range: model.TimeRange{Min: 1, Max: model.MaxTime}},
		Catalog: &meta.Data{
			Lineage: identity.Lineage{1, 2, 3, 0xfe}, Index: 7, LastDatabaseID: 3, LastShardGroupID: 5, LastShardID: 5,
			Databases: []*meta.Database{{
				ID: 3, Name: "d", DefaultRetentionPolicy: "autogen",
				RetentionPolicies: []*meta.RetentionPolicy{{
					Name: "autogen", ShardGroupDuration: 7 * 24 * time.Hour, ReplicaN: 1,
					ShardGroups: []*meta.ShardGroup{{ID: 5, Start: 0, End: 1e9, Shards: []meta.Shard{{ID: 5}}}},
				}},
			}},
		},
		Shards: []ShardManifest{{ID: 5, Database: 3, Manifest: []byte("manifest"), Files: []File{
			{Name: "00000001.tsm", Object: Object{"0123456789abcdef-1000-1-2a-0.tsm", 4096}},
			{Name: "00000002.tsi", Object: Object{"fedcba9876543210-200.tsi", 512}},
		}}},
		Series:  []SeriesLog{{Database: 3, Given: 12, Pieces: []Object{{"00000000000000ff-64.series", 100}}}},
		Objects: map[string]string{"fedcba9876543210-200.tsi": "aa", "0123456789abcdef-1000-1-2a-0.tsm": "bb", "00000000000000ff-64.series": "cc"},
	}
}

// sampleCold is the manifest of the golden file of a server with a cold store.
func sampleCold() *Manifest {
	m := sampleManifest()
	m.Shards[0].Files[0].Cold = true
	return m
}

// TestManifestGolden keeps backups of version 3 readable forever.
func TestManifestGolden(t *testing.T) {
	testGolden(t, "testdata/manifest-v3.golden", sampleManifest)
	testGolden(t, "testdata/manifest-v3-cold.golden", sampleCold)
}

func testGolden(t *testing.T, name string, sample func() *Manifest) {
	t.Helper()
	b, err := sample().Encode()
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) && *update {
		if err := os.WriteFile(name, b, 0o644); err != nil {
			t.Fatal(err)
		}
		want, err = b, nil
	}
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, want) {
		t.Errorf("a manifest is written otherwise than in version 3:\n%s", b)
	}
	m, err := Decode(name, want)
	if err != nil {
		t.Fatal(err)
	}
	if m.Catalog.Database("d") == nil {
		t.Error("catalog is not usable")
	}
	again, err := m.Encode()
	if err != nil || !bytes.Equal(again, want) {
		t.Errorf("what was read is written otherwise: %v\n%s", err, again)
	}
	if !reflect.DeepEqual(m.Shards, sample().Shards) || m.Bytes() != 4096+512+100 {
		t.Errorf("%+v", m.Shards)
	}
	for i := range want {
		bad := bytes.Clone(want)
		bad[i] ^= 1
		if _, err := Decode(name, bad); err == nil {
			t.Fatalf("byte %d changed and nothing noticed", i)
		}
	}
}

// TestOtherVersions calls a backup of another build older or newer, whatever else has
// changed in it.
func TestOtherVersions(t *testing.T) {
	for version, want := range map[int]string{
		manifestVersion - 1: "x.backup: backup of version 2 was written by an older tsdbd",
		manifestVersion + 1: "x.backup: backup of version 4 was written by a newer tsdbd",
	} {
		for _, spoil := range []func(m *Manifest){func(*Manifest) {}, func(m *Manifest) { m.Catalog = nil }} {
			m := sampleManifest()
			m.Version = version
			spoil(m)
			b, err := m.Encode()
			if err != nil {
				t.Fatal(err)
			}
			_, err = Decode("x.backup", b)
			if !errors.Is(err, binio.ErrVersion) || errors.Is(err, binio.ErrCorrupt) || !strings.Contains(err.Error(), want) {
				t.Errorf("version %d: %v, want %q", version, err, want)
			}
		}
	}
}

// TestPruneOfOtherVersions removes nothing from a place with a backup of another version: it may be
// the only way back.
func TestPruneOfOtherVersions(t *testing.T) {
	s := newServer(t, HandlerOptions{})
	s.someData(t)
	for _, name := range []string{"20200101T000000.000Z", "29990101T000000.000Z"} {
		dir := t.TempDir()
		take(t, s, dir, exchange.Filter{})
		take(t, s, dir, exchange.Filter{})
		m := sampleManifest()
		m.Version = manifestVersion - 1
		b, err := m.Encode()
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name+ManifestSuffix), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		before := files(t, dir)
		_, _, err = OpenRepository(vfs.OS, dir).Prune(t.Context(), 1)
		if !errors.Is(err, binio.ErrVersion) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if after := files(t, dir); !slices.Equal(after, before) {
			t.Errorf("%s: %q, before %q", name, after, before)
		}
	}
}

// TestStrangeNames refuses names that would lead out of a directory.
func TestStrangeNames(t *testing.T) {
	for what, spoil := range map[string]func(m *Manifest){
		"object up":       func(m *Manifest) { m.Shards[0].Files[0].Object.Name = "../0123456789abcdef-1.tsm" },
		"object absolute": func(m *Manifest) { m.Series[0].Pieces[0].Name = "/etc/passwd" },
		"object empty":    func(m *Manifest) { m.Series[0].Pieces[0].Name = "" },
		"object size":     func(m *Manifest) { m.Series[0].Pieces[0].Size = -1 },
		"file up":         func(m *Manifest) { m.Shards[0].Files[0].Name = "../x" },
		"file dots":       func(m *Manifest) { m.Shards[0].Files[0].Name = ".." },
		"file empty":      func(m *Manifest) { m.Shards[0].Files[0].Name = "" },
		"database":        func(m *Manifest) { m.Shards[0].Database = 9 },
		"catalog":         func(m *Manifest) { m.Catalog = nil },
	} {
		m := sampleManifest()
		spoil(m)
		if err := m.check(); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}

func FuzzDecodeBackup(f *testing.F) {
	b, err := sampleManifest().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(manifestMagic))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode("x", b)
		if err == nil && m.check() != nil {
			t.Error("a manifest that does not pass its check")
		}
		// Behind the checksum as well: a manifest made by hand.
		if _, body, ok := bytes.Cut(b, []byte("\n")); ok {
			made := append([]byte(nil), sealed(body)...)
			if _, err := Decode("x", made); err != nil && errors.Is(err, binio.ErrCorrupt) && strings.Contains(err.Error(), "checksum") {
				t.Error(err)
			}
		}
	})
}
