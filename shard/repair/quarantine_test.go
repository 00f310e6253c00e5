package repair

import (
	"errors"
	"log/slog"
	"testing"

	"tsdbd/internal/binio"
	"tsdbd/internal/vfs/vfstest"
)

// TestQuarantine moves and copies files of the same name: none is lost, each has
// its reason, and what an operator removes is gone after the next Read.
func TestQuarantine(t *testing.T) {
	fs := vfstest.New()
	put := func(name, text string) {
		t.Helper()
		if err := errors.Join(fs.MkdirAll("/d/sub"), fs.Put("/d/"+name, []byte(text))); err != nil {
			t.Fatal(err)
		}
	}
	q := NewQuarantine(fs, "/d", slog.New(slog.DiscardHandler))
	if err := q.Read(); err != nil || len(q.List()) != 0 {
		t.Fatalf("without a quarantine: %v, %v", q.List(), err)
	}
	why := binio.Corruptf("/d/1.tsm", 7, "checksum mismatch")
	for _, text := range []string{"first", "second"} {
		put("1.tsm", text)
		if err := q.SetAside("1.tsm", why, LossPoints, "Points are missing."); err != nil {
			t.Fatal(err)
		}
		if fs.Content("/d/1.tsm") != nil {
			t.Error("the file was not moved")
		}
	}
	if l := q.List(); l[0].ID == "" || l[0].ID == l[1].ID || l[0].ID == "1.tsm" {
		t.Errorf("two losses have the ids %q and %q", l[0].ID, l[1].ID)
	}
	put("sub/log", "keys")
	if err := q.Copy("sub/log", why, LossNone, "Nothing is missing."); err != nil {
		t.Fatal(err)
	}
	if err := q.SetAside("MANIFEST", errors.New("gone"), LossDeletes, "Deletes are lost."); err != nil {
		t.Fatal(err)
	}
	const in = "/d/quarantine/"
	for name, want := range map[string]string{in + "1.tsm": "first", in + "1.tsm.1": "second", in + "log": "keys", "/d/sub/log": "keys"} {
		if got := string(fs.Content(name)); got != want {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
	check := func(want map[string]Quarantined) {
		t.Helper()
		if err := q.Read(); err != nil || len(q.List()) != len(want) {
			t.Errorf("%d in quarantine, want %d: %v", len(q.List()), len(want), err)
		}
		for _, f := range q.List() {
			w := want[f.Path]
			if f.Loss != w.Loss || f.Gone != w.Gone || f.Reason != w.Reason || f.Text != w.Text {
				t.Errorf("%+v, want %+v", f, w)
			}
		}
	}
	moved := Quarantined{Loss: LossPoints, Reason: why.Error(), Text: why.Error() + " Points are missing. Lost: points"}
	copied := Quarantined{Loss: LossNone, Reason: why.Error(), Text: why.Error() + " Nothing is missing. Lost: nothing"}
	gone := Quarantined{Loss: LossDeletes, Gone: true, Reason: "gone", Text: "gone Deletes are lost. Lost: deletes"}
	check(map[string]Quarantined{in + "1.tsm": moved, in + "1.tsm.1": moved, in + "log": copied, in + "MANIFEST": gone})
	if err := fs.RemoveAll(in + "1.tsm.reason"); err != nil {
		t.Fatal(err)
	}
	check(map[string]Quarantined{in + "1.tsm.1": moved, in + "log": copied, in + "MANIFEST": gone})
}
