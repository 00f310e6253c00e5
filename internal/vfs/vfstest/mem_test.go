package vfstest

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"syscall"
	"testing"

	"tsdbd/internal/vfs"
)

func write(t *testing.T, m *FS, name, text string, sync bool) {
	t.Helper()
	f, err := m.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if sync {
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestUnsyncedIsLost(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	m := New()
	if err := m.MkdirAll("/d"); err != nil {
		t.Fatal(err)
	}
	if err := m.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	write(t, m, "/d/named", "data", false)
	if err := m.SyncDir("/d"); err != nil {
		t.Fatal(err)
	}
	write(t, m, "/d/synced", "data", true) // its name is not

	c := m.Crash(r, 0)
	if b, err := vfs.ReadFile(c, "/d/named"); err != nil || len(b) != 0 {
		t.Errorf("unsynced data: %q, %v; want an empty file", b, err)
	}
	if _, err := c.Stat("/d/synced"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("unsynced name: %v; want not exist", err)
	}
	c = m.Crash(r, 1)
	for _, name := range []string{"/d/named", "/d/synced"} {
		if b, err := vfs.ReadFile(c, name); err != nil || string(b) != "data" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}

// TestAtomicFile crashes at every operation of an atomic replacement: the old
// or the new content must be there, never a mixture.
func TestAtomicFile(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	m := New()
	if err := vfs.WriteFileAtomic(m, "/", "/f", []byte("old")); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	m.SetHook(func(Op) error {
		for range 50 {
			b, err := vfs.ReadFile(m.Crash(r, r.Float64()), "/f")
			if err != nil || (string(b) != "old" && string(b) != "new") {
				t.Fatalf("crash left %q, %v", b, err)
			}
			seen[string(b)]++
		}
		return nil
	})
	if err := vfs.WriteFileAtomic(m, "/", "/f", []byte("new")); err != nil {
		t.Fatal(err)
	}
	if seen["old"] == 0 || seen["new"] == 0 {
		t.Errorf("outcomes %v, want both", seen)
	}
}

func TestTornOverwrite(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	m := New()
	write(t, m, "/f", "aaaaaaaa", true)
	if err := m.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	f, err := m.OpenReadWrite("/f")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("bbbbbbbb"), 4); err != nil {
		t.Fatal(err)
	}
	torn := false
	for range 200 {
		b, err := vfs.ReadFile(m.Crash(r, 0.5), "/f")
		if err != nil || !bytes.HasPrefix(b, []byte("aaaa")) {
			t.Fatalf("%q, %v", b, err)
		}
		torn = torn || (len(b) > 8 && len(b) < 12)
	}
	if !torn {
		t.Error("no torn write in 200 crashes")
	}
}

func TestRemovedMayComeBack(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	m := New()
	if err := m.MkdirAll("/d"); err != nil {
		t.Fatal(err)
	}
	write(t, m, "/d/f", "x", true)
	if err := errors.Join(m.SyncDir("/d"), m.SyncDir("/")); err != nil {
		t.Fatal(err)
	}
	if err := m.RemoveAll("/d"); err != nil {
		t.Fatal(err)
	}
	if b, err := vfs.ReadFile(m.Crash(r, 0), "/d/f"); err != nil || string(b) != "x" {
		t.Errorf("unsynced removal: %q, %v; want the file back", b, err)
	}
	if err := m.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Crash(r, 0).Stat("/d/f"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("synced removal: %v", err)
	}
}

func TestLimit(t *testing.T) {
	m := New()
	m.SetLimit(10)
	f, err := m.Create("/f")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte{1}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("write beyond the limit: %v", err)
	}
	if err := m.Remove("/f"); err != nil {
		t.Fatal(err)
	}
	if free, _ := m.Free("/"); free != 10 {
		t.Errorf("%d bytes free, want 10", free)
	}
}
