package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/vfstest"
)

// TestJournal: what one import has finished the next one finds, whatever its name.
func TestJournal(t *testing.T) {
	name := filepath.Join(t.TempDir(), "journal")
	parts := []string{"db rp m 0", "", "a\nb \"c\" \\ é \xff", strings.Repeat("x", 1<<17)}
	j, err := Open(name, "a to b")
	if err != nil {
		t.Fatal(err)
	}
	refused := func(i int) (r Refused) {
		for k := range i {
			r.Add(Refused{int64(i), []string{fmt.Sprint("reason \"", k, "\"\n 5 \xff"), "the same", ""}})
		}
		return r
	}
	for i, p := range parts {
		for range 2 {
			if err := j.Finish(p, refused(i)); err != nil {
				t.Fatal(err)
			}
		}
		if !j.Done(p) || j.Done(p+"'") || j.Len() != i+1 {
			t.Errorf("part %d: done %t, another %t, %d in all", i, j.Done(p), j.Done(p+"'"), j.Len())
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(name, "a to c"); err == nil || !strings.Contains(err.Error(), "another import (a to b)") {
		t.Errorf("the journal of another import: %v", err)
	}
	if j, err = Open(name, "a to b"); err != nil {
		t.Fatal(err)
	}
	for i, p := range parts {
		if !j.Done(p) || !reflect.DeepEqual(j.Refused(p), refused(i)) || len(refused(i).Reasons) != []int{0, 3, 4, 5}[i] {
			t.Errorf("part %d: done %t, refused %+v", i, j.Done(p), j.Refused(p))
		}
	}
	if err := j.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a removed journal: %v", err)
	}
}

// TestOtherFiles: a file that is no journal stays as it is.
func TestOtherFiles(t *testing.T) {
	for _, text := range []string{"", "my letters\n", magic, magic + "00000000 \"a to b\"\n", magic[:len(magic)-2] + "1\n", string(appendLine([]byte(magic), "a to b", Refused{}))[:len(magic)+12]} {
		name := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(name, "a to b"); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v", text, err)
		}
		if got, err := os.ReadFile(name); string(got) != text || err != nil {
			t.Errorf("%q has become %q, %v", text, got, err)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "no", "file"), "a to b"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that is not there: %v", err)
	}
}

// TestDamagedLines: a line that is torn or changed does not count, and those after it do. The
// last line break is no part of a line.
func TestDamagedLines(t *testing.T) {
	whole := appendLine([]byte(magic), "w", Refused{})
	head := len(whole)
	for _, p := range []string{"one", "two", "three"} {
		whole = appendLine(whole, p, Refused{int64(len(p)), []string{"a \"reason\"\n", p}})
	}
	for at := head; at < len(whole); at++ {
		for _, torn := range []bool{true, false} {
			text := append([]byte(nil), whole...)
			if text[at] ^= 1; torn {
				text = text[:at]
			}
			fsys := vfstest.New()
			if err := vfs.WriteFileSynced(fsys, "/j", text); err != nil {
				t.Fatal(err)
			}
			j, err := open(fsys, "/j", "w")
			if err != nil {
				t.Fatalf("offset %d: %v", at, err)
			}
			before := j.Len()
			if err := errors.Join(j.Finish("four", Refused{}), j.Close()); err != nil {
				t.Fatal(err)
			}
			if j, err = open(fsys, "/j", "w"); err != nil {
				t.Fatal(err)
			}
			if !j.Done("four") || j.Len() != before+1 || before > 2 && !(torn && at == len(whole)-1) || !torn && before < 1 {
				t.Errorf("offset %d, torn %t: %d parts, then %d", at, torn, before, j.Len())
			}
			for _, p := range []string{"one", "two", "three"} {
				if !j.Done(p) && j.Finish(p, Refused{}) != nil || !j.Done(p) {
					t.Errorf("offset %d: part %s cannot be finished", at, p)
				}
			}
		}
	}
}

// TestCrash: after a loss of power the journal has every part that was finished, and
// none that was not begun.
func TestCrash(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 0))
	for range 200 {
		fsys := vfstest.New()
		fsys.FailFrom(r.IntN(40), errors.New("power"))
		finished, begun := 0, 0
		j, err := open(fsys, "/j", "w")
		for err == nil && begun < 12 {
			begun++
			if err = j.Finish(strconv.Itoa(begun), Refused{}); err == nil {
				finished++
			}
		}
		if err != nil && j != nil && j.Finish("late", Refused{}) == nil {
			t.Error("a journal takes parts after an error")
		}
		after := fsys.Crash(r, r.Float64())
		if j, err = open(after, "/j", "w"); err != nil {
			t.Fatal(err)
		}
		for i := 1; i <= finished; i++ {
			if !j.Done(strconv.Itoa(i)) {
				t.Errorf("part %d of %d is lost", i, finished)
			}
		}
		if j.Len() > begun || j.Done("late") {
			t.Errorf("%d parts of %d", j.Len(), begun)
		}
	}
}
