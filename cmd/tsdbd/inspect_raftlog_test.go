package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tsdbd/cluster/raftlog"
	"tsdbd/internal/vfs"
)

func TestInspectRaftLog(t *testing.T) {
	dir := filepath.ToSlash(filepath.Join(t.TempDir(), "log"))
	if err := raftlog.Create(vfs.OS, dir, raftlog.Base{Index: 4, Term: 2, Sequence: 40}); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	command := func(args ...string) error {
		out.Reset()
		return run(t.Context(), append([]string{"inspect", "raftlog"}, args...), &out, &out)
	}
	if err := command("-all", dir); err != nil {
		t.Fatal(err)
	}
	if want := "base 4 of term 2 at sequence 40"; !strings.Contains(out.String(), want) {
		t.Errorf("no %q in\n%s", want, out.String())
	}
	name := filepath.Join(dir, "000000000001.rlog")
	if err := os.WriteFile(name, []byte("something else"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := command("-json", dir); !errors.Is(err, errDamaged) {
		t.Errorf("damaged log: %v", err)
	}
	var r raftlog.Report
	if err := json.Unmarshal([]byte(out.String()), &r); err != nil || len(r.Damage) != 1 || filepath.FromSlash(r.Damage[0].Path) != name {
		t.Errorf("%v\n%s", err, out.String())
	}
	if err := command(filepath.Dir(dir)); err == nil {
		t.Error("a directory without a log was read")
	}
}
