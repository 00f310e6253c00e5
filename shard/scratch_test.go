package shard

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/shard/manifest"
	"tsdbd/shard/repair"
	"tsdbd/tsm"
)

// TestCrashLeavesNoScratch cuts a flush off while its file has scratch files: the
// next start removes all of it, and nothing else.
func TestCrashLeavesNoScratch(t *testing.T) {
	b := fixed(t)
	b.put(0, 100, 0, 1)
	b.flush()
	named := b.fs.Files()
	w, err := tsm.Create(b.fs, testShard+manifest.TSMName(77), tsm.WriterOptions{MinSequence: 1, MaxSequence: 1, IndexMemory: 2})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 500 {
		if err := w.Series(model.SeriesID(i+1), fmt.Sprintf("m,h=%04d", i), []column.Field{{Key: "f", Type: model.Float}}); err != nil {
			t.Fatal(err)
		}
		if err := w.Append([]int64{1}, []column.Vector{{Type: model.Float, Floats: []float64{1}}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range tsm.ScratchNames(testShard + manifest.TSMName(77)) {
		if b.fs.Content(name) == nil {
			t.Fatalf("the writer has no %s: %v", name, b.fs.Files())
		}
	}
	// An operator's files.
	kept := []string{testShard + "00000001.tsm.bak", testShard + "notes.tsm.keys"}
	for _, name := range kept {
		if err := b.fs.Put(name, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.s.Close(); err != nil {
		t.Fatal(err)
	}
	b.open()
	want := append(slices.Clone(named), kept...)
	slices.Sort(want)
	if got := b.fs.Files(); !slices.Equal(got, want) {
		t.Errorf("files after the start:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	b.check()
	if err := b.s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestLeftovers has a file of each name that a shard's directory may hold beyond
// those of the manifest: opening removes what a shard writes itself, and leaves
// files of operators alone.
func TestLeftovers(t *testing.T) {
	for name, removed := range map[string]bool{
		manifest.TSMName(5):              true, // a flush that was cut off
		manifest.TSIName(6):              true,
		manifest.TSMName(7) + ".keys":    true, // scratch of a writer
		manifest.TSMName(7) + ".entries": true,
		manifest.TSIName(8) + ".tmp":     true,
		manifest.Names[0] + ".tmp":       true, // a save that was cut off
		manifest.Names[1] + ".tmp":       true,
		manifest.TSMName(5) + ".bak":     false,
		manifest.TSIName(6) + ".keys":    false, // only TSM files have scratch
		"00000009":                       false,
		"00000009.txt":                   false,
		"notes.tsm":                      false,
		"notes.tmp":                      false,
		manifest.Names[0] + ".old":       false,
		"README":                         false,
	} {
		b := fixed(t)
		b.put(0, 10, 0, 1)
		b.close()
		if err := b.fs.Put(testShard+name, []byte("unfinished")); err != nil {
			t.Fatal(err)
		}
		b.open()
		b.check()
		if got := b.fs.Content(testShard+name) == nil; got != removed || repair.Leftover(name) != removed {
			t.Errorf("%s: removed %v, a leftover %v; want %v", name, got, repair.Leftover(name), removed)
		}
		if q := b.s.Quarantine().List(); len(q) != 0 {
			t.Errorf("%s: quarantine %v", name, q)
		}
		if err := b.s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
