package inspect

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"tsdbd/meta"
	"tsdbd/shard/repair"
	"tsdbd/store/touched"
)

// TestTouched: a flipped byte of the marks of downsamples is found wherever it is. A start
// sets the file aside and has all windows computed again.
func TestTouched(t *testing.T) {
	dir := t.TempDir()
	st := testStore(t, dir)
	for _, cmd := range []meta.Command{
		meta.CreateRetentionPolicy{Database: "d", Policy: meta.RetentionPolicySpec{Name: "hours"}},
		meta.CreateDownsample{Database: "d", From: "autogen", Into: "hours", Definitions: []meta.Definition{{Period: meta.Period{Every: time.Hour}, Functions: []string{"max"}}}},
	} {
		if err := st.Apply(context.Background(), cmd); err != nil {
			t.Fatal(err)
		}
	}
	write(t, st, lines(2, 3, 10*week))
	for _, d := range st.Catalog().Downsamples() {
		err := st.Apply(context.Background(), meta.CompleteWindows{ID: d.ID, Sequence: 99, Windows: []meta.ComputedWindows{{From: 9 * week, To: 10*week + int64(time.Hour), Target: 99}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if r := verify(t, dir); !r.Sound {
		t.Fatalf("%+v", r.Problems)
	}
	name := dir + "/meta/" + touched.Name
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	put := func(b []byte) {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for at := range whole {
		b := append([]byte(nil), whole...)
		b[at] ^= 0x10
		put(b)
		r := verify(t, dir)
		if r.Sound || len(r.Problems) != 1 || r.Problems[0].Path != name {
			t.Errorf("byte %d: %+v", at, r.Problems)
		}
	}
	st = testStore(t, dir)
	defer st.Close()
	q := st.Figures().Quarantined
	if len(q) != 1 || !strings.HasSuffix(q[0].Path, "/quarantine/"+touched.Name) || q[0].Loss != repair.LossNone || !strings.Contains(q[0].Reason, touched.Name) {
		t.Errorf("in quarantine: %+v", q)
	}
	for _, d := range st.Catalog().Downsamples() {
		if got := st.Touched().Waiting(d.ID, 11*week); len(got) == 0 || got[len(got)-1].Measurement != "" {
			t.Errorf("waiting: %v", got)
		}
	}
}
