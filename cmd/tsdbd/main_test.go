package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tsdbd/internal/proc"
	"tsdbd/internal/testkit/badinput"
)

// TestMain makes the test binary the server when a test starts it as such, so
// that tests can signal and kill a real process.
func TestMain(m *testing.M) {
	if os.Getenv("TSDBD_TEST_MAIN") == "1" {
		main()
		return
	}
	os.Exit(m.Run())
}

// process is a running server.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	base   string
	stdout bytes.Buffer
	stderr logFile
	done   chan struct{} // closed when stdout has ended
}

// logFile is the path of a file that a process logs to. What it logs before it
// answers is there when the answer is: a pipe would have to be read first.
type logFile string

func (f logFile) String() string {
	text, err := os.ReadFile(string(f))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// log returns what the process has logged so far.
func (s *process) log() string { return s.stderr.String() }

// startServer runs the program on a free port with data in dir.
func startServer(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "stderr")
	s := &process{t: t, done: make(chan struct{}), stderr: logFile(file)}
	s.cmd = exec.Command(os.Args[0], append([]string{"-data", dir, "-http", "127.0.0.1:0"}, args...)...)
	s.cmd.Env = append(os.Environ(), "TSDBD_TEST_MAIN=1")
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	s.cmd.Stderr = log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // no harm when it has ended
		_ = s.cmd.Wait()
	})
	address := make(chan string, 1)
	go func() {
		defer close(s.done)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			fmt.Fprintln(&s.stdout, lines.Text())
			if _, url, ok := strings.Cut(lines.Text(), " listens on "); ok {
				address <- url
			}
		}
	}()
	select {
	case s.base = <-address:
	case <-s.done:
		_ = s.cmd.Wait()
		t.Fatalf("the server did not start: %s", s.stderr.String())
	case <-time.After(2 * time.Minute):
		t.Fatal("the server does not start")
	}
	return s
}

// stop ends the process politely and returns what it said.
func (s *process) stop() (stdout string) {
	s.t.Helper()
	if err := proc.Stop(s.cmd); err != nil {
		s.t.Fatal(err)
	}
	<-s.done
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("the server ended with %v: %s", err, s.stderr.String())
	}
	return s.stdout.String()
}

// kill ends the process as a crash does.
func (s *process) kill() {
	s.t.Helper()
	if err := s.cmd.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	<-s.done
	_ = s.cmd.Wait() // "killed"
}

func (s *process) post(path, body string) (status int, answer string) {
	s.t.Helper()
	resp, err := http.Post(s.base+path, "text/plain", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func (s *process) query(db, q string) string {
	s.t.Helper()
	status, body := s.post("/query?epoch=ns&db="+url.QueryEscape(db)+"&q="+url.QueryEscape(q), "")
	if status != 200 {
		s.t.Fatalf("%s: %d %s", q, status, body)
	}
	return body
}

func (s *process) write(db, lines string) {
	s.t.Helper()
	if status, body := s.post("/write?db="+url.QueryEscape(db), lines); status != 204 {
		s.t.Fatalf("write: %d %s", status, body)
	}
}

func TestBadInput(t *testing.T) {
	s := startServer(t, t.TempDir())
	badinput.Run(t, s.base, true, func(t *testing.T) string {
		var state strings.Builder
		for _, q := range []string{
			"SHOW DATABASES", "SHOW RETENTION POLICIES", "SHOW MEASUREMENTS", "SHOW SERIES", "SHOW FIELD KEYS", "SHOW TAG KEYS",
			"SHOW CONTINUOUS QUERIES", "SHOW USERS", "SELECT * FROM /.*/ GROUP BY *",
		} {
			state.WriteString(s.query(badinput.Database, q))
		}
		return state.String()
	})
}

func TestFirstSteps(t *testing.T) {
	dir := t.TempDir()
	s := startServer(t, dir)
	s.query("", "CREATE DATABASE demo")
	s.write("demo", "weather,city=oslo temperature=-3.5 1500000000000000000")
	const want = `{"results":[{"statement_id":0,"series":[{"name":"weather","columns":["time","city","temperature"],"values":[[1500000000000000000,"oslo",-3.5]]}]}]}` + "\n"
	if got := s.query("demo", "SELECT * FROM weather"); got != want {
		t.Errorf("got %s", got)
	}
	if out := s.stop(); !strings.Contains(out, "There is no data yet") || !strings.Contains(out, "curl -X POST '"+s.base+"/query'") {
		t.Errorf("said %q", out)
	}

	s = startServer(t, dir)
	if got := s.query("demo", "SELECT * FROM weather"); got != want {
		t.Errorf("after a restart: %s", got)
	}
	if out := s.stop(); strings.Contains(out, "There is no data yet") {
		t.Errorf("after a restart: said %q", out)
	}
}

func TestKilledServerKeepsWhatItAcknowledged(t *testing.T) {
	dir := t.TempDir()
	written := 0
	for round := range 3 {
		s := startServer(t, dir)
		s.query("", "CREATE DATABASE k")
		for range 50 {
			s.write("k", fmt.Sprintf("m,host=a v=%d %d\nm,host=b v=%d %d", written, written+1, -written, written+1))
			written++
		}
		s.kill()
		s = startServer(t, dir)
		var doc struct {
			Results []struct {
				Series []struct{ Values [][]float64 }
			}
		}
		body := s.query("k", "SELECT count(v), sum(v) FROM m")
		if err := json.Unmarshal([]byte(body), &doc); err != nil || len(doc.Results) != 1 || len(doc.Results[0].Series) != 1 {
			t.Fatalf("round %d: %v: %s", round, err, body)
		}
		if row := doc.Results[0].Series[0].Values[0]; row[1] != float64(2*written) || row[2] != 0 {
			t.Fatalf("round %d: count %v, sum %v; %d points were acknowledged", round, row[1], row[2], 2*written)
		}
		s.stop()
	}
}

// TestStopUnderLoad stops a server that is being written to: every answer is a
// 204 or asks to come back, and what was answered 204 is there afterwards.
func TestStopUnderLoad(t *testing.T) {
	dir := t.TempDir()
	s := startServer(t, dir)
	s.query("", "CREATE DATABASE d")
	var acknowledged atomic.Int64
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := 0; ; i++ {
				resp, err := http.Post(s.base+"/write?db=d", "text/plain", strings.NewReader(fmt.Sprintf("m,w=%d v=1 %d", w, i)))
				if err != nil {
					return // no longer listening
				}
				_ = resp.Body.Close()
				switch resp.StatusCode {
				case 204:
					acknowledged.Add(1)
				case 503:
				default:
					t.Errorf("status %d", resp.StatusCode)
					return
				}
			}
		})
	}
	for acknowledged.Load() < 100 && !t.Failed() {
		time.Sleep(time.Millisecond)
	}
	s.stop()
	writers.Wait()
	s = startServer(t, dir)
	body := s.query("d", "SELECT count(v) FROM m")
	_, rest, _ := strings.Cut(body, `"values":[[0,`)
	count, _, _ := strings.Cut(rest, "]")
	n, err := strconv.ParseInt(count, 10, 64)
	// A write may be stored whose answer was lost with its connection.
	if err != nil || n < acknowledged.Load() || n > acknowledged.Load()+4 || n == 0 {
		t.Errorf("%d acknowledged, %s", acknowledged.Load(), body)
	}
}

func TestDeleteByTheV2API(t *testing.T) {
	s := startServer(t, t.TempDir())
	s.query("", `CREATE DATABASE d; CREATE RETENTION POLICY r2 ON d DURATION INF REPLICATION 1`)
	fill := func() {
		for _, path := range []string{"/write?db=d&precision=s", "/write?db=d&rp=r2&precision=s"} {
			if status, body := s.post(path, "m,h=a v=1 10\nm,h=b v=2 10\nm,h=a v=3 20\nn,h=a v=4 10"); status != 204 {
				t.Fatalf("%d %s", status, body)
			}
		}
	}
	// left returns the sums of m and n in both policies.
	left := func() string {
		var sums []string
		for _, from := range []string{"autogen.m", "autogen.n", "r2.m", "r2.n"} {
			_, rest, _ := strings.Cut(s.query("d", "SELECT sum(v) FROM "+from), `"values":[[0,`)
			sum, _, _ := strings.Cut(rest, "]")
			sums = append(sums, sum)
		}
		return strings.Join(sums, " ")
	}
	f := func(bucket, predicate, want string) {
		t.Helper()
		fill()
		body := fmt.Sprintf(`{"start":"1970-01-01T00:00:10Z","stop":"1970-01-01T00:00:20Z","predicate":%q}`, predicate)
		if status, answer := s.post("/api/v2/delete?bucket="+bucket, body); status != 200 || answer != "" {
			t.Fatalf("%d %s", status, answer)
		}
		if got := left(); got != want {
			t.Errorf("%s %s: %s is left, want %s", bucket, predicate, got, want)
		}
	}
	f("d/autogen", `_measurement="nosuch"`, "6 4 6 4")
	f("d/autogen", `_measurement="m" AND h="a"`, "5 4 6 4")
	f("d/r2", `h=a`, "6 4 5 ")
	f("d/autogen", `(_measurement=m) AND (h='b')`, "4 4 6 4")
	f("d", ``, "3  3 ")

	// Bounds beyond the legal times.
	between := func(start, stop, want string) {
		t.Helper()
		fill()
		s.post("/write?db=d", "m v=100 -9223372036854775806\nm v=1000 9223372036854775806") // the first and the last legal time
		if status, answer := s.post("/api/v2/delete?bucket=d/autogen", fmt.Sprintf(`{"start":%q,"stop":%q}`, start, stop)); status != 200 {
			t.Fatalf("%s to %s: %d %s", start, stop, status, answer)
		}
		if got := left(); got != want {
			t.Errorf("%s to %s: %s is left, want %s", start, stop, got, want)
		}
	}
	between("9000-01-01T00:00:00Z", "9999-01-01T00:00:00Z", "1106 4 6 4")
	between("0001-01-01T00:00:00Z", "1000-01-01T00:00:00Z", "1106 4 6 4")
	between("9999-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "1106 4 6 4")
	between("0001-01-01T00:00:00Z", "1677-09-21T00:12:43.145224194Z", "1106 4 6 4") // not the stop itself
	between("2262-04-11T23:47:16.854775806Z", "9999-01-01T00:00:00Z", "106 4 6 4")
	between("0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "1006 4 6 4")
	between("0001-01-01T00:00:00Z", "9999-01-01T00:00:00Z", "  6 4")
}

func TestServiceEndpoints(t *testing.T) {
	s := startServer(t, t.TempDir())
	for _, c := range [][2]string{
		{"/health", `"status":"pass"`},
		{"/ping?verbose=true", `"version":"1.`},
		{"/metrics", "tsdbd_http_requests_total"}, // of those before
	} {
		path, want := c[0], c[1]
		resp, err := http.Get(s.base + path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != 200 || !strings.Contains(string(b), want) {
			t.Errorf("%s: %d %v %.200s", path, resp.StatusCode, err, b)
		}
	}
	if s.stop(); !strings.Contains(s.stderr.String(), "no longer serving") {
		t.Errorf("log: %s", s.stderr.String())
	}
}

func TestASecondServerOnTheSameDataIsRefused(t *testing.T) {
	dir := t.TempDir()
	startServer(t, dir)
	refusal(t, "-data", dir)
}

func TestCommands(t *testing.T) {
	f := func(want string, args ...string) {
		t.Helper()
		var out bytes.Buffer
		if err := run(t.Context(), args, &out, io.Discard); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("tsdbd %v: %v %q", args, err, out.String())
		}
	}
	f("tsdbd "+version, "version")
	f("USAGE:", "help")
	f("USAGE:", "-h")
	f(`bind-address = "127.0.0.1:1"`, "config", "-http", "127.0.0.1:1")
	if err := run(t.Context(), []string{"nosuch"}, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "nosuch") {
		t.Errorf("unknown command: %v", err)
	}
}

// tempFile writes a file that goes with the test and returns its path.
func tempFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
