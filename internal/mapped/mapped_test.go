package mapped

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"tsdbd/internal/binio"
	"tsdbd/internal/vfs"
)

func TestReferences(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, make([]byte, 3<<12), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := Open(vfs.OS, path)
	if err != nil {
		t.Fatal(err)
	}
	m.Acquire()
	m.Obsolete(true)
	if err := m.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil || len(m.Data()) != 3<<12 || m.Data()[1] != 0 || m.Path() != path {
		t.Fatalf("with one reference left: %v", err)
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	// What the disk cannot read is an error that names the file.
	read := func() (err error) {
		defer vfs.CatchFault(&err)()
		if m.Data()[1<<12] != 0 {
			t.Error("read behind the end")
		}
		return nil
	}
	var damage *binio.CorruptError
	if err := read(); !errors.As(err, &damage) || damage.Path != path {
		t.Errorf("a page that cannot be read: %v", err)
	}
	if err := m.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("obsolete, after the last reference: %v", err)
	}
	for name, f := range map[string]func(){"Acquire": m.Acquire, "Release": func() { _ = m.Release() }} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s without a reference", name)
				}
			}()
			f()
		}()
	}
	if _, err := Open(vfs.OS, path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// TestSections reads pieces inside the file, at its ends and outside.
func TestSections(t *testing.T) {
	data := []byte("0123456789")
	data = binary.LittleEndian.AppendUint32(data, binio.PlacedChecksum(0, data))
	m := InMemory("f", data)
	for _, c := range []struct {
		offset, size int64
		want         string
		sound        bool
	}{
		{0, 3, "012", true},
		{7, 3, "789", true},
		{14, 0, "", true},
		{14, 1, "", false},
		{0, 15, "", false},
		{-1, 1, "", false},
		{1, -1, "", false},
		{1, 1<<63 - 1, "", false},
	} {
		b, err := m.Section(c.offset, c.size)
		if string(b) != c.want || (err == nil) != c.sound || err != nil && !errors.Is(err, binio.ErrCorrupt) {
			t.Errorf("Section(%d, %d) = %q, %v", c.offset, c.size, b, err)
		}
	}
	for _, c := range []struct {
		offset, size int64
		want         string
	}{{0, 14, "0123456789"}, {0, 13, ""}, {1, 13, ""}, {0, 3, ""}, {0, 0, ""}, {0, 15, ""}} {
		b, err := m.Checked(c.offset, c.size)
		if string(b) != c.want || (err == nil) != (c.want != "") || err != nil && !errors.Is(err, binio.ErrCorrupt) {
			t.Errorf("Checked(%d, %d) = %q, %v", c.offset, c.size, b, err)
		}
	}
	v := NewVerified(65)
	v.Add(0)
	v.Add(64)
	if !v.Has(0) || v.Has(1) || v.Has(63) || !v.Has(64) {
		t.Error("pieces are mixed up")
	}
}
