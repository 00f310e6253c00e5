package series

import (
	"errors"
	"math/rand/v2"
	"testing"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/model"
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

func put(t testing.TB, fs *vfstest.FS, name string, data []byte) {
	t.Helper()
	if err := fs.Put(name, data); err != nil {
		t.Fatal(err)
	}
}

// settle claims and confirms.
func settle(f *File, keys []string, ids []model.SeriesID) error {
	err := f.Claim(keys, ids)
	if err == nil {
		f.Confirm(ids)
	}
	return err
}
