package inspect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tsdbd/internal/binio"
	"tsdbd/internal/vfs"
	"tsdbd/store"
)

// TestOtherVersions gives one file of each format another version, with the checksum that
// belongs to it: the store and the check call it older or newer and not damaged, name the
// ways to bring older data over, and change nothing.
func TestOtherVersions(t *testing.T) {
	clean := testData(t)
	reopen(t, clean)
	le := binary.LittleEndian
	u32 := func(at int) func(b []byte, to uint32) {
		return func(b []byte, to uint32) { le.PutUint32(b[at:], to) }
	}
	// sum stores the checksum of b[:at] at at.
	sum := func(at int) func(b []byte) {
		return func(b []byte) { le.PutUint32(b[at:], binio.Checksum(b[:at])) }
	}
	for name, c := range map[string]struct {
		file    string
		version func(b []byte, to uint32)
		sum     func(b []byte)
		known   uint32
	}{
		"catalog": {"meta/catalog.*", u32(8), func(b []byte) {
			base := b[:32+le.Uint64(b[20:])] // records follow
			le.PutUint32(b[28:], binio.ChecksumUpdate(binio.Checksum(b[:28]), base[32:]))
		}, fileVersion(t, clean, "meta/catalog.0")},
		"ledger": {"meta/ledger", u32(8), sum(28), fileVersion(t, clean, "meta/ledger")},
		// The next version is that of shards with cold files.
		"shard manifest": {"db-1/shard-1/MANIFEST*", u32(8), func(b []byte) { sum(len(b) - 4)(b) }, fileVersion(t, clean, "db-1/shard-1/MANIFEST") + 1},
		"TSM file":       {"db-1/shard-1/*.tsm", func(b []byte, to uint32) { le.PutUint16(b[8:], uint16(to)) }, sum(12), fileVersion(t, clean, "db-1/shard-1/*.tsm")},
		"TSI file": {"db-1/shard-1/*.tsi", func(b []byte, to uint32) { le.PutUint32(b[len(b)-16:], to) }, func(b []byte) {
			at := len(b) - 96
			le.PutUint32(b[len(b)-12:], binio.PlacedChecksum(int64(at), b[at:len(b)-12]))
		}, 0},
		"segment of the log": {"wal/*.wal", u32(8), sum(68), fileVersion(t, clean, "wal/*.wal")},
		"series log":         {"db-1/series/series.log", u32(8), sum(32), fileVersion(t, clean, "db-1/series/series.log")},
	} {
		for _, newer := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, newer %v", name, newer), func(t *testing.T) {
				dir := t.TempDir()
				copyTree(t, clean, dir)
				files, err := filepath.Glob(filepath.Join(dir, c.file))
				if err != nil || len(files) == 0 {
					t.Fatalf("no %s: %v", c.file, err)
				}
				for _, file := range files {
					b, err := os.ReadFile(file)
					if err != nil {
						t.Fatal(err)
					}
					known := c.known
					if known == 0 {
						known = le.Uint32(b[len(b)-16:])
					}
					to := known + 1
					if !newer {
						to = 0
					}
					c.version(b, to)
					c.sum(b)
					if err := os.WriteFile(file, b, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				before := treeSum(t, dir)
				want := []string{name + " of version 0 was written by an older tsdbd", "tsdbd export", "tsdbd import -from"}
				if newer {
					want = []string{"was written by a newer tsdbd; use that version or newer"}
				}
				_, serr := store.Open(dir, store.Options{RetentionInterval: -1})
				_, verr := Verify(t.Context(), dir, VerifyOptions{FS: vfs.OS})
				age := map[bool]State{false: Older, true: Newer}[newer]
				var said strings.Builder
				if r := Unread(dir, verr); r == nil || r.State != age || r.Sound || r.WriteText(&said) != nil || said.String() != fmt.Sprintf("%s: %s\n", dir, strings.ToUpper(string(age))) {
					t.Errorf("the report is %+v, %q", r, &said)
				}
				for what, err := range map[string]error{"open": serr, "verify": verr} {
					if !errors.Is(err, binio.ErrVersion) || errors.Is(err, binio.ErrCorrupt) {
						t.Errorf("%s: %v", what, err)
						continue
					}
					for _, w := range append(want, dir) {
						if !strings.Contains(err.Error(), w) {
							t.Errorf("%s: %v, want %q", what, err, w)
						}
					}
				}
				after := treeSum(t, dir)
				for _, made := range []string{dir, filepath.Join(dir, "LOCK")} {
					delete(before, made)
					delete(after, made)
				}
				if !maps.Equal(before, after) {
					t.Errorf("files changed: %v", diffKeys(before, after))
				}
			})
		}
	}
}

// diffKeys returns what differs between two trees.
func diffKeys(a, b map[string]string) (out []string) {
	for name := range a {
		if a[name] != b[name] {
			out = append(out, name)
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			out = append(out, name)
		}
	}
	return out
}

// fileVersion returns the version at offset 8 of a file.
func fileVersion(t *testing.T, dir, pattern string) uint32 {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no %s: %v", pattern, err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	return binary.LittleEndian.Uint32(b[8:])
}
