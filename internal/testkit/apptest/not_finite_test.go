package apptest

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestNotFinite writes floats that line protocol cannot express by remote write, kills
// the server, and carries them to another database by an export and an import: every
// bit stays, and InfluxQL answers.
func TestNotFinite(t *testing.T) {
	t.Parallel()
	s := Start(t)
	s.Query("", "CREATE DATABASE p")
	var samples []float64
	var want []string
	for i, bits := range []uint64{0x7ff0000000000002, 0x7ff8000000000001, 0xfff8dead0000beef, 0x7ff0000000000000, 0xfff0000000000000, 1 << 63} {
		samples = append(samples, float64(1000*(i+1)), math.Float64frombits(bits))
		text := fmt.Sprintf("0x%016x", bits)
		if i == 5 {
			text = "-0"
		}
		want = append(want, fmt.Sprintf("up,__name__=up value=%s %d", text, int64(i+1)*1e9))
	}
	histogram := message(nil).number(1, 3).double(3, math.Float64frombits(0x7ff0000000000002)).number(15, 7000)
	status, _, body := s.prom("/api/v1/prom/write?db=p", message(nil).sub(1, promSeries("__name__=up", samples...).sub(4, histogram)))
	if status != 204 {
		t.Fatalf("write: %d %s", status, body)
	}
	want = append(want, `up,__name__=up __histogram__="EAAA/+CDgICAgIACAwAAAAA" 7000000000`)
	s.Kill()
	s.Restart()
	command := func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), Binary(t), args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", args[0], err, out)
		}
	}
	exported := func(db string) []string {
		t.Helper()
		lines := filepath.Join(t.TempDir(), "lines")
		command("export", "-host", s.URL, "-db", db, "-lponly", "-out", lines)
		text, err := os.ReadFile(lines)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		slices.Sort(got)
		return got
	}
	slices.Sort(want)
	if got := exported("p"); !slices.Equal(got, want) {
		t.Errorf("exported\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	file := filepath.Join(t.TempDir(), "p")
	command("export", "-host", s.URL, "-db", "p", "-lponly", "-out", file)
	s.Query("", "CREATE DATABASE q")
	command("import", "-host", s.URL, "-db", "q", file)
	s.Stop() // some lines come from files now
	s.Restart()
	for _, db := range []string{"p", "q"} {
		if got := exported(db); !slices.Equal(got, want) {
			t.Errorf("%s after an import and a restart\n%s\nwant\n%s", db, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	f := func(format, q, want string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+"/query?"+url.Values{"db": {"q"}, "epoch": {"s"}, "q": {q}}.Encode(), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", format)
		resp, err := s.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s: %v %s, want %s", q, err, body, want)
		}
	}
	const json, csv = "application/json", "application/csv"
	f(json, "SELECT value FROM up", `"values":[[4,null],[5,null],[6,-0]]`)
	f(csv, "SELECT value FROM up", "up,,4,+Inf\nup,,5,-Inf\nup,,6,-0\n")
	f(json, "SELECT count(value), max(value), first(value) FROM up", `"values":[[0,3,null,null]]`)
	f(json, "SELECT __histogram__ FROM up", `"values":[[7,"EAAA/+CDgICAgIACAwAAAAA"]]`)
}
