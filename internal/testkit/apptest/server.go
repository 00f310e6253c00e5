package apptest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tsdbd/internal/proc"
)

// buildDir is where build put the binary; TestMain removes it.
var buildDir string

var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "tsdbd-apptest-")
	if err != nil {
		return "", err
	}
	buildDir = dir
	bin := filepath.Join(dir, "tsdbd")
	// The build cache keeps a program that go run has linked, but none of go build. Tests
	// that set the clock look for its symbols, which go run leaves out.
	cmd := exec.Command("go", "run", "-ldflags=-s=false", "-exec", "cp", "tsdbd/cmd/tsdbd", bin)
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "tsdbd").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	cmd.Dir = strings.TrimSpace(string(module)) // whoever asks
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the server: %w\n%s", err, out)
	}
	return bin, nil
})

// Main runs the tests of a package that starts the binary.
func Main(m *testing.M) {
	code := m.Run()
	if err := os.RemoveAll(buildDir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// Server is a server process on a data directory of its own.
type Server struct {
	URL  string // http://HOST:PORT; https if the server says so
	Dir  string
	Args []string // in addition to -data and -http
	Env  []string // KEY=value, in addition to the test's own
	Wrap []string // a command line put before the binary's; it must end in exec

	t       testing.TB
	addr    string
	output  string // file
	process atomic.Pointer[proc.Server]
	http    http.Client
}

// Start builds the binary if needed and starts it on an empty directory. The
// process ends with the test.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return StartOn(t, t.TempDir(), args...)
}

// StartOn is Start on a directory.
func StartOn(t testing.TB, dir string, args ...string) *Server {
	t.Helper()
	s := New(t, args...)
	s.Dir = dir
	s.Restart()
	return s
}

// New prepares a server without starting it: its fields may be changed before
// Restart.
func New(t testing.TB, args ...string) *Server {
	t.Helper()
	addr := FreeAddress(t)
	s := &Server{URL: "http://" + addr, Dir: t.TempDir(), Args: args, t: t, addr: addr, output: filepath.Join(t.TempDir(), "output")}
	s.http.Timeout = 3 * time.Minute
	s.http.Transport = &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(s.Kill)
	return s
}

// FreeAddress is proc.FreeAddress, for tests.
func FreeAddress(t testing.TB) string {
	t.Helper()
	address, err := proc.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// Restart starts the process again after Kill or Stop and waits until it
// listens.
func (s *Server) Restart() {
	s.t.Helper()
	s.Begin()
	if err := s.Await(); err != nil {
		s.t.Fatal(err)
	}
}

// Begin starts the process, as Restart does, without waiting for it.
func (s *Server) Begin() {
	s.t.Helper()
	line := append(append(append([]string{}, s.Wrap...), Binary(s.t), "-data", s.Dir, "-http", s.addr), s.Args...)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = append(os.Environ(), s.Env...)
	s.begin(cmd)
}

// begin starts a command that is the server.
func (s *Server) begin(cmd *exec.Cmd) {
	s.t.Helper()
	s.http.CloseIdleConnections() // to the process before
	p, err := proc.Launch(cmd, s.output)
	if err != nil {
		s.t.Fatal(err)
	}
	s.process.Store(p)
}

// Await waits until the process listens. An error means that it ended before, or took
// two minutes and was killed.
func (s *Server) Await() error {
	err := s.process.Load().Await(context.Background(), func(context.Context) error {
		_, rest, ok := strings.Cut(s.Log(), " listens on ")
		url, _, whole := strings.Cut(rest, "\n")
		if !ok || !whole {
			return errors.New("it does not listen")
		}
		s.URL = url
		return nil
	})
	if err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	return nil
}

// Kill ends the process with SIGKILL and waits for its end.
func (s *Server) Kill() {
	if p := s.process.Load(); p != nil {
		p.Kill()
	}
}

// Through sends all requests through a transport that wraps the present one.
func (s *Server) Through(wrap func(http.RoundTripper) http.RoundTripper) {
	s.http.Transport = wrap(s.http.Transport)
}

// Ended reports whether the process has ended, or was never started.
func (s *Server) Ended() bool {
	p := s.process.Load()
	return p == nil || p.Ended()
}

// Stop ends the process with SIGTERM and fails the test if it does not end
// cleanly within three minutes.
func (s *Server) Stop() {
	s.t.Helper()
	if err := s.process.Load().Stop(3 * time.Minute); err != nil {
		s.t.Fatalf("server stopped with %v\n%s", err, s.Log())
	}
}

// Signal sends a signal to the process.
func (s *Server) Signal(sig os.Signal) {
	s.t.Helper()
	if err := s.process.Load().Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// Reload sends SIGHUP and waits until the log contains a text that it did not contain
// before. Settings are in force when it says "configuration reloaded".
func (s *Server) Reload(said string) {
	s.t.Helper()
	from := len(s.Log())
	s.Signal(syscall.SIGHUP)
	s.waitLog(from, said)
}

// WaitLog waits until the log contains a text.
func (s *Server) WaitLog(said string) {
	s.t.Helper()
	s.waitLog(0, said)
}

func (s *Server) waitLog(from int, said string) {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(s.Log()[from:], said); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("the log does not contain %s: %s", said, s.Log()[from:])
		}
	}
}

// Log returns what the process has printed since its latest start.
func (s *Server) Log() string {
	text, err := os.ReadFile(s.output)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.t.Fatal(err)
	}
	return string(text)
}

// Pid returns the process id, 0 before the first start. It may be called while
// the server starts.
func (s *Server) Pid() int {
	if p := s.process.Load(); p != nil {
		return p.Pid()
	}
	return 0
}

// Send posts a body and returns status and answer.
func (s *Server) Send(path, body string) (status int, answer string) {
	s.t.Helper()
	resp, err := s.http.Post(s.URL+path, "text/plain", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if answer, err = readAll(resp); err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, answer
}

// Refusal starts a server that does not come up and returns what it prints.
func Refusal(t testing.TB, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, Binary(t), append([]string{"-data", t.TempDir(), "-http", "127.0.0.1:0"}, args...)...).CombinedOutput()
	if err == nil || ctx.Err() != nil {
		t.Errorf("the server started: %s", out)
	}
	return string(out)
}

// Do sends a request and returns status and body; an error is one of transport.
func (s *Server) Do(ctx context.Context, method, path string, params url.Values, body string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path+"?"+params.Encode(), strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// Query runs InfluxQL and returns the answer's text; a status other than 200
// fails the test.
func (s *Server) Query(db, q string) string {
	s.t.Helper()
	status, body, err := s.Do(context.Background(), http.MethodPost, "/query", url.Values{"db": {db}, "q": {q}, "epoch": {"ns"}}, "")
	if err != nil || status != http.StatusOK {
		s.t.Fatalf("query %q: %d %s %v", q, status, body, err)
	}
	return body
}

// Write sends lines and fails the test unless they are stored.
func (s *Server) Write(db, lines string) {
	s.t.Helper()
	status, body, err := s.Do(context.Background(), http.MethodPost, "/write", url.Values{"db": {db}}, lines)
	if err != nil || status != http.StatusNoContent {
		s.t.Fatalf("write: %d %s %v", status, body, err)
	}
}

// Binary builds the server if needed and returns its path, which is good until
// the tests end.
func Binary(t testing.TB) string {
	t.Helper()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// TempFile writes a file that goes with the test and returns its path.
func TempFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
