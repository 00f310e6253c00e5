package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"tsdbd/internal/testkit/apptest"
)

// TestImportFromServer moves everything from one tsdbd to another: to the bit, with
// infinities and the NaN that Prometheus gives a meaning, which JSON cannot have.
func TestImportFromServer(t *testing.T) {
	old, s := apptest.Start(t), apptest.Start(t)
	old.Query("", `CREATE DATABASE d WITH DURATION INF SHARD DURATION 1d NAME "one \"1\""`)
	old.Query("", "CREATE RETENTION POLICY long ON d DURATION INF REPLICATION 1")
	old.Query("", "CREATE DATABASE e")
	old.Query("", "CREATE CONTINUOUS QUERY q ON d BEGIN SELECT mean(f) AS f INTO d.long.n FROM m GROUP BY time(1d), * END")
	// Its condition holds for no row, so it writes none.
	old.Query("", `CREATE DOWNSAMPLE ON d FROM "one \"1\"" INTO long EVERY 1h AS max, mean WHERE h IN ('none')`)
	old.Query("", "CREATE USER u WITH PASSWORD 'p'")
	old.Query("", "GRANT WRITE ON d TO u")
	old.Write("d", "m,h=a f=0x7ff0000000000002,g=0x7ff0000000000000,i=9007199254740993i,u=18446744073709551615u,s=\"a\\\"b\nc\",b=t 1\nm f=-0 86400000000000\nm*x,a\\ b=c\\,d f=1 2\nmax f=7 2")
	old.Write("e", "only v=1 1600000000000000000")
	if status, answer := old.Send("/write?db=d&rp=long", "l,h=b v=1 1700000000000000000"); status != http.StatusNoContent {
		t.Fatalf("write answers %d %s", status, answer)
	}

	old.Query("", "ALTER RETENTION POLICY long ON d FUTURE LIMIT 1h COLD INF")
	old.Query("", `ALTER RETENTION POLICY "one \"1\"" ON d COLD 36h`)

	plan, _, err := tsdbd(t, "import", "-from", old.URL, "-host", s.URL, "-dry-run")
	if err != nil || !strings.Contains(plan, "d.long.l") || !strings.Contains(plan, "10 values") {
		t.Errorf("a dry run says %q, %v", plan, err)
	}
	if got := s.Query("", "SHOW DATABASES"); strings.Contains(got, `"d"`) {
		t.Errorf("a dry run made %s", got)
	}
	journal := t.TempDir() + "/journal"
	for range 2 {
		out, errs, err := tsdbd(t, "import", "-from", old.URL, "-host", s.URL, "-journal", journal)
		if err != nil || !strings.HasPrefix(out, "6 points processed, 6 written, 0 refused") || strings.Contains(out, "differs") || !strings.Contains(out, "\n  CREATE USER \"u\" WITH PASSWORD '...'\n  GRANT WRITE ON \"d\" TO \"u\"\n") {
			t.Errorf("import says %q %q, %v", out, errs, err)
		}
		if _, err := os.Stat(journal); err == nil {
			t.Error("the journal stays after the end")
		}
	}
	points := func(of *apptest.Server) string {
		t.Helper()
		out, _, err := tsdbd(t, "export", "-host", of.URL)
		if err != nil {
			t.Fatal(err)
		}
		lines := slices.Sorted(strings.Lines(out))
		return strings.Join(lines, "")
	}
	if got, want := points(s), points(old); got != want {
		t.Errorf("points\n%s\nwant\n%s", got, want)
	}
	for _, q := range []string{"SHOW RETENTION POLICIES ON d", "SHOW CONTINUOUS QUERIES"} {
		if got, want := s.Query("", q), old.Query("", q); got != want {
			t.Errorf("%s\n got %s\nwant %s", q, got, want)
		}
	}

	downsample := `["one \"1\"","long","1h","max, mean","h IN ('none')",`
	if got := s.Query("", "SHOW DOWNSAMPLES"); !strings.Contains(got, downsample) {
		t.Errorf("SHOW DOWNSAMPLES: %s", got)
	}

	// Only what is chosen.
	policy := apptest.Start(t)
	if out, errs, err := tsdbd(t, "import", "-from", old.URL, "-host", policy.URL, "-db", "d", "-rp", "long"); err != nil || !strings.Contains(out, "1 continuous queries made\n") || strings.Contains(out, "downsamples") {
		t.Errorf("import of one policy says %q %q, %v", out, errs, err)
	}
	chosen := apptest.Start(t)
	out, errs, err := tsdbd(t, "import", "-from", old.URL, "-host", chosen.URL, "-db", "d", "-measurement", "m?x", "-end", "5")
	if err != nil || !strings.HasPrefix(out, "2 points processed") {
		t.Errorf("import of one measurement says %q %q, %v", out, errs, err)
	}
}

// TestImportFromServerRefuses: what cannot work is told in a line, and changes nothing.
func TestImportFromServerRefuses(t *testing.T) {
	s := apptest.Start(t)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<html>") // the client may be gone
	}))
	defer web.Close()
	locked := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user+password != "up" || r.URL.Path != "/ping" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":"authorization failed"}`) // the client may be gone
		}
	}))
	defer locked.Close()
	notJournal := apptest.TempFile(t, "my letters")
	for _, c := range []struct {
		args   []string
		want   string
		advice string
	}{
		{[]string{"-from", "http://127.0.0.1:1"}, "connection refused", "-from URL"},
		{[]string{"-from", web.URL}, "is this the right address?", ""},
		{[]string{"-from", locked.URL}, "a user and a password", "TSDBD_FROM_TOKEN"},
		{[]string{"-from", strings.Replace(locked.URL, "//", "//u:p@", 1)}, "list the databases: the old server does not accept the login", "-from-user"},
		{[]string{"-from", s.URL}, "are the same server", ""},
		{[]string{"-from", "http://"}, "is no URL", ""},
		{[]string{"-from", web.URL, "file"}, "takes no files", ""},
		{[]string{"-from", web.URL, "-precision", "s"}, "-precision is for files", ""},
		{[]string{"-from", web.URL, "-follow", "-dry-run"}, "exclude each other", ""},
		{[]string{"-follow", "file"}, "-follow needs -from", ""},
		{[]string{"-journal", "j"}, "-journal needs -from", ""},
	} {
		_, _, err := tsdbd(t, append([]string{"import", "-host", s.URL}, c.args...)...)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "u:p@") {
			t.Errorf("%v: %v", c.args, err)
		}
		if got := advice(err); !strings.Contains(got, c.advice) || c.advice == "" && got != "" {
			t.Errorf("%v: the advice is %q", c.args, got)
		}
	}
	other := apptest.Start(t)
	other.Query("", "CREATE DATABASE x")
	if _, _, err := tsdbd(t, "import", "-host", s.URL, "-from", other.URL, "-journal", notJournal); err == nil || !strings.Contains(err.Error(), "not a journal") {
		t.Errorf("another file as journal: %v", err)
	}
	if got := s.Query("", "SHOW DATABASES"); strings.Contains(got, `"x"`) {
		t.Errorf("a refused import made %s", got)
	}
}
