package mover

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"tsdbd/exchange/rows"
	"tsdbd/lineproto"
)

// keep keeps lines below their headings.
func keep(r *Refused, text string) (err error) {
	heading := ""
	for line := range lineproto.Lines([]byte(text)) {
		switch line := string(line); {
		case strings.HasPrefix(line, rows.DatabaseHeader):
			heading = line
		case strings.HasPrefix(line, rows.PolicyHeader):
			heading += line
		default:
			err = errors.Join(err, r.Keep([]byte(heading), []byte(strings.TrimSuffix(line, "\n"))))
		}
	}
	return err
}

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
		if r.Lines(0) != has {
			t.Errorf("%d lines at first, want %d", r.Lines(0), has)
		}
		return r
	}
	write := func(r *Refused, text string) {
		t.Helper()
		if err := keep(r, text); err != nil {
			t.Error(err)
		}
	}
	expect := func(r *Refused, lines int64, want string) {
		t.Helper()
		if err := r.Sync(); err != nil {
			t.Error(err)
		}
		got, err := os.ReadFile(name)
		if err != nil || string(got) != want || r.Lines(0) != lines {
			t.Errorf("%d lines, %v\n%s\nwant %d\n%s", r.Lines(0), err, got, lines, want)
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
				if err := keep(r, fmt.Sprintf("%sm v=%d %d\n", head, i%3, i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if r.Lines(0) != 2*firstPlaces {
		t.Errorf("%d lines", r.Lines(0))
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// TestRefusedLong: a line as long as a line may be is read back.
func TestRefusedLong(t *testing.T) {
	name := filepath.Join(t.TempDir(), "refused")
	line := `m s="` + strings.Repeat("x", 4<<20) + `" 1` + "\n"
	for _, has := range []int64{0, 1} {
		r, err := OpenRefused(name, true)
		if err != nil {
			t.Fatal(err)
		}
		if r.Lines(0) != has {
			t.Errorf("%d lines, want %d", r.Lines(0), has)
		}
		if err := keep(r, line); err != nil {
			t.Error(err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestRefusedFails: after a line that could not be kept nothing succeeds any more, also
// not the same line once more, which would be taken as kept.
func TestRefusedFails(t *testing.T) {
	const line = "# CONTEXT-DATABASE:d\n# CONTEXT-RETENTION-POLICY:p\nm v=1 1\n"
	for _, written := range []bool{false, true} {
		r, err := OpenRefused(filepath.Join(t.TempDir(), "refused"), false)
		if err != nil {
			t.Fatal(err)
		}
		if written {
			if err := keep(r, line); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.mu.file.Close(); err != nil { // as if the disk were gone
			t.Fatal(err)
		}
		for try := range 2 {
			if err := keep(r, line); err == nil && try > 0 {
				t.Error("the line is said to be kept")
			}
			if err := r.Sync(); err == nil {
				t.Errorf("written %t, try %d: the line is said to be durable", written, try)
			}
		}
		if err := r.Close(); err == nil {
			t.Error("the file was closed twice")
		}
	}
}

// TestRefusedDevice: lines go to what is no file of a disk.
func TestRefusedDevice(t *testing.T) {
	for _, goOn := range []bool{false, true} {
		r, err := OpenRefused(os.DevNull, goOn)
		if err != nil {
			t.Fatal(err)
		}
		err = keep(r, "# CONTEXT-DATABASE:d\n# CONTEXT-RETENTION-POLICY:p\nm v=1 1\n")
		if err := errors.Join(err, r.Sync(), r.Close()); err != nil || r.Lines(0) != 1 {
			t.Errorf("%d lines, %v", r.Lines(0), err)
		}
	}
}
