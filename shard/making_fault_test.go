package shard

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"tsdbd/internal/vfs/vfstest"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/shard/manifest"
)

// TestMovesWhileOperationsFail lets one file operation after another fail while moves are made
// of one series after another. Reads are right after each failure and after a crash there. The
// merges that are tried again make all moves, and leave no file that nothing names.
func TestMovesWhileOperationsFail(t *testing.T) {
	clean := fixed(t)
	const n = 8
	clean.addSeries(n)
	for range 2 {
		for i := range n {
			clean.put(i, 30, int64(i), 1)
		}
		clean.flush()
	}
	clean.put(0, 5, 100, 1) // a file that is emptied
	clean.flush()
	clean.move(slices.Clone(clean.series[:2]), "9")
	clean.move([]*point.Series{clean.series[2]}, "0")
	clean.move([]*point.Series{clean.series[7]}, "to7")
	clean.hide(3, model.TimeRange{Min: 7, Max: 11})
	clean.flush()
	if err := clean.s.Close(); err != nil {
		t.Fatal(err)
	}
	fault := errors.New("fault")
	failed := 0
	for at := 0; ; at++ {
		b := *clean
		b.fs = clean.fs.Clone()
		b.options.MergeBytes = 1
		b.open()
		count := 0
		var crash *vfstest.FS
		b.fs.SetHook(func(op vfstest.Op) error {
			if count++; count-1 == at {
				crash = b.fs.Crash(b.r, 0.5)
				return fmt.Errorf("%s %s failed: %w", op.Kind, op.Path, fault)
			}
			return nil
		})
		errs := 0
		for did := true; did; {
			var err error
			if did, err = b.s.Compact(t.Context(), true); errors.Is(err, fault) {
				errs++
				did = true
				b.check()
			} else if err != nil {
				t.Fatal(err)
			}
			if errs > 1 {
				t.Fatalf("operation %d failed once, merges %d times", at, errs)
			}
		}
		failed += errs
		b.fs.SetHook(nil)
		if moves := b.waiting(); moves > 0 {
			t.Errorf("operation %d failed: %d moves wait", at, moves)
		}
		b.check()
		b.reopen()
		b.check()
		for _, path := range b.fs.Files() {
			if name, in := strings.CutPrefix(path, testShard); in && !slices.Contains(manifest.Names[:], name) && !b.s.mu.manifest.Has(name) {
				t.Errorf("operation %d failed: %s is left", at, name)
			}
		}
		if err := b.s.Close(); err != nil {
			t.Fatal(err)
		}
		if crash == nil {
			break
		}
		b.fs = crash
		b.open()
		b.check()
		b.compact(true)
		b.check()
		if err := b.s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if failed < 40 {
		t.Errorf("%d merges failed", failed)
	}
}
