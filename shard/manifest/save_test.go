package manifest

import (
	"bytes"
	"errors"
	"io/fs"
	"testing"

	"tsdbd/internal/binio"
	"tsdbd/internal/identity"
	"tsdbd/internal/vfs/vfstest"
)

// TestReadCopies has two copies in all states: which counts, and which error the
// reader gets. No state changes a file.
func TestReadCopies(t *testing.T) {
	edition := func(n uint64) []byte {
		m := exampleManifest()
		m.Edition = n
		b, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	damaged := edition(9)
	damaged[40] ^= 1
	foreign := sealed(version+1, nil)
	for _, c := range []struct {
		what          string
		first, second []byte // nil: there is no file
		edition       uint64
		check         func(err error) bool
	}{
		{"both are the same", edition(5), edition(5), 5, nil},
		{"the first is newer", edition(6), edition(5), 6, nil},
		{"the second is newer", edition(5), edition(6), 6, nil},
		{"the second is gone", edition(5), nil, 5, nil},
		{"the first is gone", nil, edition(5), 5, nil},
		{"the first is damaged", damaged, edition(5), 5, nil},
		{"the second is damaged", edition(5), damaged, 5, nil},
		{"the first is empty", []byte{}, edition(5), 5, nil},
		{"both are gone", nil, nil, 0, func(err error) bool { return errors.Is(err, fs.ErrNotExist) }},
		{"both are damaged", damaged, damaged[:50], 0, func(err error) bool { return errors.Is(err, binio.ErrCorrupt) }},
		{"one is gone, one damaged", nil, damaged, 0, func(err error) bool { return errors.Is(err, binio.ErrCorrupt) }},
		{"the first has an unknown version", foreign, edition(5), 0, func(err error) bool { return !binio.Damaged(err) }},
		{"the second has an unknown version", edition(5), foreign, 0, func(err error) bool { return !binio.Damaged(err) }},
	} {
		fsys := vfstest.New()
		if err := fsys.MkdirAll("/d"); err != nil {
			t.Fatal(err)
		}
		copies := [][]byte{c.first, c.second}
		for i, b := range copies {
			if b != nil {
				if err := fsys.Put("/d/"+Names[i], b); err != nil {
					t.Fatal(err)
				}
			}
		}
		m, err := Read(fsys, "/d")
		switch {
		case c.check != nil:
			if m != nil || err == nil || !c.check(err) {
				t.Errorf("%s: %+v, %v", c.what, m, err)
			}
		case err != nil || m.Edition != c.edition:
			t.Errorf("%s: %+v, %v; want edition %d", c.what, m, err, c.edition)
		}
		for i, b := range copies {
			if !bytes.Equal(fsys.Content("/d/"+Names[i]), b) {
				t.Errorf("%s: %s changed", c.what, Names[i])
			}
		}
	}
}

// TestSaveAndAdopt saves a manifest and gives it to another data directory: only
// the lineage differs. Damage is not adopted.
func TestSaveAndAdopt(t *testing.T) {
	fsys := vfstest.New()
	if err := fsys.MkdirAll("/d"); err != nil {
		t.Fatal(err)
	}
	m := exampleManifest()
	if err := m.Save(fsys, "/d"); err != nil {
		t.Fatal(err)
	}
	first, second := ReadCopy(fsys, "/d", Names[0]), ReadCopy(fsys, "/d", Names[1])
	if first.Err != nil || second.Err != nil || !bytes.Equal(first.Bytes, second.Bytes) || text(t, first.Manifest) != text(t, m) {
		t.Errorf("saved as %+v and %+v", first, second)
	}
	adopted, err := Adopt(fsys, "/d", first.Bytes, identity.Lineage{9})
	if err != nil {
		t.Fatal(err)
	}
	first, second = ReadCopy(fsys, "/d", Names[0]), ReadCopy(fsys, "/d", Names[1])
	if first.Err != nil || second.Err != nil || !bytes.Equal(first.Bytes, second.Bytes) || text(t, first.Manifest) != text(t, adopted) {
		t.Errorf("saved as %+v and %+v", first, second)
	}
	if adopted.Lineage != (identity.Lineage{9}) {
		t.Errorf("lineage %v", adopted.Lineage)
	}
	if adopted.Lineage = m.Lineage; text(t, adopted) != text(t, m) {
		t.Errorf("adopted as\n%s\nwant\n%s", text(t, adopted), text(t, m))
	}
	if _, err := Adopt(fsys, "/d", first.Bytes[1:], identity.Lineage{9}); !errors.Is(err, binio.ErrCorrupt) {
		t.Errorf("damage adopted: %v", err)
	}
}
