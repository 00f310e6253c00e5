package mapped

import (
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
