package manifest

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/binio"
	"tsdbd/internal/identity"
	"tsdbd/model"
	"tsdbd/shard/moves"
)

var update = flag.Bool("update", false, "write golden files of formats that have none")

// exampleMoves returns a tag that gets a value in three series, of which two become
// one, and a field that is renamed.
func exampleMoves() []*moves.Move {
	var b moves.Builder
	b.Add(1, 4)
	b.Add(2, 4)
	b.Add(70000, 5)
	pairs, err := b.Pairs()
	if err != nil {
		panic(err)
	}
	none, err := new(moves.Builder).Pairs()
	if err != nil {
		panic(err)
	}
	return []*moves.Move{
		{Sequence: 600, Pairs: pairs, Change: model.Change{Measurement: "cpu", To: "cpu", Set: model.Tags{{Key: "rack", Value: "r1"}}}},
		{Sequence: 800, Pairs: none, Change: model.Change{Measurement: "cpu", To: "cpu", RenameField: model.Rename{From: "us", To: "user"}}},
	}
}

func exampleManifest() *Manifest {
	return &Manifest{
		Shard: 7, Lineage: identity.Lineage{1, 2, 3, 0xfe}, Edition: 300, Flushed: 1000, Next: 12,
		TSM: []File{
			{Name: TSMName(9), Size: 4096, Checksum: 0x0123456789abcdef, MinSequence: 1, MaxSequence: 500, TombstonesSequence: 450, Level: 1, Gone: roaring.BitmapOf(1, 70000)},
			{Name: TSMName(10), Size: 512, Checksum: 0xfedcba9876543210, MinSequence: 501, MaxSequence: 1000},
		},
		TSI:        []File{{Name: TSIName(11), Size: 333, Checksum: 42}},
		Tombstones: []*Tombstone{{Sequence: 700, Range: model.TimeRange{Min: -5, Max: 1 << 40}, Series: roaring.BitmapOf(1, 2, 70000)}},
		Moves:      exampleMoves(),
		Removed:    roaring.BitmapOf(3),
	}
}

// exampleCold is exampleManifest with a file of which only the tail is in the directory.
func exampleCold() *Manifest {
	m := exampleManifest()
	m.TSM[0].Name = TailName(9)
	return m
}

// TestManifestGolden holds both versions that are written against their bytes, and reads
// them back.
func TestManifestGolden(t *testing.T) {
	golden(t, exampleManifest(), "testdata/manifest-v4.golden")
	want := golden(t, exampleCold(), "testdata/manifest-v5.golden")
	const page = "../../docs/formats/manifest.md"
	// The worked example of the format page is the golden file.
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- golden: begin -->\n", "<!-- golden: end -->"
	head, rest, ok := strings.Cut(string(b), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the example", page)
	}
	text := head + begin + "```\n" + hex.Dump(want) + "```\n" + end + tail
	if *update {
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if text != string(b) {
		t.Errorf("the example in %s differs from the golden file; run with -update", page)
	}
}

// golden compares the bytes of a manifest with those of a file, and returns them.
func golden(t *testing.T, m *Manifest, name string) []byte {
	t.Helper()
	got, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(name); *update && err != nil {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("manifest bytes changed:\n%s\nwant\n%s", hex.Dump(got), hex.Dump(want))
	}
	read, err := Decode(name, want)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(read.TSM, m.TSM, sameFile) {
		t.Errorf("%s names files %+v, want %+v", name, read.TSM, m.TSM)
	}
	return want
}

// sameFile compares files and the sets of their series.
func sameFile(f, g File) bool {
	if (f.Gone == nil) != (g.Gone == nil) || f.Gone != nil && !f.Gone.Equals(g.Gone) {
		return false
	}
	f.Gone, g.Gone = nil, nil
	return f == g
}

func TestManifestRoundTrip(t *testing.T) {
	for _, m := range []*Manifest{exampleManifest(), exampleCold(), New(1, identity.Lineage{})} {
		b, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode("x", b)
		if err != nil {
			t.Fatal(err)
		}
		again, err := got.Encode()
		if err != nil || !bytes.Equal(b, again) {
			t.Errorf("encode after decode differs: %v", err)
		}
		if !slices.EqualFunc(got.TSM, m.TSM, sameFile) || got.Flushed != m.Flushed || !got.Removed.Equals(m.Removed) {
			t.Errorf("got %+v, want %+v", got, m)
		}
	}
}

// TestManifestDamage cuts and flips a manifest everywhere: always an error that
// names the file, never another manifest.
func TestManifestDamage(t *testing.T) {
	b, err := exampleCold().Encode()
	if err != nil {
		t.Fatal(err)
	}
	f := func(damaged []byte, what string, at int) {
		t.Helper()
		_, err := Decode("dir/MANIFEST", damaged)
		if !errors.Is(err, binio.ErrCorrupt) || !strings.Contains(err.Error(), "dir/MANIFEST") {
			t.Fatalf("%s at %d: error %v", what, at, err)
		}
	}
	for i := range b {
		f(b[:i], "cut", i)
		for _, mask := range []byte{1, 0x80, 0xff} {
			c := bytes.Clone(b)
			c[i] ^= mask
			f(c, "flip", i)
		}
	}
	f(append(bytes.Clone(b), 0), "appended", len(b))
}

func FuzzManifest(f *testing.F) {
	for _, m := range []*Manifest{exampleManifest(), exampleCold()} {
		b, err := m.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[8], b[12:len(b)-4])
	}
	f.Fuzz(func(t *testing.T, number byte, payload []byte) {
		// Behind a valid checksum, so that the payload's decoder is reached.
		b := append([]byte(magic), number, 0, 0, 0)
		b = append(b, payload...)
		sum := binio.Checksum(b)
		b = append(b, byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24))
		if m, err := Decode("x", b); err == nil {
			if _, err := m.Encode(); err != nil {
				t.Fatal(err)
			}
		} else if !errors.Is(err, binio.ErrCorrupt) && !(errors.Is(err, binio.ErrVersion) && number != version && number != versionWarm) {
			t.Fatal(err)
		}
	})
}
