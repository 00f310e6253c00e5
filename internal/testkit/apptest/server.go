package apptest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
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
	cmd := exec.Command("go", "build", "-o", bin, "tsdbd/cmd/tsdbd")
	_, file, _, _ := runtime.Caller(0)
	cmd.Dir = filepath.Dir(file) // in this module, whoever asks
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the server: %w\n%s", err, out)
	}
	return bin, nil
})

// Server is a running server process on a data directory of its own.
type Server struct {
	URL  string
	Dir  string
	Args []string // beside -data and -http
	Env  []string // KEY=value, beside the test's own
	Wrap []string // a command line put before the binary's; it must end in exec

	t    testing.TB
	cmd  *exec.Cmd
	pid  atomic.Int64
	log  *output
	addr string
	http http.Client
}

// output is what a process prints; it may be read meanwhile.
type output struct {
	sync.Mutex
	bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.Lock()
	defer o.Unlock()
	return o.Buffer.Write(p)
}

func (o *output) String() string {
	o.Lock()
	defer o.Unlock()
	return o.Buffer.String()
}

// Start builds the binary if needed and starts it on an empty directory. The
// process ends with the test.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := New(t, args...)
	s.Restart()
	return s
}

// New prepares a server without starting it: its fields may be changed before
// Restart.
func New(t testing.TB, args ...string) *Server {
	t.Helper()
	addr := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	s := &Server{URL: "http://" + addr, Dir: t.TempDir(), Args: args, t: t, addr: addr}
	s.http.Timeout = 3 * time.Minute
	s.http.Transport = &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(s.Kill)
	return s
}

// freePort returns a port of 127.0.0.1 that nobody listens on. It is none of
// those the kernel gives to clients and to listeners on port 0: one of theirs
// could be taken while a server is down between two starts.
func freePort(t testing.TB) int {
	t.Helper()
	const first = 10_000
	end := 32_768 // the kernel's default
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		_, _ = fmt.Sscan(string(text), &end)
	}
	var err error
	for range 1000 {
		port := 0 // the kernel's choice, if it has left no others
		if end > first+1000 {
			port = first + rand.IntN(end-first)
		}
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err != nil {
			continue
		}
		port = l.Addr().(*net.TCPAddr).Port
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return port
	}
	t.Fatal(err)
	return 0
}

// Restart starts the process again after Kill or Stop and waits until it
// answers.
func (s *Server) Restart() {
	s.t.Helper()
	bin := Binary(s.t)
	s.http.CloseIdleConnections() // to the process before
	s.log = &output{}
	line := append(append(append([]string{}, s.Wrap...), bin, "-data", s.Dir, "-http", s.addr), s.Args...)
	s.cmd = exec.Command(line[0], line[1:]...)
	s.cmd.Env = append(os.Environ(), s.Env...)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	proc.Prepare(s.cmd)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.pid.Store(int64(s.cmd.Process.Pid))
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		resp, err := s.http.Get(s.URL + "/ping")
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusNoContent {
				return
			}
		}
		if time.Now().After(deadline) || s.cmd.ProcessState != nil {
			s.Kill()
			s.t.Fatalf("server does not answer: %v\n%s", err, s.log)
		}
	}
}

// Kill ends the process with SIGKILL and waits for its end.
func (s *Server) Kill() {
	if s.cmd != nil && s.cmd.ProcessState == nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	}
}

// Stop ends the process with SIGTERM and fails the test if it does not end
// cleanly within three minutes.
func (s *Server) Stop() {
	s.t.Helper()
	if err := proc.Stop(s.cmd); err != nil {
		s.t.Fatal(err)
	}
	timer := time.AfterFunc(3*time.Minute, func() { _ = s.cmd.Process.Kill() })
	defer timer.Stop()
	if err := s.cmd.Wait(); err != nil {
		s.t.Fatalf("server stopped with %v\n%s", err, s.log)
	}
}

// Log returns what the process has printed.
func (s *Server) Log() string { return s.log.String() }

// Pid returns the process id, 0 before the first start. It may be called while
// the server starts.
func (s *Server) Pid() int { return int(s.pid.Load()) }

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
