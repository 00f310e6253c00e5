package prometheus

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"tsdbd/model"
	"tsdbd/prom/block"
	"tsdbd/transfer"
	"tsdbd/transfer/compare"
)

// target takes writes. It ends the import at a line that contains refuse, and refuses lines with
// bad, and those sent with them.
type target struct {
	mu     sync.Mutex
	lines  []string
	refuse string
	bad    string
	asked  []string
}

func (s *target) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.URL.Path == "/query" {
		s.asked = append(s.asked, r.FormValue("q"))
		_, _ = io.WriteString(w, `{"results":[{"series":[{"columns":["name","default"],"values":[["old",false],["autogen",true]]}]}]}`)
		return
	}
	text, _ := io.ReadAll(r.Body)
	switch {
	case s.refuse != "" && strings.Contains(string(text), s.refuse):
		w.WriteHeader(http.StatusUnauthorized)
	case s.bad != "" && strings.Contains(string(text), s.bad):
		w.Header().Set("X-Tsdbd-Dropped", strconv.Itoa(strings.Count(string(text), "\n")))
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":"partial write: it is bad"}`)
	default:
		s.lines = append(s.lines, strings.Split(strings.TrimSpace(string(text)), "\n")...)
		w.WriteHeader(http.StatusNoContent)
	}
}

// TestBlocks sends blocks that promtool has made of blocks.txt. An import that breaks off
// continues after the parts that its journal has.
func TestBlocks(t *testing.T) {
	want := []string{
		`requests_total,__name__=requests_total,code=200,path=/a\ b value=10 1767614400000000000`,
		`requests_total,__name__=requests_total,code=200,path=/a\ b value=12.5 1767614460000000000`,
		`requests_total,__name__=requests_total,code=200,path=/a\ b value=0x7ff0000000000000 1767700860000000000`,
		"up,__name__=up,instance=a:9100,job=node value=1 1767614400000000000",
		"up,__name__=up,instance=a:9100,job=node value=0 1767614460000000000",
		"up,__name__=up,instance=a:9100,job=node value=0x7ff8000000000001 1767614520000000000",
		"up,__name__=up,instance=b:9100,job=node value=1 1767614400500000000",
		"up,__name__=up,instance=b:9100,job=node value=1 1767614460500000000",
	}
	slices.Sort(want)
	d, err := block.List(filepath.Join("testdata", "blocks"))
	if err != nil {
		t.Fatal(err)
	}
	to := &target{refuse: "instance=b"}
	server := httptest.NewServer(to)
	defer server.Close()
	client := &transfer.Client{URL: server.URL}
	opt := Options{
		Database: "d", Range: model.AllTime, Journal: filepath.Join(t.TempDir(), "journal"), part: 1,
		Note: func(text string) { t.Error(text) }, Progress: func(Result) {},
	}
	if r, err := Blocks(t.Context(), client, d, opt); err == nil || r.Samples != 7 || r.Stats.Written != 5 {
		t.Fatalf("broke off with %+v, %v", r, err)
	}
	before := len(to.lines)
	if before != 5 || !slices.Equal(to.asked, []string{"CREATE DATABASE d", "SHOW RETENTION POLICIES ON d"}) {
		t.Errorf("sent %q, asked %q", to.lines, to.asked)
	}
	to.refuse = ""
	r, err := Blocks(t.Context(), client, d, opt)
	if err != nil || r.Samples != 8 || r.Known != 5 || r.Stats.Written != 3 || r.Incomplete() != nil {
		t.Errorf("went on with %+v, %v", r, err)
	}
	if slices.Sort(to.lines); !slices.Equal(to.lines, want) {
		t.Errorf("sent\n%s\nwant\n%s", strings.Join(to.lines, "\n"), strings.Join(want, "\n"))
	}
	// The whole was counted, what an earlier run has sent too. NaN is no value.
	for name, m := range r.Totals {
		f := m.Fields["value"]
		if name.Database != "d" || name.Policy != "autogen" || len(m.Fields) != 1 || name.Measurement == "up" && (f.Count != 4 || f.Float != 3) || name.Measurement == "requests_total" && f.Count != 3 {
			t.Errorf("%v: %+v of %+v", name, f, m)
		}
	}
	if len(r.Totals) != 2 {
		t.Errorf("totals %v", r.Totals)
	}
	there := compare.Totals{}
	if err := r.Fewer(there); err == nil || !strings.Contains(err.Error(), "of 2 metrics") {
		t.Errorf("a server without the metrics: %v", err)
	}
	there.Merge(r.Totals)
	if err := r.Fewer(there); err != nil {
		t.Errorf("a server with the same: %v", err)
	}
	// The journal is gone: the same import begins again.
	to.lines = nil
	if r, err := Blocks(t.Context(), client, d, opt); err != nil || r.Known != 0 || len(to.lines) != len(want) {
		t.Errorf("again %+v, %v", r, err)
	}
	// Another import does not take its journal.
	to.refuse = "instance=b"
	if _, err := Blocks(t.Context(), client, d, opt); err == nil {
		t.Fatal("no error")
	}
	opt.Range.Min++
	if _, err := Blocks(t.Context(), client, d, opt); err == nil || !strings.Contains(err.Error(), "journal") {
		t.Errorf("another import with the journal: %v", err)
	}
}

// TestBlocksRefused: an import that goes on counts and names what the server refused before it.
func TestBlocksRefused(t *testing.T) {
	d, err := block.List(filepath.Join("testdata", "blocks"))
	if err != nil {
		t.Fatal(err)
	}
	to := &target{bad: "code=200", refuse: "instance=b"}
	server := httptest.NewServer(to)
	defer server.Close()
	opt := Options{
		Database: "d", Range: model.AllTime, Journal: filepath.Join(t.TempDir(), "journal"), part: 1,
		Note: func(text string) { t.Error(text) }, Progress: func(Result) {},
	}
	client := &transfer.Client{URL: server.URL}
	if r, err := Blocks(t.Context(), client, d, opt); err == nil || r.Stats.Failed != 2 || r.Stats.Written != 3 {
		t.Fatalf("broke off with %+v, %v", r, err)
	}
	to.refuse, to.bad = "", ""
	r, err := Blocks(t.Context(), client, d, opt)
	if err != nil || r.Samples != 8 || r.Known != 3 || r.Stats.Written != 3 || r.Stats.Failed != 2 || len(r.Stats.Errors) != 1 || !strings.Contains(r.Stats.Errors[0], "partial write: it is bad") || r.Incomplete() == nil {
		t.Errorf("went on with %+v, %v", r, err)
	}
}

// TestBlocksHalf: a block that cannot be read is named and counted, and the others come over.
func TestBlocksHalf(t *testing.T) {
	for _, missing := range []string{"index", "chunks", "meta.json"} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "blocks"))); err != nil {
			t.Fatal(err)
		}
		whole, err := block.List(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(dir, whole.Blocks[0].ID, missing)); err != nil {
			t.Fatal(err)
		}
		d, err := block.List(dir)
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(&target{})
		defer server.Close()
		notes := d.Notes
		r, err := Blocks(t.Context(), &transfer.Client{URL: server.URL}, d, Options{
			Database: "d", Range: model.AllTime, Note: func(text string) { notes = append(notes, text) }, Progress: func(Result) {},
		})
		if err != nil || r.Lost != 1 || r.Stats.Written == 0 || r.Stats.Written == 8 || r.Incomplete() == nil || len(notes) != 1 || !strings.Contains(notes[0], whole.Blocks[0].ID) {
			t.Errorf("without %s: %+v, %v, notes %q", missing, r, err, notes)
		}
	}
}

// TestProgress tells how far an import is while requests are under way and the blocks are
// read on.
func TestProgress(t *testing.T) {
	d, err := block.List(filepath.Join("testdata", "blocks"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(&target{})
	defer server.Close()
	var latest Result
	r, err := Blocks(t.Context(), &transfer.Client{URL: server.URL}, d, Options{
		Database: "d", RetentionPolicy: "autogen", Range: model.AllTime, Import: transfer.ImportOptions{BatchBytes: 1},
		Note: func(text string) { t.Error(text) },
		Progress: func(r Result) {
			if r.Stats.Written < latest.Stats.Written || r.Samples < latest.Samples {
				t.Errorf("%+v after %+v", r, latest)
			}
			latest = r
		},
	})
	if err != nil || latest.Stats.Written != r.Stats.Written || r.Stats.Written != 8 {
		t.Errorf("%+v, the progress said %+v: %v", r, latest, err)
	}
}
