package apptest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestDamage harms one file of a stopped server's data in each case and starts
// it: what docs/damage.md says of the damage is what happens.
func TestDamage(t *testing.T) {
	t.Parallel()
	const rows = 6000
	origin := New(t)
	origin.Env = []string{"TSDBD_DATA_FLUSH_IDLE=100ms"}
	origin.Restart()
	origin.Query("", "CREATE DATABASE db")
	var b strings.Builder
	for i := range rows {
		fmt.Fprintf(&b, "m,h=h%d,x=%d v=%d.5,s=\"text %d\" %d\n", i%3, i%2000, i*7919%10007, i*31%977, i)
	}
	origin.Write("db", b.String())
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if n, _ := origin.Metric("tsdbd_shard_files"); n >= 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("not flushed")
		}
	}
	origin.Stop()
	origin.Env = nil
	origin.Restart()
	for i := range 20 { // in the log alone
		origin.Write("db", fmt.Sprintf("late v=%d %d", i, i))
	}
	origin.Kill()

	const lost = -1 // some rows may be missing, but not all of the database
	for _, c := range []struct {
		name, file string
		harm       func(data []byte) []byte // nil removes the file
		m, late    int64                    // rows that must be there
		health     string                   // in the text of /health
		warning    string                   // of answers, until the quarantine is cleared
		noStart    bool
	}{
		{name: "one catalog flipped", file: "meta/catalog.0", harm: flip(0.5), m: rows, late: 20, health: "ready"},
		{name: "one catalog lost", file: "meta/catalog.1", m: rows, late: 20, health: "ready"},
		{name: "both catalogs", file: "meta/catalog.*", harm: flip(0.5), noStart: true},
		{name: "reserve lost", file: "meta/reserve.0", m: rows, late: 20, health: "ready"},
		{name: "manifest", file: "db-*/shard-*/MANIFEST", harm: flip(0.5), m: rows, late: 20, health: "quarantine"},
		{name: "both manifests", file: "db-*/shard-*/MANIFEST*", harm: flip(0.5), m: rows, late: 20, health: "quarantine", warning: "deleted points and old names of series may be back in shard"},
		{name: "frame of an index", file: "db-*/shard-*/*.tsi", harm: flip(0), m: rows, late: 20, health: "quarantine"},
		{name: "page of an index", file: "db-*/shard-*/*.tsi", harm: flip(0.3), m: lost, late: 20},
		{name: "index lost", file: "db-*/shard-*/*.tsi", m: rows, late: 20, health: "quarantine"},
		{name: "frame of a tsm file", file: "db-*/shard-*/*.tsm", harm: flip(0), m: 0, late: 20, health: "quarantine", warning: "points are missing in shard"},
		{name: "tsm file cut", file: "db-*/shard-*/*.tsm", harm: cut(0.7), m: 0, late: 20, health: "quarantine", warning: "points are missing in shard"},
		{name: "block of a tsm file", file: "db-*/shard-*/*.tsm", harm: flip(0.3), m: lost, late: 20},
		{name: "series log", file: "db-*/series/series.log", harm: flip(0.5), m: rows, late: 20},
		{name: "series log cut", file: "db-*/series/series.log", harm: cut(0.5), m: rows, late: 20},
		{name: "series index", file: "db-*/series/series.idx", harm: flip(0.5), m: rows, late: 20},
		{name: "log flipped", file: "wal/*.wal", harm: flip(-1), m: rows, late: lost, health: "damaged", warning: "points are missing somewhere"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := New(t)
			if err := os.CopyFS(s.Dir, os.DirFS(origin.Dir)); err != nil {
				t.Fatal(err)
			}
			files, err := filepath.Glob(filepath.Join(s.Dir, c.file))
			if err != nil || len(files) == 0 {
				t.Skipf("there is no %s", c.file)
			}
			for _, file := range files {
				if c.harm == nil {
					if err := os.Remove(file); err != nil {
						t.Fatal(err)
					}
					continue
				}
				data, err := os.ReadFile(file)
				if err == nil {
					err = os.WriteFile(file, c.harm(data), 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if c.noStart {
				bin, err := build()
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
				defer cancel()
				out, err := commandOutput(ctx, bin, "-data", s.Dir, "-http", s.addr)
				if err == nil || ctx.Err() != nil || !strings.Contains(out, "catalog") {
					t.Errorf("started: %v\n%s", err, out)
				}
				return
			}
			s.Restart()
			status, text := s.Health()
			if status != http.StatusOK || !strings.Contains(text, c.health) {
				t.Errorf("health: %d %s", status, text)
			}
			count := func(what, q string, want int64) {
				t.Helper()
				got, err := s.Count("db", q, "partial")
				switch {
				case want == lost:
					t.Logf("%s: %d rows, %v", what, got, err)
				case err != nil || got != want:
					t.Errorf("%s: %d rows, want %d, %v\n%s", what, got, want, err, tail(s.Log()))
				}
			}
			count("m", "SELECT count(v) FROM m", c.m)
			count("late", "SELECT count(v) FROM late", c.late)
			// Values that are served are the ones that were written.
			status, body, err := s.Do(context.Background(), http.MethodPost, "/query", map[string][]string{"db": {"db"}, "q": {"SELECT v FROM m"}, "epoch": {"ns"}, "partial": {"true"}}, "")
			if err != nil || status != http.StatusOK {
				t.Fatalf("%d %v", status, err)
			}
			if err := checkValues(body); err != nil {
				t.Error(err)
			}
			if c.name != "block of a tsm file" {
				checkWarning(t, s, c.warning)
			} else {
				if body := s.Query("db", "SELECT v FROM m"); !strings.Contains(body, "points of shard 1, ") || !strings.Contains(body, " to 1970-01-") {
					t.Errorf("the error does not name the shard and its times: %.500s", body)
				}
				for _, q := range []string{"SELECT v FROM m", "SELECT count(v), sum(v) FROM m, late"} {
					_, body, err := s.Do(context.Background(), http.MethodPost, "/query", map[string][]string{"db": {"db"}, "q": {q}, "epoch": {"ns"}, "partial": {"true"}}, "")
					if err != nil || strings.Contains(body, `"error"`) || !strings.Contains(body, ".tsm is left out") {
						t.Errorf("%s without the damaged file: %.500s %v", q, body, err)
					}
					if err := checkValues(body); err != nil && q == "SELECT v FROM m" {
						t.Error(err)
					}
				}
				_, text := s.Health()
				if !strings.Contains(text, "files have damage that queries may meet, the first: ") || !strings.Contains(text, ".tsm at offset ") {
					t.Errorf("health after a query has met it: %s", text)
				}
				if body := s.Query("", "SHOW DIAGNOSTICS FOR 'damage'"); !strings.Contains(body, `"columns":["damagedFiles","first","logSpans","quarantinedFiles"]`) || !strings.Contains(body, ".tsm") {
					t.Errorf("diagnostics: %s", body)
				}
			}
			s.Write("db", "m,h=new v=1 1000000")
			s.Stop()
			if strings.Contains(s.Log(), "panic") {
				t.Errorf("a panic in the log\n%s", tail(s.Log()))
			}
			s.Restart()
			want := c.m
			if want != lost {
				want++
			}
			count("m again", "SELECT count(v) FROM m", want)
			s.Stop()
		})
	}
}

// TestOlderCopy puts an older copy of a shard's and of a database's directory in the place
// of the newer one: answers, /health and verify say what is missing.
func TestOlderCopy(t *testing.T) {
	t.Parallel()
	s := Start(t)
	s.Query("", "CREATE DATABASE db")
	s.Write("db", "late v=1 1\nlate,h=gone v=2 2")
	s.Stop()
	older := t.TempDir()
	if err := os.CopyFS(older, os.DirFS(s.Dir)); err != nil {
		t.Fatal(err)
	}
	s.Restart()
	s.Write("db", "late v=3 3")
	s.Query("db", "DELETE FROM late WHERE h = 'gone'")
	s.Stop()
	newer := t.TempDir()
	if err := os.CopyFS(newer, os.DirFS(s.Dir)); err != nil {
		t.Fatal(err)
	}
	put := func(from, to string) {
		t.Helper()
		if err := errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(from))); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"db-1/shard-1", "db-1"} {
		put(newer, s.Dir)
		put(filepath.Join(older, dir), filepath.Join(s.Dir, dir))
		const told = "the manifest of shard 1 is older than the ledger says"
		if out, err := command(t, "verify", s.Dir); err == nil || !strings.Contains(out, told) {
			t.Errorf("%s: verify: %v\n%s", dir, err, out)
		}
		s.Restart()
		if status, text := s.Health(); status != http.StatusOK || !strings.Contains(text, told) {
			t.Errorf("%s: health: %d %s", dir, status, text)
		}
		checkWarning(t, s, "points are missing and deleted points and old names of series may be back in shard 1")
		s.Stop()
	}
}

// askCSV returns the header of an answer in CSV.
func askCSV(t *testing.T, s *Server) http.Header {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/query?partial=true&db=db&q=SELECT+count(v)+FROM+late", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/csv")
	resp, err := s.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.Header
}

// checkWarning holds that queries fail where data was lost, unless they ask for what is
// left; that those of times before the data do not, and none does once an operator has
// accepted the loss; and that none has a note once the quarantine is cleared.
func checkWarning(t *testing.T, s *Server, warning string) {
	t.Helper()
	ask := func(where, partial string) string {
		t.Helper()
		_, body, err := s.Do(context.Background(), http.MethodPost, "/query", map[string][]string{"db": {"db"}, "q": {"SELECT count(v) FROM late" + where}, "partial": {partial}}, "")
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	if warning == "" {
		if body := ask("", "true"); strings.Contains(body, `"level":"warning"`) {
			t.Errorf("a warning without a loss: %s", body)
		}
		return
	}
	if body := ask("", "false"); !strings.Contains(body, `"error":"`+warning) || !strings.Contains(body, "quarantine/") || !strings.Contains(body, "add partial=true") {
		t.Errorf("no error %q: %s", warning, body)
	}
	if body := ask("", "true"); !strings.Contains(body, `"messages":[{"level":"warning","text":"`+warning) || !strings.Contains(body, "quarantine/") {
		t.Errorf("no warning %q: %s", warning, body)
	}
	if h := askCSV(t, s); !strings.HasPrefix(h.Get("X-Influxdb-Warning"), warning) {
		t.Errorf("no warning %q beside CSV: %v", warning, h)
	}
	if body := ask(" WHERE time < '1960-01-01T00:00:00Z'", "false"); strings.Contains(warning, "shard") && strings.Contains(body, "error") {
		t.Errorf("an error for times that lost nothing: %s", body)
	}
	damaged := func() int {
		t.Helper()
		status, _, err := s.Do(context.Background(), http.MethodGet, "/health", map[string][]string{"damage": {""}}, "")
		if err != nil {
			t.Fatal(err)
		}
		return status
	}
	if status, text := s.Health(); status != http.StatusOK || !strings.Contains(text, `"message":"degraded: `) || damaged() != http.StatusServiceUnavailable {
		t.Errorf("health with damage: %d %s, with ?damage %d", status, text, damaged())
	}
	for range 5 { // there may be several
		_, rest, damaged := strings.Cut(ask("", "false"), "to accept the loss for good: ")
		if !damaged {
			break
		}
		statement, _, _ := strings.Cut(rest, `"`)
		if body := s.Query("", statement); strings.Contains(body, "error") {
			t.Fatalf("%s: %s", statement, body)
		}
	}
	for restarted := range 2 {
		if body := ask("", "false"); strings.Contains(body, `"error"`) || !strings.Contains(body, warning) || !strings.Contains(body, "; the loss is accepted") {
			t.Errorf("once the loss is accepted: %s", body)
		}
		if status, text := s.Health(); status != http.StatusOK || strings.Contains(strings.ReplaceAll(text, "nothing is lost", ""), "lost") || strings.Contains(text, "quarantine") || damaged() != http.StatusOK {
			t.Errorf("health once the loss is accepted: %d %s", status, text)
		}
		if restarted == 0 {
			s.Stop()
			s.Restart()
		}
	}
	for _, pattern := range []string{"wal/quarantine", "db-*/quarantine", "db-*/shard-*/quarantine"} {
		dirs, err := filepath.Glob(filepath.Join(s.Dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range dirs {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
	}
	deadline := time.Now().Add(time.Minute)
	for strings.Contains(ask("", "false"), `"level":"warning"`) {
		if time.Now().After(deadline) {
			t.Fatal("the quarantine was cleared, and answers still have notes")
		}
		time.Sleep(100 * time.Millisecond)
	}
	if _, text := s.Health(); strings.Contains(text, "quarantine") {
		t.Errorf("health after the quarantine was cleared: %s", text)
	}
}

// flip changes a byte at a part of the file; below 0 shortly before the zeros at
// its end.
func flip(at float64) func([]byte) []byte {
	return func(data []byte) []byte {
		used := len(data)
		if at < 0 {
			for used > 0 && data[used-1] == 0 {
				used--
			}
			data[max(used-300, 0)] ^= 0x55
			return data
		}
		data[int(at*float64(used-1))] ^= 0x55
		return data
	}
}

// cut leaves a part of the file.
func cut(at float64) func([]byte) []byte {
	return func(data []byte) []byte { return data[:int(at*float64(len(data)))] }
}

func commandOutput(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	return string(out), err
}

// checkValues holds every row of an answer to what TestDamage wrote.
func checkValues(body string) error {
	var doc struct {
		Results []struct {
			Error  string
			Series []struct{ Values [][2]float64 }
		}
	}
	if err := json.Unmarshal([]byte(body), &doc); err != nil {
		return err
	}
	for _, r := range doc.Results {
		if r.Error != "" && !strings.Contains(r.Error, "offset") {
			return fmt.Errorf("error does not name the place: %s", r.Error)
		}
		for _, series := range r.Series {
			for _, row := range series.Values {
				if want := float64(int64(row[0])*7919%10007) + 0.5; row[1] != want {
					return fmt.Errorf("at %v: %v, want %v", row[0], row[1], want)
				}
			}
		}
	}
	return nil
}
