package whole

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWrite replaces files, or leaves them if something fails, and leaves nothing else.
func TestWrite(t *testing.T) {
	errAny := errors.New("any")
	dir := t.TempDir()
	name, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	f := func(at, text string, fails error, want string, mode os.FileMode) {
		t.Helper()
		err := Write(at, func(f *os.File) error {
			_, err := f.WriteString(text)
			return errors.Join(err, fails)
		})
		if !errors.Is(err, fails) {
			t.Errorf("write %q: %v, want %v", text, err, fails)
		}
		b, err := os.ReadFile(name)
		if string(b) != want || err != nil && want != "" {
			t.Errorf("after %q: %q, %v, want %q", text, b, err, want)
		}
		if st, err := os.Stat(name); err == nil && st.Mode() != mode && os.PathSeparator == '/' {
			t.Errorf("after %q: mode %v, want %v", text, st.Mode(), mode)
		}
	}
	f(name, "one", errAny, "", 0)
	f(name, "two", nil, "two", 0o600)
	f(name, "three", errAny, "two", 0o600)
	if err := os.Chmod(name, 0o640); err != nil {
		t.Fatal(err)
	}
	f(name, "4", nil, "4", 0o640)
	long := filepath.Join(dir, strings.Repeat("x", 255))
	if err := Write(long, func(*os.File) error { return nil }); err != nil {
		t.Error(err)
	}
	files := 2
	if err := os.Symlink("file", link); err == nil {
		files++
		f(link, "five", nil, "five", 0o640)
	}
	if found, err := os.ReadDir(dir); err != nil || len(found) != files {
		t.Errorf("%v, %v, want %d files", found, err, files)
	}
	if err := Write(dir, func(*os.File) error { return nil }); err == nil {
		t.Error("a directory was written to")
	}
	if err := Write(os.DevNull, func(f *os.File) error { return nil }); err != nil {
		t.Error(err)
	}
	if err := Write(filepath.Join(dir, "none", "x"), func(*os.File) error { return nil }); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), filepath.Join("none", "x")+":") {
		t.Error(err)
	}
}
