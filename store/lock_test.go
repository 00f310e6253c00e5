package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/model"
)

// TestLockRemoved: without its file LOCK a directory is still this store's: no
// second one opens it, and the first goes on.
func TestLockRemoved(t *testing.T) {
	dir := t.TempDir()
	first, err := Open(dir, testOptions(vfs.OS))
	if err != nil {
		t.Fatal(err)
	}
	s := &testStore{Store: first, t: t}
	s.create("db")
	s.must(os.Remove(filepath.Join(dir, "LOCK")))
	if again, err := Open(dir, testOptions(vfs.OS)); !errors.Is(err, vfs.ErrLocked) {
		_ = again.Close()
		t.Fatalf("a second store: %v", err)
	}
	s.checkLock()
	s.must(s.write("db", "m v=1 1"))
	s.must(s.Close())
	again, err := Open(dir, testOptions(vfs.OS))
	if err != nil {
		t.Fatal(err)
	}
	s = &testStore{Store: again, t: t}
	if got := s.read("db"); len(got) != 1 {
		t.Errorf("after a restart: %v", got)
	}
	s.must(s.Close())
}

// TestDirectoryMoved moves the directory of an open store and gives its place to
// another one. The first finds out, refuses writes, answers queries, and leaves
// alone what is the other's.
func TestDirectoryMoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	opt := testOptions(vfs.OS)
	first, err := Open(dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	s := &testStore{Store: first, t: t}
	s.create("db")
	s.must(s.write("db", "m v=1 1"))
	s.checkLock()
	if ok, message := s.Health(); !ok {
		t.Fatal(message)
	}
	s.must(os.Rename(dir, dir+".old"))
	second, err := Open(dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	other := &testStore{Store: second, t: t}
	other.create("other")
	other.must(other.write("other", "m v=2 2"))
	s.checkLock()
	if err := s.write("db", "m v=2 2"); !errors.Is(err, ErrReadOnly) {
		t.Errorf("a write: %v", err)
	}
	if ok, message := s.Health(); ok || !strings.Contains(message, "lock of the data directory") {
		t.Errorf("health: %v %s", ok, message)
	}
	if got := s.read("db"); len(got) != 1 {
		t.Errorf("a read: %v", got)
	}
	files := func() (all []string) {
		s.must(filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
			all = append(all, name)
			return err
		}))
		return all
	}
	before := strings.Join(files(), "\n")
	s.must(s.Close())
	if after := strings.Join(files(), "\n"); after != before {
		t.Errorf("the close changed files of the other store:\n%s\nbefore:\n%s", after, before)
	}
	other.must(other.write("other", "m v=3 3"))
	other.must(other.Close())
}

// unsureLock cannot find out whether it is held.
type unsureLock struct{ vfs.Lock }

func (unsureLock) Held() error { return errors.New("input/output error") }

// TestLockNotChecked: that the lock cannot be checked is no reason to stop.
func TestLockNotChecked(t *testing.T) {
	fs := vfstest.New()
	s := openTest(t, fs, testOptions(fs))
	s.create("db")
	s.lock = unsureLock{s.lock}
	s.checkLock()
	s.must(s.write("db", "m v=1 1"))
	s.must(s.Close())
}

// TestCloseWaitsForViews: a series file may be written when its last view is
// released, so Close waits, and the directory stays locked.
func TestCloseWaitsForViews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfstest.New()
		s := openTest(t, fs, testOptions(fs))
		s.create("db")
		s.must(s.write("db", "m v=1 1"))
		v, err := s.View("db", "", model.AllTime)
		s.must(err)
		done := make(chan error, 1)
		go func() { done <- s.Close() }()
		synctest.Wait()
		select {
		case <-done:
			t.Error("closed while a view is in use")
		default:
		}
		if again, err := Open("/data", testOptions(fs)); err == nil {
			t.Error("opened while a view is in use")
			_ = again.Close()
		}
		v.Release()
		s.must(<-done)
		again, err := Open("/data", testOptions(fs))
		s.must(err)
		s.must(again.Close())
	})
}
