package object

import (
	"errors"
	"testing"

	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/vfstest"
)

// TestEnsure puts an object that is not there, or damaged, and no other.
func TestEnsure(t *testing.T) {
	fs := vfstest.New()
	s := OpenDir(fs, "/s")
	f := func(content string, want bool) {
		t.Helper()
		did, err := Ensure(t.Context(), s, "a", int64(len(content)), func() (Content, error) { return Content{Bytes: []byte(content)}, nil })
		if did != want || err != nil {
			t.Errorf("%s: put %v, want %v, %v", content, did, want, err)
		}
		if b, err := Read(t.Context(), s, "a", 10); string(b) != content || err != nil {
			t.Errorf("there is %q, %v, want %s", b, err, content)
		}
	}
	f("ab", true)
	f("ab", false)
	f("abc", true)
	broken := errors.New("broken")
	if did, err := Ensure(t.Context(), s, "b", 1, func() (Content, error) { return Content{}, broken }); did || !errors.Is(err, broken) {
		t.Errorf("content that cannot be read: %v, %v", did, err)
	}
	if err := Save(t.Context(), s, "a", 3, fs, "/file"); err != nil {
		t.Fatal(err)
	}
	if b, err := vfs.ReadFile(fs, "/file"); string(b) != "abc" || err != nil {
		t.Errorf("the file has %q, %v", b, err)
	}
	if err := Save(t.Context(), s, "a", 4, fs, "/file"); err == nil {
		t.Error("an object that is too short is saved")
	}
	if sum, err := SumFile(t.Context(), fs, "/s/a"); sum != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" || err != nil {
		t.Errorf("%s, %v", sum, err)
	}
}
