package vfs

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

func TestOSFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := OS.MkdirAll(dir); err != nil {
		t.Fatal(err)
	}
	name := dir + "/f"
	f, err := OS.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("hello world")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.SyncData(), f.Sync(), OS.SyncDir(dir)); err != nil {
		t.Fatal(err)
	}
	if n, err := f.Size(); n != 11 || err != nil {
		t.Errorf("size %d, %v", n, err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(name); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	if f, err = OS.OpenReadWrite(name); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("W"), 6); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if f, err = OS.Open(name); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("x"), 0); err == nil {
		t.Error("wrote to a file opened for reading")
	}
	b, unmap, err := f.Map(11)
	if err != nil || string(b) != "hello World" {
		t.Fatalf("map %q, %v", b, err)
	}
	if err := errors.Join(f.Close(), unmap()); err != nil { // a mapping outlives its file
		t.Error(err)
	}
	if b, err := ReadFile(OS, name); err != nil || string(b) != "hello World" {
		t.Errorf("%q, %v", b, err)
	}
	if err := OS.Rename(name, dir+"/g"); err != nil {
		t.Fatal(err)
	}
	if names, err := OS.List(dir); err != nil || !slices.Equal(names, []string{"g"}) {
		t.Errorf("%q, %v", names, err)
	}
	for what, err := range map[string]error{
		"open":  second(OS.Open(name)),
		"write": second(OS.OpenReadWrite(name)),
		"stat":  second(OS.Stat(name)),
		"list":  second(OS.List(name)),
		"read":  second(ReadFile(OS, name)),
	} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s of a missing name: %v", what, err)
		}
	}
	if n, err := OS.Free(dir); n == 0 || err != nil {
		t.Errorf("%d bytes free, %v", n, err)
	}
	if err := errors.Join(OS.Remove(dir+"/g"), OS.RemoveAll(dir)); err != nil {
		t.Error(err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestMapEmpty(t *testing.T) {
	name := t.TempDir() + "/f"
	f, err := OS.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, unmap, err := f.Map(0)
	if len(b) != 0 || err != nil || unmap() != nil {
		t.Errorf("map of nothing: %q, %v", b, err)
	}
}

func TestWriteFileAtomic(t *testing.T) {
	dir := t.TempDir()
	name := dir + "/f"
	for _, content := range []string{"first", "second, longer", ""} {
		if err := WriteFileAtomic(OS, dir, name, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if b, err := ReadFile(OS, name); err != nil || string(b) != content {
			t.Errorf("%q, %v; want %q", b, err, content)
		}
	}
	// A directory in the way of the name: the old stays, no temporary file.
	if err := os.MkdirAll(dir+"/d/sub", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteFileAtomic(OS, dir, dir+"/d", []byte("x")); err == nil {
		t.Error("replaced a directory")
	}
	if names, _ := OS.List(dir); !slices.Equal(names, []string{"d", "f"}) {
		t.Errorf("left %q", names)
	}
	if err := WriteFileAtomic(OS, dir+"/none", dir+"/none/f", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in no directory: %v", err)
	}
}

// TestLock: a lock keeps out this process and others, until Close or the
// process's end.
func TestLock(t *testing.T) {
	if name := os.Getenv("VFS_TEST_LOCK"); name != "" { // the other process
		if _, err := OS.Lock(name); err != nil {
			os.Stdout.WriteString("refused\n")
		} else {
			os.Stdout.WriteString("locked\n")
		}
		return // with the lock held
	}
	name := t.TempDir() + "/LOCK"
	other := func() string {
		cmd := exec.Command(os.Args[0], "-test.run=^TestLock$")
		cmd.Env = append(os.Environ(), "VFS_TEST_LOCK="+name)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(bytes.SplitN(out, []byte("\n"), 2)[0])
	}
	l, err := OS.Lock(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OS.Lock(name); err == nil {
		t.Error("locked twice")
	}
	if got := other(); got != "refused" {
		t.Errorf("the other process: %s", got)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first ends with the lock held
		if got := other(); got != "locked" {
			t.Errorf("the other process after Close: %s", got)
		}
	}
	if l, err = OS.Lock(name); err != nil {
		t.Fatalf("after another process ended: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// TestLockHeld: a lock keeps others out without its file, and says when it no
// longer does.
func TestLockHeld(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "d")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "LOCK")
	l, err := OS.Lock(name)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	held := l.(*heldLock)
	if held.dir == nil {
		t.Skip("directories cannot be locked here")
	}
	// As it is where directories cannot be locked.
	onlyFile := &heldLock{name: held.name, file: held.file}
	check := func(what string, wantDir, wantFile bool) {
		t.Helper()
		if err := l.Held(); (err == nil) != wantDir || err != nil && !errors.Is(err, ErrLockLost) {
			t.Errorf("%s: held: %v", what, err)
		}
		if err := onlyFile.Held(); (err == nil) != wantFile || err != nil && !errors.Is(err, ErrLockLost) {
			t.Errorf("%s: held by the file: %v", what, err)
		}
	}
	check("locked", true, true)
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	check("file removed", true, false)
	if _, err := OS.Lock(name); !errors.Is(err, ErrLocked) {
		t.Errorf("locked twice: %v", err)
	}
	if _, err := Hold(name); !errors.Is(err, ErrLocked) {
		t.Errorf("held beside the lock: %v", err)
	}
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	check("file made again", true, false)
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	check("directory moved", false, false)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	check("another directory", false, false)
	other, err := OS.Lock(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}

// TestZero makes files of zeros of sizes around those that Zero writes at a time, also
// where files cannot be written past the system's cache.
func TestZero(t *testing.T) {
	dir := t.TempDir()
	for _, wrapped := range []bool{false, true} {
		for _, size := range []int64{0, 1, 512, PageBytes - 1, PageBytes, zeroStep + 1, 1 << 20, 1<<20 + PageBytes + 512} {
			f, err := OS.Create(filepath.Join(dir, "f"))
			if err != nil {
				t.Fatal(err)
			}
			var to File = f
			if wrapped {
				to = struct{ File }{f}
			}
			if err := errors.Join(Zero(to, size), f.Sync()); err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteAt([]byte("end"), size); err != nil { // as other writes see it
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			b, err := ReadFile(OS, filepath.Join(dir, "f"))
			if err != nil || !bytes.Equal(b, append(make([]byte, size), "end"...)) {
				t.Errorf("wrapped %v: %d bytes, want %d zeros and 3 more: %v", wrapped, len(b), size, err)
			}
		}
	}
}
