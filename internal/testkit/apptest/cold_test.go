package apptest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tsdbd/cold"
	"tsdbd/internal/object/objecttest"
	"tsdbd/internal/testkit/testseed"
)

// coldEnv are settings of a server whose shards go to a store soon. A test asks for it.
var coldEnv = []string{
	"TSDBD_COLD_AFTER=1h", "TSDBD_COLD_CACHE_SIZE=16MiB", "TSDBD_COLD_TIMEOUT=2s", "TSDBD_COLD_GRACE=1m",
	"TSDBD_DATA_FLUSH_IDLE=100ms", "TSDBD_DATA_COMPACT_AFTER=100ms",
}

func (s *Server) coldStatus() (st cold.Status) {
	s.t.Helper()
	status, body, err := s.Do(context.Background(), http.MethodGet, cold.Path, nil, "")
	if err == nil && status == http.StatusOK {
		err = json.Unmarshal([]byte(body), &st)
	}
	if err != nil || status != http.StatusOK {
		s.t.Fatalf("status of the cold store: %d %s %v", status, body, err)
	}
	return st
}

// coldDo has the server work in the store.
func (s *Server) coldDo(what string, params ...string) (status int, body string) {
	s.t.Helper()
	p := url.Values{"do": {what}}
	for i := 0; i < len(params); i += 2 {
		p.Set(params[i], params[i+1])
	}
	status, body, err := s.Do(context.Background(), http.MethodPost, cold.Path, p, "")
	if err != nil {
		s.t.Fatal(err)
	}
	return status, body
}

// ask returns the answer to a query.
func (s *Server) ask(ctx context.Context, q string) (string, error) {
	status, body, err := s.Do(ctx, http.MethodPost, "/query", url.Values{"db": {"d"}, "q": {q}, "epoch": {"ns"}}, "")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d: %s", status, body)
	}
	return body, err
}

// chill sweeps until all shards have gone to the store that may.
func (s *Server) chill(least int) {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		status, body := s.coldDo("sweep")
		if status == http.StatusOK && len(s.coldStatus().Shards) >= least {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("shards do not go to the store: %d %s %+v\n%s", status, body, s.coldStatus(), tail(s.Log()))
		}
	}
}

// TestCold has a server whose shards go to a bucket, and one that keeps all. Both get the same
// writes, deletes, changed tags and drops, and must give the same answers, also while the
// bucket fails now and then, and after kills.
func TestCold(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(testseed.Of(t), 26))
	bucket := objecttest.NewServer(t)
	one, other := New(t), New(t)
	one.Env = append([]string{
		"TSDBD_COLD_URL=s3://" + objecttest.Bucket + "/p", "TSDBD_COLD_ENDPOINT=" + bucket.URL, "TSDBD_COLD_PATH_STYLE=true",
		"TSDBD_COLD_ACCESS_KEY=a", "TSDBD_COLD_SECRET_KEY=b",
	}, coldEnv...)
	both := []*Server{one, other}
	for _, s := range both {
		s.Restart()
		s.Query("", "CREATE DATABASE d")
	}
	const week = int64(7 * 24 * time.Hour)
	begin := int64(1_500_000_000_000_000_000) / week * week
	write := func(n int) {
		var lines strings.Builder
		for range n {
			at := begin + r.Int64N(4*week)/1e9*1e9
			fmt.Fprintf(&lines, "m,h=h%d v=%d,i=%di,s=\"t%d\" %d\n", r.IntN(6), r.IntN(1000), r.IntN(1000), r.IntN(9), at)
		}
		for _, s := range both {
			s.Write("d", lines.String())
		}
	}
	compare := func() {
		t.Helper()
		from := begin + r.Int64N(4*week)
		for _, q := range []string{
			"SELECT count(v), sum(i), min(v), max(v), first(i), last(i) FROM m",
			"SELECT mean(v), count(s) FROM m GROUP BY time(1d), h fill(none)",
			fmt.Sprintf("SELECT * FROM m WHERE time >= %d AND time < %d", from, from+week/3),
			fmt.Sprintf("SELECT percentile(v, 90), count(distinct(s)) FROM m WHERE h = 'h%d' GROUP BY time(12h) fill(none)", r.IntN(6)),
			"SELECT v FROM m ORDER BY time DESC LIMIT 7",
		} {
			if a, b := one.Query("d", q), other.Query("d", q); a != b {
				t.Fatalf("%s:\n%.2000s\nwithout a store:\n%.2000s", q, a, b)
			}
		}
	}
	statement := func(q string) {
		t.Helper()
		for _, s := range both {
			if answer := s.Query("d", q); strings.Contains(answer, "error") {
				t.Fatalf("%s: %s", q, answer)
			}
		}
	}
	write(40_000)
	one.chill(4)
	st := one.coldStatus()
	bucket.Fault(func(w http.ResponseWriter, _ *http.Request) bool {
		objecttest.Refuse(w, http.StatusServiceUnavailable, "SlowDown")
		return true
	})
	// What the tails say needs no store.
	if a, b := one.Query("d", "SELECT count(v), sum(i), max(v) FROM m"), other.Query("d", "SELECT count(v), sum(i), max(v) FROM m"); a != b {
		t.Errorf("without the bucket: %s, want %s", a, b)
	}
	if answer := one.Query("d", "SELECT percentile(v, 50) FROM m"); !strings.Contains(answer, "error") || !strings.Contains(answer, "unreachable") {
		t.Errorf("rows without the bucket: %s", answer)
	}
	var requests atomic.Int64
	bucket.Fault(func(w http.ResponseWriter, _ *http.Request) bool {
		if requests.Add(1)%5 == 0 {
			objecttest.Refuse(w, http.StatusInternalServerError, "InternalError")
			return true
		}
		return false
	})
	compare()
	for range max(testseed.Rounds(12), 6) {
		switch r.IntN(7) {
		case 0:
			write(1 + r.IntN(300))
		case 1:
			from := begin + r.Int64N(4*week)
			statement(fmt.Sprintf("DELETE FROM m WHERE h = 'h%d' AND time >= %d AND time < %d", r.IntN(6), from, from+r.Int64N(week)))
		case 2:
			statement(fmt.Sprintf("UPDATE m SET h = 'h%d' WHERE h = 'h%d'", r.IntN(6), 6+r.IntN(3)))
		case 3:
			statement(fmt.Sprintf("UPDATE m SET h = 'h%d' WHERE h = 'h%d'", 6+r.IntN(3), r.IntN(6)))
		case 4:
			one.Kill()
			one.Restart()
		default:
			one.chill(0)
		}
		compare()
	}
	bucket.Fault(nil)
	one.chill(1)
	compare()
	if status, body := one.coldDo("verify", "deep", "true"); status != http.StatusOK || !strings.Contains(body, `"problems":[]`) {
		t.Errorf("verify: %d %s", status, body)
	}
	statement("DROP SHARD " + fmt.Sprint(st.Shards[0].ID))
	compare()
	if status, body := one.coldDo("fetch"); status != http.StatusOK {
		t.Errorf("fetch: %d %s", status, body)
	}
	bucket.Fault(func(w http.ResponseWriter, _ *http.Request) bool {
		objecttest.Refuse(w, http.StatusForbidden, "AccessDenied")
		return true
	})
	compare() // all of it is local again
}

// TestColdInADirectory: a second server does not take the store of the first one, a backup
// into the same place copies nothing of cold shards, pruning it leaves them, and a restored
// backup has all rows.
func TestColdInADirectory(t *testing.T) {
	t.Parallel()
	place := t.TempDir()
	start := func() *Server {
		s := New(t)
		s.Env = append([]string{"TSDBD_COLD_URL=file://" + filepath.ToSlash(place)}, coldEnv...)
		s.Restart()
		return s
	}
	s := start()
	s.Query("", "CREATE DATABASE d")
	var lines strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&lines, "m,h=h%d v=%d %d\n", i%7, i*i%1001, 1_500_000_000_000_000_000+int64(i)*37_000_000_000)
	}
	s.Write("d", lines.String())
	s.chill(2)
	const q = "SELECT count(v), sum(v), percentile(v, 42) FROM m"
	want := s.Query("d", q)

	second := start()
	second.Query("", "CREATE DATABASE d")
	second.Write("d", "m v=1 1")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if status, body := second.coldDo("sweep"); status != http.StatusOK {
			if !strings.Contains(body, "belongs to server since") {
				t.Errorf("a second server: %d %s", status, body)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a second server uses the store of the first one")
		}
	}
	second.Kill()

	tsdbd := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(Binary(t), args...).CombinedOutput()
		if err != nil {
			t.Fatalf("tsdbd %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	if out := tsdbd("backup", "-host", s.URL, place); !strings.Contains(out, "of it 0.0MiB copied") {
		t.Errorf("backup to the place of the cold store: %s", out)
	}
	tsdbd("backup", "-host", s.URL, place)
	tsdbd("backup", "-prune", "1", place)
	if out := tsdbd("cold", "verify", "-deep", "-host", s.URL); !strings.Contains(out, " 0 damaged") {
		t.Errorf("after the prune: %s", out)
	}
	other := filepath.Join(t.TempDir(), "backups")
	tsdbd("backup", "-host", s.URL, other)
	for _, from := range []string{place, other} {
		restored := New(t)
		tsdbd("restore", "-data", restored.Dir, from)
		restored.Restart()
		if got := restored.Query("d", q); got != want {
			t.Errorf("restored from %s: %s, want %s", from, got, want)
		}
		restored.Kill()
	}
	s.Stop()
	if out := tsdbd("verify", s.Dir); !strings.Contains(out, "sound") || !strings.Contains(out, "are cold") {
		t.Errorf("verify of the directory: %s", out)
	}
	// Without the settings the tails are there still, and a tail that is lost is made again.
	s.Env = coldEnv[1:]
	s.Restart()
	if got := s.Query("d", "SELECT count(v) FROM m"); !strings.Contains(got, "20000") {
		t.Errorf("without the store: %s", got)
	}
	if got := s.Query("d", q); !strings.Contains(got, "cold.url") {
		t.Errorf("without the store: %s", got)
	}
	s.Stop()
	found, err := filepath.Glob(filepath.Join(s.Dir, "db-*", "shard-*", "*.tail"))
	if err != nil || len(found) == 0 {
		t.Fatal(found, err)
	}
	if err := os.Remove(found[0]); err != nil {
		t.Fatal(err)
	}
	s.Env = append([]string{"TSDBD_COLD_URL=file://" + filepath.ToSlash(place)}, coldEnv...)
	s.Restart()
	if got := s.Query("d", q); got != want {
		t.Errorf("after a tail was lost: %s, want %s", got, want)
	}
}

// TestColdReader has readers of a store: they answer what the server answers for shards that
// are cold, follow its late rows and deletes, take no writes, and go on without the server.
func TestColdReader(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "nas")
	place := "file://" + filepath.ToSlash(dir)
	s := New(t)
	s.Env = append([]string{"TSDBD_COLD_URL=" + place}, coldEnv...)
	s.Begin()
	if err := s.Await(); err != nil {
		t.Fatal(err)
	}
	if text := Refusal(t, "-reader", place, "-data", t.TempDir()); !strings.Contains(text, "nothing has been published") {
		t.Errorf("a reader of an empty store says %q", text)
	}
	s.Query("", "CREATE DATABASE d")
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, "cpu,host=h%d v=%di,f=%g %d\n", i%5, i, float64(i)/7, 1_500_000_000_000_000_000+int64(i)*60_000_000_000)
	}
	s.Write("d", b.String())
	s.chill(2) // the points lie in two weeks
	reader := Start(t, "-reader", place)
	if text := Refusal(t, "-reader", place, "-data", s.Dir); !strings.Contains(text, "has the data of a server") {
		t.Errorf("a reader in the directory of the server says %q", text)
	}
	questions := []string{
		"SELECT count(v), mean(f), max(v) FROM cpu GROUP BY host", "SELECT * FROM cpu WHERE v % 97 = 3 AND host = 'h3' LIMIT 50",
		"SELECT percentile(f, 90) FROM cpu GROUP BY time(6h) FILL(none)", "SHOW TAG VALUES WITH KEY = host", "SHOW SERIES",
	}
	same := func(what string) {
		t.Helper()
		for _, q := range questions {
			want, got := s.Query("d", q), ""
			for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
				if got = reader.Query("d", q); got == want {
					break
				}
				s.coldDo("sweep") // what was not flushed or merged yet at the last one
			}
			if got != want {
				t.Errorf("%s: %s: the reader says %s, the server %s", what, q, got, want)
			}
		}
	}
	same("cold shards")
	if status, answer := reader.Send("/write?db=d", "cpu v=1i 1"); status != http.StatusServiceUnavailable || !strings.Contains(answer, "reading") {
		t.Errorf("a write to a reader: %d %s", status, answer)
	}
	s.Write("d", "cpu,host=late v=77i 1500000000000000001")
	s.Query("d", "DELETE FROM cpu WHERE host = 'h1' AND time < 1500100000000000000")
	same("late rows and a delete")
	want := s.Query("d", questions[0])
	s.Kill()
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	reader.WaitLog("newer state not opened")
	if status, body, err := reader.Do(context.Background(), http.MethodGet, "/health", nil, ""); err != nil || status != http.StatusOK || !strings.Contains(body, "not known") {
		t.Errorf("health of a reader whose store is away: %d %s %v", status, body, err)
	}
	if got := reader.Query("d", questions[0]); got != want {
		t.Errorf("without server and store the reader says %s, want %s", got, want)
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	reader.WaitLog("states are opened again")
	reader.Stop()
	reader.Restart()
	if got := reader.Query("d", questions[0]); got != want {
		t.Errorf("after a restart the reader says %s, want %s", got, want)
	}
}

// TestColdPolicies has a server that brings no shards to its store but those of policies with an age
// of their own, from the statement on. INF keeps those here that were fetched.
func TestColdPolicies(t *testing.T) {
	t.Parallel()
	s := New(t)
	s.Env = append([]string{"TSDBD_COLD_URL=file://" + filepath.ToSlash(t.TempDir())}, coldEnv[1:]...)
	s.Restart()
	statement := func(q string) {
		t.Helper()
		if answer := s.Query("", q); strings.Contains(answer, "error") {
			t.Fatalf("%s: %s", q, answer)
		}
	}
	policies := func() string {
		t.Helper()
		_, rows, _ := strings.Cut(s.Query("", "SHOW RETENTION POLICIES ON d"), `"values":`)
		return strings.TrimRight(rows, "}]\n")
	}
	shards := func() string {
		t.Helper()
		var names []string
		for _, sh := range s.coldStatus().Shards {
			names = append(names, sh.Policy)
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	statement("CREATE DATABASE d")
	statement("CREATE RETENTION POLICY cold ON d DURATION INF REPLICATION 1")
	if got := policies(); strings.Contains(got, "INF") || !strings.Contains(got, `["cold","0s","168h0m0s",1,false`) {
		t.Errorf("policies without ages: %s", got)
	}
	for _, policy := range []string{"autogen", "cold"} {
		if status, answer := s.Send("/write?db=d&rp="+policy, "cold cold=1 1500000000000000000\ncold cold=2 1500000001000000000"); status != http.StatusNoContent {
			t.Fatalf("%d %s", status, answer)
		}
	}
	s.coldDo("sweep")
	statement("CREATE RETENTION POLICY other ON d DURATION INF REPLICATION 1 COLD INF")
	statement("ALTER RETENTION POLICY cold ON d COLD 1h")
	if got, want := policies(), `[["autogen","0s","168h0m0s",1,true,"0s"],["cold","0s","168h0m0s",1,false,"1h0m0s"],["other","0s","168h0m0s",1,false,"INF"`; got != want {
		t.Errorf("policies %s, want %s", got, want)
	}
	s.chill(1)
	if got := shards(); got != "cold" {
		t.Errorf("shards of %q are cold", got)
	}
	if got := s.Query("d", "SELECT cold FROM d.cold.cold WHERE cold > 1"); !strings.Contains(got, `,2]]`) {
		t.Errorf("rows of the cold shard: %s", got)
	}
	statement("ALTER RETENTION POLICY cold ON d COLD INF")
	if status, body := s.coldDo("fetch", "rp", "cold"); status != http.StatusOK || !strings.Contains(body, `"shards":1`) {
		t.Errorf("fetch: %d %s", status, body)
	}
	s.Kill()
	s.Restart()
	for range 3 {
		s.coldDo("sweep")
		if got := shards(); got != "" {
			t.Errorf("shards of %q go to the store again", got)
		}
	}
	statement("ALTER RETENTION POLICY cold ON d COLD 0s; ALTER RETENTION POLICY autogen ON d COLD 1h")
	s.chill(1)
	if got := shards(); got != "autogen" {
		t.Errorf("shards of %q are cold", got)
	}
}
