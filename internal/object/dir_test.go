package object_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"tsdbd/internal/object"
	"tsdbd/internal/object/objecttest"
	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/vfstest"
)

func TestDir(t *testing.T) {
	dir := t.TempDir()
	objecttest.Contract(t, object.OpenDir(vfs.OS, dir+"/not/yet"), dir+"/not/yet")
}

// TestDirCrash cuts the power at each operation: what was put as bytes is there with all
// files that were put before, and what was deleted stays away.
func TestDirCrash(t *testing.T) {
	const files = 5
	r := rand.New(rand.NewPCG(testseed.Of(t), 0))
	whole := func(fs vfs.FS) (manifest bool, objects int) {
		s := object.OpenDir(fs, "/d")
		for i := range files {
			b, err := object.Read(t.Context(), s, fmt.Sprintf("o/%d", i), 100)
			if err == nil && string(b) == "content" {
				objects++
			} else if err == nil || !errors.Is(err, object.ErrNotFound) {
				t.Fatalf("object %d: %q, %v", i, b, err)
			}
		}
		_, err := s.Stat(t.Context(), "m")
		return err == nil, objects
	}
	for at := 1; ; at++ {
		fs := vfstest.New()
		if err := errors.Join(fs.MkdirAll("/d/o"), fs.SyncDir("/d"), fs.SyncDir("/")); err != nil {
			t.Fatal(err)
		}
		begin, reached := 0, false
		fs.SetHook(func(op vfstest.Op) error {
			if begin == 0 {
				begin = op.N
			}
			reached = reached || op.N >= begin+at
			if reached {
				return errors.New("power cut")
			}
			return nil
		})
		s := object.OpenDir(fs, "/d")
		err := func() error {
			for i := range files {
				part := fmt.Sprintf("/d/o/%d.part", i)
				if err := vfs.WriteFileSynced(fs, part, []byte("content")); err != nil {
					return err
				}
				if err := s.Put(t.Context(), fmt.Sprintf("o/%d", i), object.Content{FS: fs, Path: part}); err != nil {
					return err
				}
			}
			return s.Put(t.Context(), "m", object.Content{Bytes: []byte("manifest")})
		}()
		for range 20 {
			if manifest, objects := whole(fs.Crash(r, r.Float64())); manifest && objects < files || err == nil && !manifest {
				t.Fatalf("power cut at operation %d: manifest %v, %d of %d objects, put says %v", at, manifest, objects, files, err)
			}
		}
		if reached {
			continue
		}
		fs.SetHook(nil)
		if err := s.Delete(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if manifest, _ := whole(fs.Crash(r, r.Float64())); manifest {
				t.Fatal("a manifest that was deleted is back")
			}
		}
		return
	}
}
