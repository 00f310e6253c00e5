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

	"tsdbd/exchange"
	"tsdbd/model"
	"tsdbd/prom/block"
	"tsdbd/transfer/journal"
	"tsdbd/transfer/mover"
	"tsdbd/transfer/sink/server"
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

// result is what a move of blocks has done.
type result struct {
	*mover.Stats
	lost Lost
}

// blocks moves the blocks of a directory to a server, with a journal if it is named.
func blocks(t *testing.T, url string, d *block.Directory, name string, requests server.Options, progress func(mover.Stats)) (result, []string, error) {
	t.Helper()
	client := &exchange.Client{URL: url}
	policy, err := server.DefaultPolicy(t.Context(), client, "d")
	if err != nil {
		t.Fatal(err)
	}
	var notes []string
	opt := mover.Options{Note: func(text string) { notes = append(notes, text) }, Progress: progress}
	if name != "" {
		if opt.Journal, err = journal.Open(name, "test"); err != nil {
			t.Fatal(err)
		}
		defer opt.Journal.Close()
	}
	from := NewBlocks(d, Options{Database: "d", RetentionPolicy: policy, Range: model.AllTime, Note: opt.Note, part: 1})
	s, err := mover.Run(t.Context(), from, server.New(client, requests), opt)
	return result{s, from.Lost()}, notes, err
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
	web := httptest.NewServer(to)
	defer web.Close()
	name := filepath.Join(t.TempDir(), "journal")
	if r, _, err := blocks(t, web.URL, d, name, server.Options{}, nil); err == nil || r.Rows != 7 || r.Written != 5 {
		t.Fatalf("broke off with %+v, %v", r.Stats, err)
	}
	before := len(to.lines)
	if before != 5 || !slices.Equal(to.asked[:2], []string{"CREATE DATABASE d", "SHOW RETENTION POLICIES ON d"}) {
		t.Errorf("sent %q, asked %q", to.lines, to.asked)
	}
	to.refuse = ""
	r, notes, err := blocks(t, web.URL, d, name, server.Options{}, nil)
	if err != nil || r.Rows != 8 || r.Known != 5 || r.Written != 3 || r.Refused != 0 || r.lost != (Lost{}) || len(notes) > 0 {
		t.Errorf("went on with %+v, %v", r, err)
	}
	if slices.Sort(to.lines); !slices.Equal(to.lines, want) {
		t.Errorf("sent\n%s\nwant\n%s", strings.Join(to.lines, "\n"), strings.Join(want, "\n"))
	}
	// The whole was counted, what an earlier run has sent too. NaN is no value.
	for name, m := range r.Source {
		f := m.Fields["value"]
		if name.Database != "d" || name.Policy != "autogen" || len(m.Fields) != 1 || name.Measurement == "up" && (f.Count != 4 || f.Float != 3) || name.Measurement == "requests_total" && f.Count != 3 {
			t.Errorf("%v: %+v of %+v", name, f, m)
		}
	}
	if len(r.Source) != 2 {
		t.Errorf("totals %v", r.Source)
	}
}

// TestBlocksRefused: an import that goes on counts and names what the server refused before it.
func TestBlocksRefused(t *testing.T) {
	d, err := block.List(filepath.Join("testdata", "blocks"))
	if err != nil {
		t.Fatal(err)
	}
	to := &target{bad: "code=200", refuse: "instance=b"}
	web := httptest.NewServer(to)
	defer web.Close()
	name := filepath.Join(t.TempDir(), "journal")
	if r, notes, err := blocks(t, web.URL, d, name, server.Options{}, nil); err == nil || r.Refused != 2 || r.Written != 3 || len(notes) > 0 || len(r.Reasons) != 1 || r.Reasons[0].Values != 2 {
		t.Fatalf("broke off with %+v, %q, %v", r.Stats, notes, err)
	}
	to.refuse, to.bad = "", ""
	r, _, err := blocks(t, web.URL, d, name, server.Options{}, nil)
	if err != nil || r.Rows != 8 || r.Known != 3 || r.Written != 3 || r.Refused != 0 || r.EarlierRefused.Count != 2 || len(r.EarlierRefused.Reasons) != 1 || !strings.Contains(r.EarlierRefused.Reasons[0], "partial write: it is bad") {
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
		web := httptest.NewServer(&target{})
		defer web.Close()
		r, notes, err := blocks(t, web.URL, d, "", server.Options{}, nil)
		notes = append(notes, d.Notes...)
		if err != nil || r.lost.Blocks != 1 || r.Written == 0 || r.Written == 8 || len(notes) != 1 || !strings.Contains(notes[0], whole.Blocks[0].ID) {
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
	web := httptest.NewServer(&target{})
	defer web.Close()
	var latest mover.Stats
	r, _, err := blocks(t, web.URL, d, "", server.Options{BatchBytes: 1}, func(s mover.Stats) {
		if s.Written < latest.Written || s.Rows < latest.Rows {
			t.Errorf("%+v after %+v", s, latest)
		}
		latest = s
	})
	if err != nil || latest.Written != r.Written || r.Written != 8 {
		t.Errorf("%+v, the progress said %+v: %v", r.Stats, latest, err)
	}
}
