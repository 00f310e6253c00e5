package overlay

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs"
)

// TestActsAsADisk does the same to an overlay and to a copy of its base.
func TestActsAsADisk(t *testing.T) {
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, seed))
	base, plain := t.TempDir(), t.TempDir()
	names := []string{"a", "b", "sub/c", "sub/d", "sub/deep/e"}
	for _, dir := range []string{base, plain} {
		if err := os.MkdirAll(dir+"/sub/deep", 0o700); err != nil {
			t.Fatal(err)
		}
		for i, n := range names[:4] {
			if err := os.WriteFile(dir+"/"+n, bytes.Repeat([]byte{byte('a' + i)}, 3000*i), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	before := content(t, vfs.OS, base, "")
	over := New(vfs.OS)
	for step := range 600 {
		name, to := names[r.IntN(len(names))], names[r.IntN(len(names))]
		data := bytes.Repeat([]byte{byte(step)}, r.IntN(9000))
		off := int64(r.IntN(9000))
		op := r.IntN(8)
		do := func(fsys vfs.FS, dir string) string {
			p := dir + "/" + name
			var err error
			switch op {
			case 0:
				var f vfs.File
				if f, err = fsys.Create(p); err == nil {
					_, err = f.Write(data)
					_ = f.Close()
				}
			case 1:
				var f vfs.File
				if f, err = fsys.OpenReadWrite(p); err == nil {
					_, err = f.WriteAt(data, off)
					_ = f.Close()
				}
			case 2:
				err = fsys.Remove(p)
			case 3:
				if name != to {
					err = fsys.Rename(p, dir+"/"+to)
				}
			case 4:
				if step%10 == 0 {
					err = fsys.RemoveAll(dir + "/sub/deep")
				}
			case 5:
				err = fsys.MkdirAll(dir + "/sub/deep")
			case 6:
				if step%20 == 0 {
					_ = fsys.RemoveAll(dir + "/moved")
					if err = fsys.Rename(dir+"/sub", dir+"/moved"); err == nil {
						err = fsys.MkdirAll(dir + "/sub/deep")
					}
				}
			case 7:
				var f vfs.File
				if f, err = fsys.Open(p); err == nil {
					got := make([]byte, 5000)
					n, rerr := f.ReadAt(got, off)
					_ = f.Close()
					return fmt.Sprintf("%x %v", sha256.Sum256(got[:n]), errors.Is(rerr, io.EOF))
				}
			}
			if errors.Is(err, fs.ErrNotExist) {
				return "missing"
			}
			return fmt.Sprint(err == nil)
		}
		// A file in a missing directory: the overlay makes the directory.
		if _, err := os.Stat(filepath.Dir(plain + "/" + name)); err != nil && op == 0 {
			continue
		}
		if _, err := os.Stat(filepath.Dir(plain + "/" + to)); err != nil && op == 3 {
			continue
		}
		if got, want := do(over, base), do(vfs.OS, plain); got != want {
			t.Fatalf("step %d, operation %d on %s: %s, a disk says %s", step, op, name, got, want)
		}
		if got, want := content(t, over, base, ""), content(t, vfs.OS, plain, ""); !maps.Equal(got, want) {
			t.Fatalf("step %d, operation %d on %s: the overlay has %v, a disk %v", step, op, name, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
	}
	if !maps.Equal(before, content(t, vfs.OS, base, "")) {
		t.Error("the base has changed")
	}
}

// content reads a tree through a file system, directories apart.
func content(t *testing.T, fsys vfs.FS, root, at string) map[string]string {
	out := map[string]string{}
	names, err := fsys.List(root + at)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		st, err := fsys.Stat(root + at + "/" + n)
		if err != nil {
			t.Fatal(err)
		}
		if st.IsDir() {
			maps.Copy(out, content(t, fsys, root, at+"/"+n))
			continue
		}
		b, err := vfs.ReadFile(fsys, root+at+"/"+n)
		if err != nil || int64(len(b)) != st.Size() {
			t.Fatalf("%s: %d bytes of %d, %v", n, len(b), st.Size(), err)
		}
		out[at+"/"+n] = string(b)
	}
	return out
}

func TestMap(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []string{"one", "two", "three"} {
		if err := os.WriteFile(dir+"/"+n, []byte("<"+n+">"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := New(vfs.OS)
	o.Map("/virtual/x", Part{dir + "/one", 5}, Part{dir + "/two", 5}, Part{dir + "/three", 7})
	b, err := vfs.ReadFile(o, "/virtual/x")
	if err != nil || string(b) != "<one><two><three>" {
		t.Fatalf("%q %v", b, err)
	}
	f, err := o.Open("/virtual/x")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mapped, unmap, err := f.Map(17)
	if err != nil || string(mapped) != "<one><two><three>" {
		t.Fatalf("%q %v", mapped, err)
	}
	if err := unmap(); err != nil {
		t.Fatal(err)
	}
	part := make([]byte, 4)
	if n, err := f.ReadAt(part, 3); n != 4 || err != nil || string(part) != "e><t" {
		t.Fatalf("%q %v", part, err)
	}
	if n, err := f.ReadAt(part, 15); n != 2 || !errors.Is(err, io.EOF) {
		t.Fatalf("%d %v", n, err)
	}
}
