package transfer

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestRefused: a file has each refused line once, whatever is refused again, also by an
// import that goes on after one that was killed.
func TestRefused(t *testing.T) {
	name := filepath.Join(t.TempDir(), "refused")
	const head, other = "# CONTEXT-DATABASE:d\n# CONTEXT-RETENTION-POLICY:p 1\n", "# CONTEXT-DATABASE:d\n# CONTEXT-RETENTION-POLICY:\n"
	open := func(name string, goOn bool, has int64) *Refused {
		t.Helper()
		r, err := OpenRefused(name, goOn)
		if err != nil {
			t.Fatal(err)
		}
		if r.Lines() != has {
			t.Errorf("%d lines at first, want %d", r.Lines(), has)
		}
		return r
	}
	write := func(r *Refused, text string) {
		t.Helper()
		if n, err := r.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	expect := func(r *Refused, lines int64, want string) {
		t.Helper()
		if err := r.Sync(); err != nil {
			t.Error(err)
		}
		got, err := os.ReadFile(name)
		if err != nil || string(got) != want || r.Lines() != lines {
			t.Errorf("%d lines, %v\n%s\nwant %d\n%s", r.Lines(), err, got, lines, want)
		}
	}
	r := open(name, false, 0)
	write(r, head+"m s=\"a\nb\" 1\nm v=1 2\n")
	write(r, head+"m v=1 2\nm v=1 3\n")
	write(r, other+"m v=1 2\n")
	write(r, head+"m v=1 2\n")
	write(r, head+"# a tag with a line break: \"m,t=a\\nb v=1 4\"\n")
	want := head + "m s=\"a\nb\" 1\nm v=1 2\nm v=1 3\n" + other + "m v=1 2\n" + head + "# a tag with a line break: \"m,t=a\\nb v=1 4\"\n"
	expect(r, 5, want)
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	// The import is killed within a line, and repeated.
	for _, torn := range []string{"m s=\"cut\noff", "m v=1 5", "# CONTEXT-DATABASE:d"} {
		if err := os.WriteFile(name, []byte(want+torn), 0o600); err != nil {
			t.Fatal(err)
		}
		r = open(name, true, 5)
		write(r, head+"m v=1 2\nm v=1 3\n")
		expect(r, 5, want)
		write(r, head+"m v=1 5\n")
		expect(r, 6, want+head+"m v=1 5\n")
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	r = open(name, false, 0) // another import
	expect(r, 0, "")
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Dir(name)); err != nil || len(left) != 1 {
		t.Errorf("files that stay: %v, %v", left, err)
	}
	if _, err := OpenRefused(filepath.Join(name, "x"), false); err == nil {
		t.Error("a file below a file was opened")
	}

	// Many lines, by several goroutines, without a file.
	r = open("", true, 0)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for i := range 2 * firstPlaces {
				if _, err := fmt.Fprintf(r, "%sm v=%d %d\n", head, i%3, i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if r.Lines() != 2*firstPlaces {
		t.Errorf("%d lines", r.Lines())
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// TestRefusedLong: a line as long as a line may be is read back.
func TestRefusedLong(t *testing.T) {
	name := filepath.Join(t.TempDir(), "refused")
	line := `m s="` + strings.Repeat("x", maxLine-100) + `" 1` + "\n"
	for _, has := range []int64{0, 1} {
		r, err := OpenRefused(name, true)
		if err != nil {
			t.Fatal(err)
		}
		if r.Lines() != has {
			t.Errorf("%d lines, want %d", r.Lines(), has)
		}
		if _, err := r.Write([]byte(line)); err != nil {
			t.Error(err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
