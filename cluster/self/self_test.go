package self

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tsdbd/internal/binio"
	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/vfstest"
)

// TestIdentity holds the bytes of an identity against the golden file and the page.
func TestIdentity(t *testing.T) {
	i := &Identity{
		Cluster: "00112233445566778899aabbccddeeff", Name: "n3", ID: "n3/0badcafe", Address: "10.0.0.3:8088",
		State: Transfer, Reason: "its log is damaged", Former: []string{"n3/01020304"},
		Seats: []Seat{{"n1/00c0ffee", "10.0.0.1:8088", true}, {"n3/01020304", "10.0.0.3:8088", false}},
	}
	fsys := vfstest.New()
	for range 2 {
		if err := Write(fsys, "/d", i); err != nil {
			t.Fatal(err)
		}
	}
	got := fsys.Content("/d/cluster/node.1")
	golden := filepath.Join("testdata", "node-v2.golden")
	if os.Getenv("TSDBD_UPDATE") != "" {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("the bytes of an identity have changed:\n%s\nwant\n%s", got, want)
	}
	page, err := os.ReadFile("../../docs/formats/node.md")
	if err != nil || !strings.Contains(string(page), string(want)) {
		t.Errorf("the example of the page is not the golden file: %v", err)
	}
	back, err := Read(fsys, "/d")
	if err != nil || back.Edition != 2 || back.ID != i.ID || back.State != i.State || len(back.Former) != 1 {
		t.Errorf("%+v %v", back, err)
	}
	// One damaged copy is as good as none.
	for at := range want {
		if err := fsys.Flip("/d/cluster/node.0", int64(at), 1); err != nil {
			t.Fatal(err)
		}
		if back, err := Read(fsys, "/d"); err != nil || back.ID != i.ID {
			t.Fatalf("byte %d of one copy: %+v %v", at, back, err)
		}
		if _, err := decodeIdentity("x", fsys.Content("/d/cluster/node.0")); err == nil {
			t.Fatalf("byte %d: the damaged copy is read", at)
		}
		if err := fsys.Flip("/d/cluster/node.0", int64(at), 1); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names {
		if err := fsys.Flip("/d/cluster/"+name, 100, 1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Read(fsys, "/d"); !errors.Is(err, binio.ErrCorrupt) || !strings.Contains(err.Error(), "tsdbd cluster remove") {
		t.Errorf("both copies damaged: %v", err)
	}
	for _, text := range []string{"tsdbd-node 3 00\n{}", "tsdbd-node 0 00\n{}"} {
		if _, err := decodeIdentity("x", []byte(text)); !errors.Is(err, binio.ErrVersion) || !strings.Contains(err.Error(), "identity of a node of version") {
			t.Errorf("another version: %v", err)
		}
	}
	// The version before is read: nodes are upgraded one after the other.
	before, err := os.ReadFile(filepath.Join("testdata", "node-v1.golden"))
	if err != nil {
		t.Fatal(err)
	}
	if have, err := decodeIdentity("x", before); err != nil || have.ID != i.ID || have.Seats != nil {
		t.Errorf("version 1: %+v %v", have, err)
	}
}

// TestOpenWritesAgain damages one copy after the other, with an Open between the two: the
// node is who it was, also with a full disk at one of them, and the damaged bytes are kept.
func TestOpenWritesAgain(t *testing.T) {
	fsys := vfstest.New()
	if err := Write(fsys, "/d", &Identity{Cluster: "c", Name: "n", ID: "n/1", State: Member}); err != nil {
		t.Fatal(err)
	}
	sound := fsys.Content("/d/cluster/node.0")
	for what, harm := range map[string]func(name string) error{
		"flipped": func(name string) error { return fsys.Flip(name, 100, 1) },
		"lost":    fsys.Remove,
		"cut":     func(name string) error { return fsys.Put(name, sound[:40]) },
		"zeros":   func(name string) error { return fsys.Put(name, make([]byte, len(sound))) },
		"older":   func(name string) error { return fsys.Put(name, sound) },
	} {
		for _, n := range names {
			name := "/d/cluster/" + n
			_ = fsys.Remove(name + ".damaged")
			if err := harm(name); err != nil {
				t.Fatal(err)
			}
			hurt := fsys.Content(name)
			fsys.FailFrom(1, syscall.ENOSPC)
			i, err := Open(fsys, "/d", slog.New(slog.DiscardHandler))
			fsys.SetHook(nil)
			if err != nil || i.ID != "n/1" {
				t.Fatalf("%s %s, disk full: %+v %v", what, n, i, err)
			}
			if i, err = Open(fsys, "/d", slog.New(slog.DiscardHandler)); err != nil || i.ID != "n/1" {
				t.Fatalf("%s %s: %+v %v", what, n, i, err)
			}
			if a, b := fsys.Content("/d/cluster/node.0"), fsys.Content("/d/cluster/node.1"); len(a) == 0 || string(a) != string(b) {
				t.Errorf("%s %s: the copies are\n%s\n%s", what, n, a, b)
			}
			kept := fsys.Content(name + ".damaged")
			if want := what != "lost" && what != "older"; want != (len(kept) > 0) || want && string(kept) != string(hurt) {
				t.Errorf("%s %s: set aside %q", what, n, kept)
			}
		}
	}
	before := string(fsys.Content("/d/cluster/node.0"))
	if _, err := Open(fsys, "/d", slog.New(slog.DiscardHandler)); err != nil || string(fsys.Content("/d/cluster/node.0")) != before {
		t.Errorf("whole copies are written again: %v", err)
	}
}

// TestIdentityCrash cuts the power at each operation of a change: the node is the old
// one or the new one.
func TestIdentityCrash(t *testing.T) {
	old := &Identity{Cluster: "c", Name: "n", ID: "n/1", State: Member}
	base := vfstest.New()
	if err := Write(base, "/d", old); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(testseed.Of(t), 1))
	for n := 0; ; n++ {
		f := base.Clone()
		next := *old
		next.State, next.ID = Transfer, "n/2"
		ops := f.FailFrom(n, errors.New("power cut"))
		err := Write(f, "/d", &next)
		f.SetHook(nil)
		for range 8 {
			have, readErr := Read(f.CrashLocked(random, random.Float64()), "/d")
			if readErr != nil || have.ID != "n/1" && have.ID != "n/2" || err == nil && have.ID != "n/2" {
				t.Fatalf("operation %d: %+v %v, the write %v", n, have, readErr, err)
			}
		}
		if ops() < n {
			return
		}
	}
}

func TestNames(t *testing.T) {
	if NameOf("n1/00aa") != "n1" || NameOf("n1") != "n1" {
		t.Error("name of an id")
	}
	if a, b := NewID("n1"), NewID("n1"); a == b || NameOf("n1/x") != "n1" || !strings.HasPrefix(a, "n1/") {
		t.Errorf("ids %s %s", a, b)
	}
	if err := CheckSingle(vfs.OS, t.TempDir()); err != nil {
		t.Error(err)
	}
	if err := CheckName(strings.Repeat("x", 65)); err == nil {
		t.Error("a long name is taken")
	}
}
