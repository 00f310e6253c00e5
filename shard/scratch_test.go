package shard

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/shard/manifest"
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
