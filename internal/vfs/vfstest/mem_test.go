package vfstest

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"slices"
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
	if err := m.Put("/f", bytes.Repeat([]byte("a"), 600)); err != nil {
		t.Fatal(err)
	}
	f, err := m.OpenReadWrite("/f")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(bytes.Repeat([]byte("b"), 2000), 300); err != nil {
		t.Fatal(err)
	}
	var whole, lost, prefix, scattered int
	for range 400 {
		b, err := vfs.ReadFile(m.Crash(r, 0.5), "/f")
		if err != nil || !bytes.HasPrefix(b, bytes.Repeat([]byte("a"), 300)) {
			t.Fatalf("%q, %v", b, err)
		}
		n := bytes.LastIndexByte(b, 'b') + 1
		switch {
		case n == 2300 && !bytes.ContainsAny(b[300:], "a\x00"):
			whole++
		case n == 0:
			lost++
		case !bytes.ContainsAny(b[300:n], "a\x00"):
			prefix++
		default:
			scattered++
			for at := 512; at+512 < len(b); at += 512 {
				if s := b[at : at+512]; bytes.Contains(s, []byte("b")) && at >= 512 && bytes.ContainsAny(s, "a\x00") {
					t.Fatalf("the sector at %d is torn: %q", at, s)
				}
			}
		}
	}
	if whole == 0 || lost == 0 || prefix == 0 || scattered == 0 {
		t.Errorf("%d whole, %d lost, %d prefixes, %d scattered; want some of each", whole, lost, prefix, scattered)
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
	if _, err := f.Write(make([]byte, 7)); err != nil {
		t.Fatal(err)
	}
	if n, err := f.Write(make([]byte, 4)); n != 3 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("write beyond the limit: %d bytes, %v; want 3", n, err)
	}
	if n, err := f.WriteAt([]byte{1, 2}, 9); n != 1 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("write across the limit: %d bytes, %v; want 1", n, err)
	}
	if n, err := f.WriteAt(make([]byte, 10), 0); n != 10 || err != nil {
		t.Errorf("write in place: %d bytes, %v", n, err)
	}
	if err := m.Remove("/f"); err != nil {
		t.Fatal(err)
	}
	if free, _ := m.Free("/"); free != 10 {
		t.Errorf("%d bytes free, want 10", free)
	}
}

func TestShortWrite(t *testing.T) {
	m := New()
	f, err := m.Create("/f")
	if err != nil {
		t.Fatal(err)
	}
	m.SetHook(func(op Op) error { return &ShortWrite{Bytes: op.Size / 2, Err: syscall.EIO} })
	if n, err := f.Write([]byte("abcdefgh")); n != 4 || !errors.Is(err, syscall.EIO) {
		t.Errorf("%d bytes, %v; want 4", n, err)
	}
	if err := f.Sync(); !errors.Is(err, syscall.EIO) {
		t.Errorf("sync: %v", err)
	}
	if b := m.Content("/f"); string(b) != "abcd" {
		t.Errorf("content %q", b)
	}
	if b := m.Crash(rand.New(rand.NewPCG(5, 5)), 0).Content("/f"); b != nil {
		t.Errorf("after a crash %q; the sync failed", b)
	}
}

// TestPut: what was put is durable, also behind writes that are not.
func TestPut(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	m := New()
	if err := m.Put("a/b/f", []byte("one")); err != nil {
		t.Fatal(err)
	}
	f, err := m.OpenReadWrite("a/b/f")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte(" more")); err != nil {
		t.Fatal(err)
	}
	c := m.Clone()
	if b := c.Crash(r, 0).Content("a/b/f"); string(b) != "one more" {
		t.Errorf("clone: %q", b)
	}
	if b := m.Crash(r, 0).Content("a/b/f"); string(b) != "one" {
		t.Errorf("crash: %q", b)
	}
	b := []byte("two")
	if err := m.Put("a/b/f", b); err != nil {
		t.Fatal(err)
	}
	b[0] = 'x'
	m.Content("a/b/f")[0] = 'y'
	if b := m.Crash(r, 0).Content("a/b/f"); string(b) != "two" {
		t.Errorf("put again: %q", b)
	}
	if err := m.Put("a/b", nil); err == nil {
		t.Error("a directory became a file")
	}
	if err := m.Put("a/b/f/g", nil); err == nil {
		t.Error("a file became a directory")
	}
	if b := m.Content("a/b"); b != nil || m.Content("none") != nil {
		t.Errorf("content of a directory: %q", b)
	}
}

// TestOpPath: a file that is open while it is renamed goes by its new name.
func TestOpPath(t *testing.T) {
	m := New()
	f, err := m.Create("/new.tmp")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Rename("/new.tmp", "/f"); err != nil {
		t.Fatal(err)
	}
	var got []Op
	m.SetHook(func(op Op) error { got = append(got, op); return nil })
	if _, err := f.Write([]byte("abc")); err != nil {
		t.Fatal(err)
	}
	if err := f.SyncData(); err != nil {
		t.Fatal(err)
	}
	want := []Op{{3, "write", "/f", 3}, {4, "sync", "/f", 0}}
	if !slices.Equal(got, want) {
		t.Errorf("operations %v, want %v", got, want)
	}
}

// TestHole: bytes that were never written read as zeros, and a crash keeps or
// loses what is behind them.
func TestHole(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	m := New()
	if err := m.Put("/f", []byte("ab")); err != nil {
		t.Fatal(err)
	}
	f, err := m.OpenReadWrite("/f")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("ef"), 4); err != nil {
		t.Fatal(err)
	}
	if b := m.Content("/f"); string(b) != "ab\x00\x00ef" {
		t.Errorf("content %q", b)
	}
	seen := map[string]bool{}
	for range 100 {
		seen[string(m.Crash(r, 0.5).Content("/f"))] = true
	}
	for _, want := range []string{"ab", "ab\x00\x00ef", "ab\x00\x00e"} {
		if !seen[want] {
			t.Errorf("no crash left %q", want)
		}
		delete(seen, want)
	}
	if len(seen) > 0 {
		t.Errorf("crashes left %v", seen)
	}
}

// TestFailedSync: no later sync makes durable what a failed one did not, but
// what was written after it.
func TestFailedSync(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	m := New()
	if err := m.Put("/f", []byte("aaaa")); err != nil {
		t.Fatal(err)
	}
	f, err := m.OpenReadWrite("/f")
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string, off int64) {
		if _, err := f.WriteAt([]byte(text), off); err != nil {
			t.Fatal(err)
		}
	}
	write("bb", 1)
	m.SetHook(func(Op) error { return syscall.EIO })
	if err := f.Sync(); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	m.SetHook(nil)
	write("c", 3)
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if b := m.Content("/f"); string(b) != "abbc" {
		t.Errorf("content %q", b)
	}
	for keep, want := range map[float64]string{0: "aaac", 1: "abbc"} {
		if b := m.Crash(r, keep).Content("/f"); string(b) != want {
			t.Errorf("after a crash that keeps %v: %q, want %q", keep, b, want)
		}
	}
}

// TestRenameDirectory moves a directory with its files, and loses the move.
func TestRenameDirectory(t *testing.T) {
	m := New()
	for _, name := range []string{"/d/a/f", "/d/a/sub/g", "/d/q/h"} {
		if err := m.Put(name, []byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Rename("/d/a", "/d/q/a"); err != nil {
		t.Fatal(err)
	}
	moved, before := []string{"/d/q/a/f", "/d/q/a/sub/g", "/d/q/h"}, []string{"/d/a/f", "/d/a/sub/g", "/d/q/h"}
	if have := m.Files(); !slices.Equal(have, moved) {
		t.Errorf("moved: %v", have)
	}
	if have := m.Crash(nil, 1).Files(); !slices.Equal(have, moved) {
		t.Errorf("crash that keeps all: %v", have)
	}
	r := rand.New(rand.NewPCG(1, 1))
	if have := m.Crash(r, 0).Files(); !slices.Equal(have, before) {
		t.Errorf("crash that loses the move: %v", have)
	}
	if err := errors.Join(m.SyncDir("/d/q"), m.SyncDir("/d")); err != nil {
		t.Fatal(err)
	}
	if have := m.Crash(r, 0).Files(); !slices.Equal(have, moved) {
		t.Errorf("crash after the syncs: %v", have)
	}
	if err := m.Rename("/d/q/a/sub", "/d/q"); err == nil {
		t.Error("a directory replaced another")
	}
}
