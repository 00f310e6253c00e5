package tsi

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/model"
	"tsdbd/series"
)

var errInjected = errors.New("injected")

func newRand(t testing.TB) *rand.Rand {
	return rand.New(rand.NewPCG(testseed.Of(t), 0))
}

// newFS returns a file system in memory with a directory "db".
func newFS() *vfstest.FS {
	fs := vfstest.New()
	if err := errors.Join(fs.MkdirAll("db"), fs.SyncDir(".")); err != nil {
		panic(err)
	}
	return fs
}

func openSeries(t testing.TB, fs vfs.FS, opt series.Options) *series.File {
	t.Helper()
	f, err := series.Open(fs, "db", opt)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// createAll gives ids to keys.
func createAll(t testing.TB, f *series.File, keys []string) []model.SeriesID {
	t.Helper()
	ids := make([]model.SeriesID, len(keys))
	if err := f.Claim(keys, ids); err != nil {
		t.Fatal(err)
	}
	f.Confirm(ids)
	return ids
}

func seriesOf(t testing.TB, f *File) *roaring.Bitmap {
	t.Helper()
	set, err := f.Series()
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func put(t testing.TB, fs *vfstest.FS, name string, data []byte) {
	t.Helper()
	if err := fs.Put(name, data); err != nil {
		t.Fatal(err)
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
