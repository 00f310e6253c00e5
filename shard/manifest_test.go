package shard

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/binio"
	"tsdbd/internal/identity"
	"tsdbd/model"
)

var update = flag.Bool("update", false, "write golden files of formats that have none")

func exampleManifest() *manifest {
	return &manifest{
		shard: 7, lineage: identity.Lineage{1, 2, 3, 0xfe}, edition: 300, flushed: 1000, next: 12,
		tsm: []fileRecord{
			{number: 9, size: 4096, checksum: 0x0123456789abcdef, minSequence: 1, maxSequence: 500, tombstoneSeq: 450, level: 1},
			{number: 10, size: 512, checksum: 0xfedcba9876543210, minSequence: 501, maxSequence: 1000},
		},
		tsi:        []fileRecord{{number: 11, size: 333, checksum: 42}},
		tombstones: []*tombstone{{sequence: 700, times: model.TimeRange{Min: -5, Max: 1 << 40}, series: roaring.BitmapOf(1, 2, 70000)}},
		removed:    roaring.BitmapOf(3),
	}
}

func TestManifestGolden(t *testing.T) {
	got, err := exampleManifest().encode()
	if err != nil {
		t.Fatal(err)
	}
	const name, page = "testdata/manifest-v2.golden", "../docs/formats/manifest.md"
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

func TestManifestRoundTrip(t *testing.T) {
	for _, m := range []*manifest{exampleManifest(), {shard: 1, next: 1, removed: roaring.New()}} {
		b, err := m.encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeManifest("x", b)
		if err != nil {
			t.Fatal(err)
		}
		again, err := got.encode()
		if err != nil || !bytes.Equal(b, again) {
			t.Errorf("encode after decode differs: %v", err)
		}
		if !reflect.DeepEqual(got.tsm, m.tsm) || got.flushed != m.flushed || !got.removed.Equals(m.removed) {
			t.Errorf("got %+v, want %+v", got, m)
		}
	}
}

// TestManifestDamage cuts and flips a manifest everywhere: always an error that
// names the file, never another manifest.
func TestManifestDamage(t *testing.T) {
	b, err := exampleManifest().encode()
	if err != nil {
		t.Fatal(err)
	}
	f := func(damaged []byte, what string, at int) {
		t.Helper()
		_, err := decodeManifest("dir/MANIFEST", damaged)
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
	b, err := exampleManifest().encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b[12 : len(b)-4])
	f.Fuzz(func(t *testing.T, payload []byte) {
		// Behind a valid checksum, so that the payload's decoder is reached.
		b := append([]byte(manifestMagic), manifestVersion, 0, 0, 0)
		b = append(b, payload...)
		sum := binio.Checksum(b)
		b = append(b, byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24))
		if m, err := decodeManifest("x", b); err == nil {
			if _, err := m.encode(); err != nil {
				t.Fatal(err)
			}
		} else if !errors.Is(err, binio.ErrCorrupt) {
			t.Fatal(err)
		}
	})
}
