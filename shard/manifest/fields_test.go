package manifest

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/binio"
	"tsdbd/internal/identity"
	"tsdbd/model"
)

// sealed returns a payload with the head of a version and a valid checksum.
func sealed(version uint32, payload []byte) []byte {
	b := binary.LittleEndian.AppendUint32([]byte(magic), version)
	b = append(b, payload...)
	return binary.LittleEndian.AppendUint32(b, binio.Checksum(b))
}

// text returns all that a manifest holds.
func text(t *testing.T, m *Manifest) string {
	t.Helper()
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	out := string(b)
	for _, f := range m.TSM {
		if f.Gone != nil {
			out += "\nlacks " + f.Gone.String()
		}
	}
	for _, tomb := range m.Tombstones {
		out += "\nhides " + tomb.Series.String()
	}
	for _, x := range m.Moves {
		_ = x.Pairs.All(func(from, to model.SeriesID) error {
			out += fmt.Sprintf("\nmoves %d to %d", from, to)
			return nil
		})
	}
	return out + "\nremoved " + m.Removed.String()
}

// TestFieldsRoundTrip sets one field at a time: it is read as it was written, and
// no other field changes with it.
func TestFieldsRoundTrip(t *testing.T) {
	plain := text(t, New(1, identity.Lineage{}))
	seen := map[string]string{plain: "nothing"}
	for _, c := range []struct {
		field string
		set   func(m *Manifest)
	}{
		{"shard", func(m *Manifest) { m.Shard = math.MaxUint64 }},
		{"lineage", func(m *Manifest) { m.Lineage = identity.Lineage{15: 0xff} }},
		{"edition", func(m *Manifest) { m.Edition = 1 << 40 }},
		{"flushed", func(m *Manifest) { m.Flushed = 1 << 41 }},
		{"next", func(m *Manifest) { m.Next = 128 }},
		{"a TSM file of zeros", func(m *Manifest) { m.TSM = []File{{Name: TSMName(0)}} }},
		{"number of a TSM file", func(m *Manifest) { m.TSM = []File{{Name: TSMName(123456789)}} }},
		{"size of a TSM file", func(m *Manifest) { m.TSM = []File{{Name: TSMName(1), Size: 1 << 33}} }},
		{"checksum of a TSM file", func(m *Manifest) { m.TSM = []File{{Name: TSMName(1), Checksum: math.MaxUint64}} }},
		{"first sequence of a TSM file", func(m *Manifest) { m.TSM = []File{{Name: TSMName(1), MinSequence: 300}} }},
		{"last sequence of a TSM file", func(m *Manifest) { m.TSM = []File{{Name: TSMName(1), MaxSequence: 300}} }},
		{"tombstones applied to a TSM file", func(m *Manifest) { m.TSM = []File{{Name: TSMName(1), TombstonesSequence: 300}} }},
		{"level of a TSM file", func(m *Manifest) { m.TSM = []File{{Name: TSMName(1), Level: 9}} }},
		{"series gone from a TSM file", func(m *Manifest) { m.TSM = []File{{Name: TSMName(1), Gone: roaring.BitmapOf(7, 1<<30)}} }},
		{"two TSM files in order", func(m *Manifest) { m.TSM = []File{{Name: TSMName(2)}, {Name: TSMName(1)}} }},
		{"number of a TSI file", func(m *Manifest) { m.TSI = []File{{Name: TSIName(3)}} }},
		{"size of a TSI file", func(m *Manifest) { m.TSI = []File{{Name: TSIName(3), Size: 77}} }},
		{"checksum of a TSI file", func(m *Manifest) { m.TSI = []File{{Name: TSIName(3), Checksum: 77}} }},
		{"sequence of a tombstone", func(m *Manifest) { m.Tombstones = []*Tombstone{{Sequence: 5, Series: roaring.New()}} }},
		{"times of a tombstone", func(m *Manifest) {
			m.Tombstones = []*Tombstone{{Range: model.AllTime, Series: roaring.New()}}
		}},
		{"series of a tombstone", func(m *Manifest) {
			m.Tombstones = []*Tombstone{{Series: roaring.BitmapOf(0, math.MaxUint32)}}
		}},
		{"sequence of a move", func(m *Manifest) { m.Moves = exampleMoves()[1:] }},
		{"series of a move", func(m *Manifest) { m.Moves = exampleMoves()[:1] }},
		{"two moves", func(m *Manifest) { m.Moves = exampleMoves() }},
		{"removed series", func(m *Manifest) { m.Removed.AddRange(100, 200_000) }},
	} {
		m := New(1, identity.Lineage{})
		c.set(m)
		want := text(t, m)
		if other, ok := seen[want]; ok {
			t.Errorf("%s: looks like %s", c.field, other)
		}
		seen[want] = c.field
		b, err := m.Encode()
		if err != nil {
			t.Fatalf("%s: %v", c.field, err)
		}
		got, err := Decode("MANIFEST", b)
		if err != nil {
			t.Fatalf("%s: %v", c.field, err)
		}
		if text(t, got) != want {
			t.Errorf("%s: read\n%s\nwritten\n%s", c.field, text(t, got), want)
		}
	}
}

// TestSectionDamage has payloads whose checksum is right and whose content is not,
// as a faulty writer would make them. The offset in the error is that of the
// place where reading ended.
func TestSectionDamage(t *testing.T) {
	head := append([]byte{7}, make([]byte, 16)...) // shard and lineage
	numbers := append(head, 1, 2, 3)               // edition, flushed, next
	with := func(b []byte, more ...byte) []byte { return append(append([]byte(nil), b...), more...) }
	overlong := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}
	disorder, err := roaring.BitmapOf(1, 2, 3).ToBytes()
	if err != nil {
		t.Fatal(err)
	}
	disorder[len(disorder)-2] = 0 // 1, 2, 0
	for _, c := range []struct {
		section string
		payload []byte
		offset  int64 // at least; -1 for a payload that is whole
	}{
		{"whole, with empty lists", with(numbers, 0, 0, 0, 0, 0), -1},
		{"nothing", nil, 12},
		{"a shard of more than 64 bits", overlong, 12},
		{"half a lineage", head[:9], 13},
		{"no edition", head, 29},
		{"no next number", numbers[:19], 31},
		{"no list of TSM files", numbers, 32},
		{"more TSM files than bytes", with(numbers, 200, 1, 0, 0, 0), 32},
		{"a TSM file cut in its checksum", with(numbers, 1, 9, 9, 1, 2, 3, 4, 5), 33},
		{"a TSM file without its gone series", with(numbers, 1, 9, 9, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4), 33},
		{"a TSM file with gone series of garbage", with(numbers, 1, 9, 9, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 3, 1, 2, 3, 0, 0, 0, 0), 50},
		{"a TSI file cut in its size", with(numbers, 0, 1, 9), 33},
		{"more tombstones than bytes", with(numbers, 0, 0, 100, 1), 34},
		{"a tombstone without its series", with(numbers, 0, 0, 1, 5, 0, 0), 35},
		{"a tombstone with half a set", with(numbers, 0, 0, 1, 5, 0, 0, 9, 1, 2), 38},
		{"a tombstone with a set of garbage", with(numbers, 0, 0, 1, 5, 0, 0, 3, 1, 2, 3, 0), 38},
		{"more moves than bytes", with(numbers, 0, 0, 0, 100, 1), 35},
		{"a move of nothing", with(numbers, 0, 0, 0, 1, 5), 35},
		{"a move without its pairs", with(numbers, 0, 0, 0, 1, 5, 0, 0, 0, 0, 0, 0, 0, 0), 44},
		{"a move of a series to itself", with(numbers, 0, 0, 0, 1, 5, 0, 0, 0, 0, 0, 0, 0, 0, 1, 7, 14, 2, 0), 45},
		{"no removed series", with(numbers, 0, 0, 0, 0), 36},
		{"removed series of garbage", with(numbers, 0, 0, 0, 0, 4, 1, 2, 3, 4), 36},
		{"removed series out of order", with(numbers, append([]byte{0, 0, 0, 0, byte(len(disorder))}, disorder...)...), 36},
		{"a byte behind the end", with(numbers, 0, 0, 0, 0, 0, 0), 37},
	} {
		m, err := Decode("d/MANIFEST", sealed(version, c.payload))
		if c.offset < 0 {
			if err != nil || m.Shard != 7 || m.Edition != 1 || m.Flushed != 2 || m.Next != 3 {
				t.Errorf("%s: %+v, %v", c.section, m, err)
			}
			continue
		}
		var damage *binio.CorruptError
		if !errors.As(err, &damage) || damage.Path != "d/MANIFEST" || m != nil {
			t.Errorf("%s: %+v, %v", c.section, m, err)
		} else if size := int64(12 + len(c.payload)); damage.Offset < c.offset || damage.Offset > size {
			t.Errorf("%s: damage at %d of %d, not at %d or later: %v", c.section, damage.Offset, size, c.offset, err)
		}
	}
}

// TestVersionsRefused has manifests of all versions but this one. They are sound,
// so they are not damage: nothing may set them aside or rebuild them.
func TestVersionsRefused(t *testing.T) {
	b, err := exampleCold().Encode()
	if err != nil {
		t.Fatal(err)
	}
	payload := b[len(magic)+4 : len(b)-4]
	if _, err := Decode("d/MANIFEST", sealed(version, payload)); err != nil {
		t.Errorf("this version: %v", err)
	}
	for _, v := range []uint32{0, versionWarm - 1, version + 1, math.MaxUint32} {
		m, err := Decode("d/MANIFEST", sealed(v, payload))
		if m != nil || err == nil || binio.Damaged(err) {
			t.Errorf("version %d: %+v, %v", v, m, err)
		} else if !strings.Contains(err.Error(), "d/MANIFEST") || !strings.Contains(err.Error(), "this one reads versions 4 to 5") {
			t.Errorf("version %d: %v", v, err)
		}
	}
}

// TestHides has a tombstone of sequence 50 and files with rows up to a sequence
// to which tombstones up to another have been applied.
func TestHides(t *testing.T) {
	for _, c := range []struct {
		what          string
		rows, applied uint64
		hidden        bool
	}{
		{"a file of older rows", 49, 0, true},
		{"a file with a row of the same entry", 50, 0, false},
		{"a file with newer rows", 51, 0, false},
		{"a merge that applied older tombstones", 20, 49, true},
		{"a merge that applied this one", 20, 50, false},
		{"a merge that applied newer ones", 20, 51, false},
	} {
		f := File{MaxSequence: c.rows, TombstonesSequence: c.applied}
		if got := (&Tombstone{Sequence: 50}).Hides(&f); got != c.hidden {
			t.Errorf("%s: hidden %v", c.what, got)
		}
	}
}

// TestNumbers reads the numbers of names.
func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		name   string
		number uint64
		ok     bool
	}{
		{TSMName(7), 7, true},
		{TSIName(123456789), 123456789, true},
		{TSMName(8) + ".keys", 8, true},
		{TSIName(9) + ".tmp", 9, true},
		{Name, 0, false},
		{"notes.tsm", 0, false},
		{"-1.tsm", 0, false},
		{"", 0, false},
	} {
		if n, ok := Number(c.name); ok != c.ok || ok && n != c.number {
			t.Errorf("%q: %d, %v", c.name, n, ok)
		}
	}
}

// TestCloneAndHas changes the lists of a copy: the first manifest still names its
// files and no other.
func TestCloneAndHas(t *testing.T) {
	m := exampleManifest()
	c := m.Clone()
	c.TSM[0].Name, c.TSI[0].Name = TSMName(20), TSIName(21)
	for name, want := range map[string][2]bool{
		TSMName(9): {true, false}, TSMName(10): {true, true}, TSIName(11): {true, false},
		TSMName(20): {false, true}, TSIName(21): {false, true}, TSMName(11): {false, false}, "": {false, false},
	} {
		if got := [2]bool{m.Has(name), c.Has(name)}; got != want {
			t.Errorf("%q: named by the manifest and by its copy: %v, want %v", name, got, want)
		}
	}
}
