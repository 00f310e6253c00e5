package influxhttp

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tsdbd/transfer/journal"
	"tsdbd/transfer/mover"
)

// TestRefused: what the target refuses is counted and kept, and the rest goes on.
func TestRefused(t *testing.T) {
	f, to := newFake(t, "1.8.10", someRows()...), newTarget(t)
	to.refuse = "host=b"
	f.rows = append(f.rows, fakeRow{"m", "line\nbreak", 7, 1})
	name := filepath.Join(t.TempDir(), "refused")
	refused, err := mover.OpenRefused(name, false)
	if err != nil {
		t.Fatal(err)
	}
	defer refused.Close()
	p, err := pulled(t, f, to, pullOptions{refused: refused, workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	failed, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var want []fakeRow
	for _, r := range f.rows {
		if r.host != "b" && !strings.Contains(r.host, "\n") {
			want = append(want, r)
		} else if r.host == "b" && !strings.Contains(string(failed), r.line()) {
			t.Errorf("%s is not among what was refused", r.line())
		}
	}
	to.has(t, want)
	if st := p.stats; p.failed() != int64(len(f.rows)-len(want)) || st.Refused != p.failed() || st.Written != int64(len(want)) || !slices.ContainsFunc(st.Reasons, func(r mover.Reason) bool { return strings.Contains(r.Text, "newline") }) {
		t.Errorf("%+v", st)
	}
}

// TestRefusedOnce: what is refused of a slice that is asked for again is kept once, and
// counted once, also when the import is killed and repeated.
func TestRefusedOnce(t *testing.T) {
	var rows []fakeRow
	for i := range int64(3000) { // more than is sent at once
		rows = append(rows, fakeRow{"m", "b", 3600e9 + i, i})
	}
	f, to := newFake(t, "1.8.10", rows...), newTarget(t)
	f.groups = [][2]string{{"1970-01-01T01:00:00Z", "1970-01-01T02:00:00Z"}}
	to.refuse = "host=b"
	breaks := 0
	f.hook = func(q string, w http.ResponseWriter) bool {
		if !strings.Contains(q, "GROUP BY *") || breaks == 0 {
			return false
		}
		breaks--
		w.Header().Set("Content-Type", "application/json")
		for _, r := range rows[:2900] {
			fmt.Fprintf(w, `{"results":[{"series":[{"name":"m","tags":{"host":"b"},"columns":["time","v"],"values":[[%d,%d]]}],"partial":true}]}`, r.at, r.value)
		}
		panic(http.ErrAbortHandler)
	}
	dir := t.TempDir()
	run := func(patience time.Duration) (*pull, error) {
		t.Helper()
		j, err := journal.Open(filepath.Join(dir, "journal"), "test")
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		refused, err := mover.OpenRefused(filepath.Join(dir, "refused"), true)
		if err != nil {
			t.Fatal(err)
		}
		defer refused.Close()
		p, err := pulled(t, f, to, pullOptions{Options: Options{Patience: patience}, journal: j, refused: refused, batch: 8 << 10})
		return p, err
	}
	breaks = 1000
	first, err := run(20 * time.Millisecond)
	if n := first.failed(); err == nil || n == 0 || n == int64(len(rows)) {
		t.Errorf("a server that breaks off: %d refused, %v", n, err)
	}
	breaks = 1
	for range 2 { // the second time it only continues what is finished
		p, err := run(2 * time.Second)
		if st := &p.stats; err != nil || p.failed() != int64(len(rows)) || st.Refused+st.EarlierRefused.Count != int64(len(rows)) || st.Written != 0 || len(st.Reasons)+len(st.EarlierRefused.Reasons) != 1 {
			t.Errorf("%+v, %v", st, err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "refused"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for line := range strings.Lines(string(text)) {
		seen[strings.TrimSpace(line)]++
	}
	for _, r := range rows {
		if seen[r.line()] != 1 {
			t.Fatalf("%s is there %d times", r.line(), seen[r.line()])
		}
	}
}

// TestRefusedBefore: an import that goes on counts and names what was refused before it, also
// without a file of refused lines, or with another one.
func TestRefusedBefore(t *testing.T) {
	f, to := newFake(t, "1.8.10", append(someRows(), fakeRow{"m", "line\nbreak", 7, 1})...), newTarget(t)
	to.refuse = "host=b"
	dir := t.TempDir()
	var want int64
	for round, name := range []string{"", "", filepath.Join(dir, "refused"), filepath.Join(dir, "refused"), filepath.Join(dir, "other"), ""} {
		j, err := journal.Open(filepath.Join(dir, "journal"), "test")
		if err != nil {
			t.Fatal(err)
		}
		refused, err := mover.OpenRefused(name, true)
		if err != nil {
			t.Fatal(err)
		}
		p, err := pulled(t, f, to, pullOptions{journal: j, refused: refused, workers: 1})
		if err := errors.Join(err, refused.Close(), j.Close()); err != nil {
			t.Fatal(err)
		}
		n, st := p.failed(), p.stats
		if round == 0 {
			if want = n; n < 10 || len(st.Reasons) != 2 {
				t.Fatalf("%+v", st)
			}
			continue
		}
		if n != want || st.Written != 0 || len(st.EarlierRefused.Reasons) != 2 {
			t.Errorf("round %d: %d refused, want %d: %+v", round, n, want, st)
		}
	}
}
