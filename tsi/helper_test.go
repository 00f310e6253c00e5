package tsi

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"tsdbd/internal/vfs/vfstest"
)

var errInjected = errors.New("injected")

// newFS returns a file system in memory with a directory "db".
func newFS() *vfstest.FS {
	fs := vfstest.New()
	if err := errors.Join(fs.MkdirAll("db"), fs.SyncDir(".")); err != nil {
		panic(err)
	}
	return fs
}

// failFrom fails the n-th operation from now and all after it; the function
// returned tells how many there were.
func failFrom(fs *vfstest.FS, n int) (ops func() int) {
	start := fs.Ops()
	fs.SetHook(func(op vfstest.Op) error {
		if op.N-start >= n {
			return errInjected
		}
		return nil
	})
	return func() int { return fs.Ops() - start }
}

func put(t testing.TB, fs *vfstest.FS, name string, data []byte) {
	t.Helper()
	if err := fs.Put(name, data); err != nil {
		t.Fatal(err)
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
