package series

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"tsdbd/internal/binio"
	"tsdbd/internal/identity"
	"tsdbd/model"
)

// TestFileOwner opens a series log as that of another database and of
// another data directory: an error that names the file, and no byte changes.
func TestFileOwner(t *testing.T) {
	owner := identity.Database{Lineage: identity.Lineage{1}, ID: 1}
	fs := newFS()
	f := openSeries(t, fs, Options{Identity: owner})
	create(t, f, "m,h=a", "m,h=b")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	log := slices.Clone(fs.Content("db/series.log"))
	if have, err := ReadOwner(fs, "db"); err != nil || have != owner {
		t.Errorf("owner %v, %v", have, err)
	}
	for _, other := range []identity.Database{{Lineage: owner.Lineage, ID: 2}, {Lineage: identity.Lineage{2}, ID: 1}} {
		_, err := Open(fs, "db", Options{Identity: other})
		if !errors.Is(err, identity.ErrForeign) || !strings.Contains(err.Error(), "db/series.log") || !strings.Contains(err.Error(), owner.String()) {
			t.Errorf("opened as %v: %v", other, err)
		}
		if !slices.Equal(fs.Content("db/series.log"), log) {
			t.Error("the log of another database was changed")
		}
	}
	adopted := identity.Database{Lineage: identity.Lineage{3}, ID: 3}
	if err := AdoptLog(fs, "db", adopted); err != nil {
		t.Fatal(err)
	}
	checkKeys(t, openSeries(t, fs, Options{Identity: adopted}), map[model.SeriesID]string{1: "m,h=a", 2: "m,h=b"})
}

// TestIndexOwner puts the index of another database beside a log of the
// same shape: it is rebuilt, not believed.
func TestIndexOwner(t *testing.T) {
	fs := newFS()
	for i, dir := range []string{"db", "other"} {
		f, err := Open(fs, dir, Options{Identity: identity.Database{ID: uint32(i + 1)}})
		if err != nil {
			t.Fatal(err)
		}
		create(t, f, "m,h=a", "m,h=b")
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
		f.mu.stale = true
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	own := fs.Content("db/series.idx")
	foreign := fs.Content("other/series.idx")
	if slices.Equal(own, foreign) {
		t.Fatal("the indexes do not name their databases")
	}
	put(t, fs, "db/series.idx", foreign)
	f := openSeries(t, fs, Options{Identity: identity.Database{ID: 1}})
	if f.mu.index != nil {
		t.Error("the index of another database is in use")
	}
	checkKeys(t, f, map[model.SeriesID]string{1: "m,h=a", 2: "m,h=b"})
}

// TestFileVersion1 refuses a log of version 1 and leaves it as it is.
func TestFileVersion1(t *testing.T) {
	h := append([]byte("tsdbSER\x01"), 1, 0, 0, 0)
	h = binary.LittleEndian.AppendUint32(h, binio.Checksum(h))
	fs := newFS()
	put(t, fs, "db/series.log", slices.Clone(h))
	if _, err := Open(fs, "db", Options{}); err == nil || !strings.Contains(err.Error(), "version 1 was written by an older tsdbd") {
		t.Errorf("version 1: %v", err)
	}
	if !slices.Equal(fs.Content("db/series.log"), h) {
		t.Error("a log of version 1 was changed")
	}
}
