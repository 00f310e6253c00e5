package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"tsdbd/inspect"
	"tsdbd/internal/testkit/apptest"
)

// tsdbd runs the program in this process.
func tsdbd(t testing.TB, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	err = run(context.Background(), args, &out, &errs)
	return out.String(), errs.String(), err
}

func must(t testing.TB, args ...string) string {
	t.Helper()
	out, errs, err := tsdbd(t, args...)
	if err != nil {
		t.Fatalf("tsdbd %s: %v\n%s%s", strings.Join(args, " "), err, out, errs)
	}
	return out
}

func TestCommandUsage(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{
		{"inspect"},
		{"inspect", "wal"},
		{"inspect", "x", dir},
		{"inspect", "tsm", dir + "/none"},
		{"inspect", "report", dir + "/none"},
		{"verify"},
		{"verify", dir, "-host", "x"},
		{"verify", dir + "/none"},
		{"verify", "-backup", dir},
		{"backup"},
		{"backup", "-shard", "x", dir},
		{"backup", "-start", "yesterday", dir},
		{"backup", "-host", "127.0.0.1:1", dir},
		{"restore", dir},
		{"restore", "-data", dir + "/a", "-host", "x", dir},
		{"restore", "-data", dir + "/a", dir},
		{"export"},
		{"export", "-data", dir + "/none"},
		{"export", "-data", dir, "-host", "x"},
		{"export", "-data", dir, "more"},
		{"export", "-data", dir, "-format", "xml"},
		{"export", "-data", dir, "-format", "parquet"},
		{"export", "-data", dir, "-format", "parquet", "-out", dir + "/out", "-gzip"},
		{"export", "-data", dir, "-format", "vm", "-lponly"},
		{"export", "-data", dir, "-format", "csv", "-workers", "2"},
		{"import", "a", "b"},
		{"import", dir + "/none"},
	} {
		if _, _, err := tsdbd(t, args...); err == nil {
			t.Errorf("tsdbd %s: no error", strings.Join(args, " "))
		}
	}
}

// fill writes points of all types, some of them deleted again, over a year.
func fill(t testing.TB, s *apptest.Server) {
	t.Helper()
	s.Query("", `CREATE DATABASE "my db" WITH DURATION INF REPLICATION 1 SHARD DURATION 7d NAME "first"`)
	s.Query("", `CREATE RETENTION POLICY second ON "my db" DURATION INF REPLICATION 1`)
	s.Query("", "CREATE DATABASE small")
	var b strings.Builder
	for i := range 3000 {
		at := int64(1_600_000_000+i*10_000) * 1e9
		fmt.Fprintf(&b, "cpu,host=h%d,region=r\\ %d usage=%g,n=%di,on=%t %d\n", i%11, i%3, float64(i)*1.1, i, i%2 == 0, at)
		if i%5 == 0 {
			fmt.Fprintf(&b, "log text=\"line %d\n\\\"second\\\" \\\\ line, = \",u=%du %d\n", i, i, at)
		}
	}
	s.Write("my db", b.String())
	s.Write("small", "m,t=a v=1 1\nm,t=b v=2 2\n")
	status, body, err := s.Do(context.Background(), http.MethodPost, "/write", url.Values{"db": {"my db"}, "rp": {"second"}}, "cpu,host=x usage=5 1000\n")
	if err != nil || status != http.StatusNoContent {
		t.Fatal(status, body, err)
	}
	s.Query("my db", "DELETE FROM cpu WHERE host = 'h3'")
}

var questions = []struct{ db, q string }{
	{"my db", "SELECT * FROM cpu"},
	{"my db", "SELECT mean(usage), count(n), max(n) FROM cpu WHERE time > '2020-01-01' AND time < '2022-01-01' GROUP BY host, time(30d) fill(none)"},
	{"my db", "SELECT * FROM log ORDER BY time DESC LIMIT 100"},
	{"my db", "SELECT * FROM second.cpu"},
	{"my db", "SHOW TAG VALUES FROM cpu WITH KEY IN (host, region)"},
	{"my db", "SHOW FIELD KEYS"},
	{"my db", "SHOW SERIES"},
	{"small", "SELECT * FROM m"},
	{"", `SHOW RETENTION POLICIES ON "my db"`},
}

func answers(s *apptest.Server) []string {
	var out []string
	for _, q := range questions {
		out = append(out, s.Query(q.db, q.q))
	}
	return out
}

func sameAnswers(t testing.TB, what string, got, want []string) {
	t.Helper()
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%s: %s\n got %.400s\nwant %.400s", what, questions[i].q, got[i], want[i])
		}
	}
}

// TestBackupAndRestore goes once around: backup of a running server, into an
// empty directory, into another running server, under another name, and over
// the points of the same one; and export and import by all ways.
func TestBackupAndRestore(t *testing.T) {
	s := apptest.Start(t)
	fill(t, s)
	want := answers(s)
	repo := t.TempDir()
	out := must(t, "backup", "-host", s.URL, repo)
	if !strings.HasPrefix(out, "backup 20") {
		t.Errorf("backup says %q", out)
	}
	s.Write("small", "m,t=c v=3 3\n")
	var res struct{ Bytes, Copied int64 }
	if err := json.Unmarshal([]byte(must(t, "backup", "-json", "-host", s.URL, repo)), &res); err != nil || res.Copied == 0 || res.Copied > res.Bytes/2 {
		t.Errorf("second backup: %+v %v", res, err)
	}
	names := strings.Split(strings.TrimSpace(must(t, "backup", "-list", repo)), "\n")
	if len(names) != 2 {
		t.Fatal(names)
	}
	first := strings.Fields(names[0])[0]
	must(t, "verify", "-backup", repo)
	must(t, "verify", "-host", s.URL)

	t.Run("empty directory", func(t *testing.T) {
		other := apptest.Start(t)
		other.Stop()
		other.Dir = t.TempDir()
		must(t, "restore", "-backup", first, "-data", other.Dir, repo)
		must(t, "verify", other.Dir)
		other.Restart()
		sameAnswers(t, "restored", answers(other), want)
		if _, _, err := tsdbd(t, "verify", other.Dir); !errors.Is(err, inspect.ErrInUse) {
			t.Errorf("verify of a directory in use: %v", err)
		}
	})
	t.Run("running server", func(t *testing.T) {
		other := apptest.Start(t)
		must(t, "restore", "-backup", first, "-host", other.URL, repo)
		sameAnswers(t, "restored", answers(other), want)
		must(t, "restore", "-backup", first, "-host", other.URL, repo) // again: nothing doubles
		sameAnswers(t, "restored twice", answers(other), want)

		// Under other names, beside the same data.
		must(t, "restore", "-host", other.URL, "-db", "my db", "-rp", "second", "-newdb", "copy", "-newrp", "third", repo)
		if got, want := other.Query("copy", "SELECT * FROM third.cpu"), s.Query("my db", "SELECT * FROM second.cpu"); got != want {
			t.Errorf("under other names: %s, want %s", got, want)
		}
		sameAnswers(t, "beside it", answers(other), want)

		// Merged into points that are there already; a part of the time.
		other.Query("", "CREATE DATABASE merged")
		other.Write("merged", "m,t=a v=9,w=9 1\nm,t=z v=9 2\n")
		must(t, "restore", "-host", other.URL, "-db", "small", "-rp", "autogen", "-newdb", "merged", "-start", "0", "-end", "2", repo)
		if got := other.Query("merged", "SELECT v, w FROM m GROUP BY t"); !strings.Contains(got, `"tags":{"t":"a"},"columns":["time","v","w"],"values":[[1,1,9]]`) ||
			!strings.Contains(got, `"t":"z"`) || !strings.Contains(got, `"t":"b"`) || strings.Contains(got, `"t":"c"`) {
			t.Errorf("merged: %s", got)
		}
	})
	t.Run("export and import", func(t *testing.T) {
		dir := t.TempDir()
		live, zipped, saved := dir+"/live.txt", dir+"/live.gz", dir+"/backup.txt"
		must(t, "export", "-host", s.URL, "-out", live)
		must(t, "export", "-host", s.URL, "-gzip", "-workers", "3", "-out", zipped)
		must(t, "export", "-backup", repo, "-out", saved)
		s.Stop()
		offline := must(t, "export", "-data", s.Dir)
		s.Restart()
		sum := lineSet(t, offline)
		for _, f := range []string{live, saved} {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(lineSet(t, string(b)), sum) {
				t.Errorf("%s differs from the export of the directory", f)
			}
		}
		other := apptest.Start(t)
		out := must(t, "import", "-host", other.URL, zipped)
		if !strings.Contains(out, " 0 refused; 3 statements, 0 failed") {
			t.Errorf("import says %q", out)
		}
		sameAnswers(t, "imported", answers(other), answers(s))
		if !slices.Equal(lineSet(t, must(t, "export", "-host", other.URL)), sum) {
			t.Error("export of the import differs")
		}
	})
	t.Run("other formats", func(t *testing.T) {
		sources := [][]string{{"-host", s.URL}, {"-backup", repo}, {"-data", s.Dir}}
		outputs := make([]map[string]string, len(sources))
		for i, from := range sources {
			if from[0] == "-data" {
				s.Stop()
			}
			outputs[i] = map[string]string{}
			for _, format := range []string{"csv", "prometheus", "vm"} {
				lines := strings.Split(must(t, append([]string{"export", "-format", format}, from...)...), "\n")
				slices.Sort(lines)
				outputs[i][format] = strings.Join(lines, "\n")
			}
			dir := t.TempDir()
			must(t, append([]string{"export", "-format", "parquet", "-out", dir + "/new/files"}, from...)...)
			err := filepath.WalkDir(dir+"/new/files", func(path string, e os.DirEntry, err error) error {
				if err != nil || e.IsDir() {
					return err
				}
				b, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				file, err := parquet.OpenFile(bytes.NewReader(b), int64(len(b)))
				if err != nil {
					return err
				}
				outputs[i][path[len(dir):]] = fmt.Sprint(len(file.Schema().Fields()), " columns, ", file.NumRows(), " rows")
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		s.Restart()
		if len(outputs[0]) < 6 || !strings.Contains(outputs[0]["prometheus"], "# EOF\n") || !strings.Contains(outputs[0]["vm"], `{"metric":{"__name__":"cpu_`) {
			t.Errorf("formats: %.2000v", outputs[0])
		}
		for i := range outputs {
			if !maps.Equal(outputs[i], outputs[0]) {
				t.Errorf("%v differs from the server: %.2000v\nwant %.2000v", sources[i], outputs[i], outputs[0])
			}
		}
		zipped := t.TempDir() + "/all.csv.gz"
		must(t, "export", "-host", s.URL, "-format", "csv", "-gzip", "-out", zipped)
		other := apptest.Start(t)
		if out := must(t, "import", "-host", other.URL, zipped); !strings.Contains(out, " 0 refused; 3 statements, 0 failed") {
			t.Errorf("import says %q", out)
		}
		sameAnswers(t, "imported", answers(other), answers(s))
	})
	t.Run("prune", func(t *testing.T) {
		if out := must(t, "backup", "-prune", "1", repo); !strings.HasPrefix(out, "removed 1 backups") {
			t.Errorf("prune says %q", out)
		}
		must(t, "verify", "-backup", repo)
	})
}

func lineSet(t testing.TB, text string) []string {
	t.Helper()
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	if len(lines) < 3000 {
		t.Fatalf("%d lines only", len(lines))
	}
	return lines
}

// TestBackupUnderLoad takes backups while clients write, and kills the server
// behind the last one: the backup has everything that was acknowledged before
// it began, and is sound.
func TestBackupUnderLoad(t *testing.T) {
	s := apptest.Start(t, "-config", smallCaches(t))
	s.Query("", "CREATE DATABASE d")
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var acknowledged [3]atomic.Int64
	var slowest atomic.Int64
	var wg sync.WaitGroup
	for w := range acknowledged {
		wg.Go(func() {
			for i := int64(1); ctx.Err() == nil; i++ {
				var b strings.Builder
				for k := range int64(50) {
					fmt.Fprintf(&b, "m,w=%d,s=%d v=%di %d\n", w, k, i, 1_700_000_000_000_000_000+i*1e9+(k%2)*30*24*3600*1e9)
				}
				begin := time.Now()
				status, body, err := s.Do(context.Background(), http.MethodPost, "/write", url.Values{"db": {"d"}}, b.String())
				if err != nil || status != http.StatusNoContent {
					t.Errorf("write: %d %s %v", status, body, err)
					return
				}
				slowest.Store(max(slowest.Load(), int64(time.Since(begin))))
				acknowledged[w].Store(i)
			}
		})
	}
	repo := t.TempDir()
	var before [3]int64
	for range 5 {
		for w := range before {
			for was := before[w]; before[w] < was+5 && !t.Failed(); time.Sleep(time.Millisecond) {
				before[w] = acknowledged[w].Load()
			}
		}
		must(t, "backup", "-host", s.URL, repo)
	}
	stop()
	wg.Wait()
	s.Kill()
	t.Logf("%d entries of 50 points, slowest write %v", before[0]+before[1]+before[2], time.Duration(slowest.Load()))
	must(t, "verify", "-backup", repo)
	s.Dir = t.TempDir()
	must(t, "restore", "-data", s.Dir, repo)
	must(t, "verify", s.Dir)
	s.Restart()
	for w := range before {
		got := s.Query("d", fmt.Sprintf("SELECT count(v) FROM m WHERE w = '%d'", w))
		var n int64
		if i := strings.LastIndex(got, ","); i < 0 {
			t.Fatal(got)
		} else if _, err := fmt.Sscanf(got[i:], ",%d]", &n); err != nil {
			t.Fatal(got, err)
		}
		if n%50 != 0 || n < 50*before[w] || before[w] == 0 {
			t.Errorf("writer %d: %d points in the backup, %d entries of 50 were acknowledged before it", w, n, before[w])
		}
	}
}

func smallCaches(t testing.TB) string {
	name := filepath.Join(t.TempDir(), "tsdbd.toml")
	if err := os.WriteFile(name, []byte("[data]\nflush-size = \"256KiB\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestVerifyDamage finds a flipped byte with its offset, and says so by its
// exit code.
func TestVerifyDamage(t *testing.T) {
	s := apptest.Start(t)
	fill(t, s)
	s.Stop()
	must(t, "verify", s.Dir)
	files, err := filepath.Glob(s.Dir + "/db-1/shard-*/*.tsm")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/3] ^= 0x40
	if err := os.WriteFile(files[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, err := tsdbd(t, "verify", "-json", s.Dir)
	if !errors.Is(err, errDamaged) {
		t.Fatalf("%v\n%s", err, out)
	}
	var r inspect.VerifyReport
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if r.Sound || len(r.Problems) == 0 || r.Problems[0].Path != files[0] || r.Problems[0].Offset < 0 || r.Problems[0].Offset > int64(len(b)) {
		t.Errorf("%+v", r)
	}
	text, _, _ := tsdbd(t, "verify", s.Dir)
	if !strings.Contains(text, fmt.Sprintf("damage: %s at offset %d", files[0], r.Problems[0].Offset)) {
		t.Errorf("verify says %s", text)
	}
}

// TestOlderBackup: every command that reads a backup of an older build says so, and how its
// points come over. None calls it damaged.
func TestOlderBackup(t *testing.T) {
	dir := t.TempDir()
	body := "{\"version\":1}"
	text := fmt.Sprintf("tsdbd-backup 1 %x\n%s", sha256.Sum256([]byte(body)), body)
	if err := os.WriteFile(filepath.Join(dir, "20250102T030405.000Z.backup"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"backup", "-list", dir},
		{"verify", "-backup", dir},
		{"restore", "-data", t.TempDir(), dir},
		{"export", "-backup", dir},
	} {
		out, _, err := tsdbd(t, args...)
		said := fmt.Sprint(out, err)
		if err == nil || !strings.Contains(said, "backup of version 1 was written by an older tsdbd") || !strings.Contains(said, "tsdbd import -from") || strings.Contains(strings.ToLower(said), "damage") || strings.Contains(said, "corrupt") {
			t.Errorf("%q: %s", args, said)
		}
	}
}

// TestInspect shows every kind of file of a server's directory.
func TestInspect(t *testing.T) {
	s := apptest.Start(t)
	fill(t, s)
	s.Stop()
	shardDir := s.Dir + "/db-1/shard-1"
	for _, args := range [][]string{
		{"wal", s.Dir + "/wal"},
		{"series", s.Dir + "/db-1/series"},
		{"manifest", shardDir},
		{"manifest", shardDir + "/MANIFEST"},
		{"shard", shardDir},
		{"tsm", shardDir + "/00000001.tsm"},
		{"tsi", shardDir + "/00000002.tsi"},
		{"encodings", shardDir + "/00000001.tsm"},
		{"encodings", shardDir},
		{"encodings", s.Dir},
		{"report", s.Dir},
	} {
		for _, more := range [][]string{nil, {"-all"}, {"-json"}, {"-json", "-all"}} {
			out := must(t, append(append([]string{"inspect"}, args...), more...)...)
			if slices.Contains(more, "-json") && !json.Valid([]byte(out)) || len(out) < 20 {
				t.Errorf("inspect %v %v: %s", args, more, out)
			}
		}
	}
	if out := must(t, "inspect", "report", s.Dir); !strings.Contains(out, "host 10, region 3") {
		t.Errorf("report: %s", out)
	}
}

// TestImport sends files of other tools, with lines that are refused.
func TestImport(t *testing.T) {
	s := apptest.Start(t)
	dir := t.TempDir()
	file := dir + "/in.txt"
	text := "# DDL\nCREATE DATABASE one\nCREATE DATABASE two\nCREATE NONSENSE\n# DML\n" +
		"# CONTEXT-DATABASE: one\n# CONTEXT-RETENTION-POLICY: autogen\n\n" +
		"m v=1 1\nm v=2 2\r\nm this is no line\nm v=\"text\" 3\n  m v=4 4\n" +
		"# CONTEXT-DATABASE:two\nm text=\"a\n# no comment\nb\" 1\nm v=5i"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, err := tsdbd(t, "import", "-host", s.URL, "-failed", dir+"/failed.txt", file)
	if err == nil || !strings.Contains(out, "7 points processed, 5 written, 2 refused; 3 statements, 1 failed") {
		t.Errorf("import says %q, %v\n%s", out, err, errs)
	}
	if !strings.Contains(errs, "field type conflict") || !strings.Contains(errs, "CREATE NONSENSE") {
		t.Errorf("errors: %s", errs)
	}
	if got := s.Query("one", "SELECT v FROM m"); !strings.Contains(got, "[[1,1],[2,2],[4,4]]") {
		t.Errorf("database one: %s", got)
	}
	if got := s.Query("two", "SELECT text FROM m"); !strings.Contains(got, `[[1,"a\n# no comment\nb"]]`) {
		t.Errorf("database two: %s", got)
	}
	failed, err := os.ReadFile(dir + "/failed.txt")
	if err != nil {
		t.Fatal(err)
	}
	if want := "# CONTEXT-DATABASE:one\n# CONTEXT-RETENTION-POLICY:autogen\nm this is no line\nm v=\"text\" 3\n"; string(failed) != want {
		t.Errorf("failed lines %q, want %q", failed, want)
	}
	// A policy that only a header tells of.
	if err := os.WriteFile(file, []byte("# DML\n# CONTEXT-DATABASE:one\n# CONTEXT-RETENTION-POLICY:old x\nm v=1 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, err = tsdbd(t, "import", "-host", s.URL, "-batch", "1", file)
	if err != nil || !strings.Contains(out, "1 points processed, 1 written") || !strings.Contains(errs, `made retention policy old x of one`) {
		t.Errorf("import says %q %q, %v", out, errs, err)
	}
	if got := s.Query("one", `SELECT v FROM "old x".m`); !strings.Contains(got, "[[1,1]]") {
		t.Errorf("imported: %s", got)
	}
	// One that was asked for is a mistake.
	if err := os.WriteFile(file, []byte("m v=1 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := tsdbd(t, "import", "-host", s.URL, "-db", "one", "-rp", "mistyped", file); err == nil || !strings.Contains(err.Error(), "retention policy not found: mistyped") {
		t.Errorf("import into no policy: %v", err)
	}
	// Times of another precision, small batches.
	var b strings.Builder
	for i := range 500 {
		fmt.Fprintf(&b, "n v=%d %d\n", i, i)
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	one := apptest.TempFile(t, "us v=1 7000000")
	must(t, "import", "-host", s.URL, "-db", "one", "-precision", "us", one)
	if got := s.Query("one", "SELECT v FROM us"); !strings.Contains(got, "7000000000") && !strings.Contains(got, "1970-01-01T00:00:07Z") {
		t.Errorf("a time in microseconds is %s", got)
	}
	out = must(t, "import", "-host", s.URL, "-db", "one", "-precision", "s", "-batch", "100", "-workers", "4", file)
	if !strings.Contains(out, "500 points processed, 500 written, 0 refused") {
		t.Errorf("import says %q", out)
	}
	if got := s.Query("one", "SELECT count(v), last(v) FROM n"); !strings.Contains(got, "500,499") {
		t.Errorf("imported: %s", got)
	}
	if _, _, err := tsdbd(t, "import", "-host", s.URL, "-db", "none", file); err == nil {
		t.Error("import into a database that is not there")
	}
}
