package clients

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tsdbd/internal/testkit/apptest"
)

var follower = flag.Bool("follower", false, "run the clients against a node that follows, of a cluster of three")

// start starts the server of a client: one of its own, or with -follower a node that
// follows. Clients reach the node through a proxy that has them read their own writes, for
// no client knows X-Tsdbd-Position.
func start(t *testing.T, env ...string) *apptest.Server {
	t.Helper()
	if !*follower {
		s := apptest.New(t)
		s.Env = env
		s.Restart()
		return s
	}
	s := apptest.StartFollower(t, env...)
	target, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     apptest.ReadOwnWrites(http.DefaultTransport),
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0), // of a server that is down
	})
	t.Cleanup(front.Close)
	s.URL = front.URL
	return s
}

// TestMain prints a table of all clients at the end.
func TestMain(m *testing.M) {
	code := m.Run()
	results.Lock()
	defer results.Unlock()
	for i, s := range results.list {
		if i == 0 {
			fmt.Printf("\n%-28s %-18s %7s %7s\n", "client", "version", "passed", "failed")
		}
		if s.missing != "" {
			fmt.Printf("%-28s skipped: %s\n", s.client, s.missing)
			continue
		}
		fmt.Printf("%-28s %-18s %7d %7d\n", s.client, s.version, s.passed, s.failed)
	}
	os.Exit(code)
}

var results struct {
	sync.Mutex
	list []*suite
}

// suite counts the checks of one client.
type suite struct {
	t               *testing.T
	client, version string
	missing         string // why it was not run
	passed, failed  int
}

// newSuite begins the checks of a client; its counts are told when the test
// ends.
func newSuite(t *testing.T, client string) *suite {
	s := &suite{t: t, client: client}
	t.Cleanup(func() {
		if s.missing == "" {
			t.Logf("%s: %d passed, %d failed", s.client, s.passed, s.failed)
		}
		results.Lock()
		defer results.Unlock()
		results.list = append(results.list, s)
	})
	return s
}

// need returns the path of a program, or skips the test with what to install.
func (s *suite) need(program, install string) string {
	s.t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		s.skip("%s is not installed (%s)", program, install)
	}
	return path
}

// built returns the path of a program that is installed, or builds it from its
// Go module into bin, once: that may take minutes.
func (s *suite) built(program, module, version, pkg string, flags ...string) string {
	s.t.Helper()
	if path, err := exec.LookPath(program); err == nil {
		return path
	}
	dir := filepath.Join(root(), "bin", program+"-"+version)
	bin := filepath.Join(dir, program)
	if _, err := os.Stat(bin); err == nil {
		return bin
	}
	s.must(os.MkdirAll(dir, 0o755))
	s.must(os.WriteFile(filepath.Join(dir, "go.mod"), fmt.Appendf(nil, "module %s\n\ngo 1.26\n\nrequire %s %s\n", program, module, version), 0o644))
	args := append([]string{"go", "build", "-mod=mod", "-o", bin}, append(flags, module+"/"+pkg)...)
	if out, errs, err := command(s.t, dir, []string{"CGO_ENABLED=0"}, "", args...); err != nil {
		s.skip("%s is not installed and cannot be built: %v\n%s%s", program, err, out, errs)
	}
	return bin
}

// skip passes the client over.
func (s *suite) skip(format string, args ...any) {
	s.t.Helper()
	s.missing = fmt.Sprintf(format, args...)
	s.t.Skip(s.missing)
}

// check counts a check; an error is its failure.
func (s *suite) check(name string, err error) {
	s.t.Helper()
	if err != nil {
		s.failed++
		s.t.Errorf("%s: %v", name, err)
		return
	}
	s.passed++
}

// equal counts a check of what was got.
func (s *suite) equal(name string, got, want any) {
	s.t.Helper()
	var err error
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		err = fmt.Errorf("\n got %s\nwant %s", g, w)
	}
	s.check(name, err)
}

// must fails the test at once.
func (s *suite) must(err error) {
	s.t.Helper()
	if err != nil {
		s.failed++
		s.t.Fatal(err)
	}
}

// counted takes the counts that a script prints as its last line, "N passed, M
// failed".
func (s *suite) counted(output string) {
	s.t.Helper()
	lines := strings.Split(strings.TrimSpace(output), "\n")
	var passed, failed int
	if n, err := fmt.Sscanf(lines[len(lines)-1], "%d passed, %d failed", &passed, &failed); n != 2 || err != nil {
		s.check("run", fmt.Errorf("no counts in:\n%s", output))
		return
	}
	s.passed += passed
	s.failed += failed
	if failed > 0 {
		s.t.Errorf("%s", output)
	}
}

// runTimeout is how long a client may take.
const runTimeout = 5 * time.Minute

// alone skips a client whose tests start servers of their own if they are to be run
// against a node that follows.
func (s *suite) alone() {
	s.t.Helper()
	if *follower {
		s.skip("it starts servers of its own")
	}
}

// command runs a program in dir and returns what it prints on standard output
// and on standard error.
func command(t *testing.T, dir string, env []string, stdin string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), runTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdin = dir, append(os.Environ(), env...), strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// root is the directory of the repository.
func root() string {
	dir, err := filepath.Abs("..") // tests run in the directory of their package
	if err != nil {
		panic(err)
	}
	return dir
}

// address returns host and port of a URL.
func address(url string) (host, port string) {
	host, port, _ = strings.Cut(strings.TrimPrefix(url, "http://"), ":")
	return host, port
}
