//go:build linux || darwin

package main

import (
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"

	"tsdbd/internal/testkit/apptest"
)

// person is a person at a terminal with the prompt of the shell.
type person struct {
	t        *testing.T
	server   *apptest.Server
	cmd      *exec.Cmd
	terminal *os.File
	mu       sync.Mutex
	shown    strings.Builder
	from     int // of shown: what is before it has been looked at
	done     chan struct{}
}

// atPrompt starts the shell in a terminal of 24 rows, with a database of one point.
func atPrompt(t *testing.T, args ...string) *person {
	t.Helper()
	p := &person{t: t, server: apptest.Start(t), done: make(chan struct{})}
	p.server.Query("", "CREATE DATABASE demo")
	p.server.Write("demo", "weather,city=oslo temperature=-3.5 1767571200000000000")
	p.cmd = exec.Command(apptest.Binary(t), append([]string{"query", "-host", p.server.URL}, args...)...)
	p.cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "TERM=xterm", "INPUTRC=/dev/null", "PAGER=sed s/^/paged:/")
	terminal, err := pty.StartWithSize(p.cmd, &pty.Winsize{Rows: 24, Cols: 120})
	if err != nil {
		t.Skipf("there is no terminal: %v", err)
	}
	p.terminal = terminal
	go func() {
		defer close(p.done)
		b := make([]byte, 4096)
		for {
			n, err := terminal.Read(b)
			p.mu.Lock()
			p.shown.Write(b[:n])
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		_ = terminal.Close()
	})
	p.waits("> ")
	return p
}

// types presses keys.
func (p *person) types(keys string) {
	p.t.Helper()
	if _, err := p.terminal.WriteString(keys); err != nil {
		p.t.Fatal(err)
	}
}

// waits until the terminal shows a text that has not been waited for.
func (p *person) waits(text string) {
	p.t.Helper()
	p.until("the terminal does not show "+text, func() bool {
		at := strings.Index(p.shown.String()[p.from:], text)
		if at >= 0 {
			p.from += at + len(text)
		}
		return at >= 0
	})
}

// until waits until something is true.
func (p *person) until(otherwise string, f func() bool) {
	p.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		p.mu.Lock()
		ok := f()
		p.mu.Unlock()
		if ok {
			return
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.t.Fatalf("%s:\n%q", otherwise, p.shown.String())
}

// slow is a statement that ends by an interrupt only.
const slow = "SELECT count(temperature) FROM weather WHERE time >= 0 GROUP BY time(1ms) fill(0)"

// runsSlow runs a slow statement, and returns when the server does.
func (p *person) runsSlow() {
	p.t.Helper()
	p.types(slow + "\r")
	p.until("the query does not begin", func() bool { return strings.Contains(p.server.Query("", "SHOW QUERIES"), "count(temperature)") })
}

// ends ends the shell.
func (p *person) ends() {
	p.t.Helper()
	p.types("\x04")
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		p.mu.Lock()
		defer p.mu.Unlock()
		p.t.Fatalf("the shell does not end:\n%q", p.shown.String())
	}
	if err := p.cmd.Wait(); err != nil {
		p.t.Error(err)
	}
}

// TestPrompt types at the prompt in a terminal.
func TestPrompt(t *testing.T) {
	p := atPrompt(t)
	p.types("use de\t\r")
	p.waits("using database demo")
	p.types("SELECT temperature,\r") // goes on in the next line
	p.types("city FROM weather\r")
	p.waits("oslo")
	p.waits("(1 row)")
	p.runsSlow()
	p.types("\x03")
	p.waits("interrupted")
	p.until("the query goes on at the server", func() bool { return !strings.Contains(p.server.Query("", "SHOW QUERIES"), "count(temperature)") })
	p.waits("demo> ")
	p.types("auth ann\r")
	p.waits("password: ")
	p.types("sesame\r")
	p.waits("logged in as ann")
	p.types("lang promql\rweather_temperature{ci\t=\"oslo\"} offset -1000w\r")
	p.waits("no series")
	p.waits("demo promql> ")
	p.ends()
	if strings.Contains(p.shown.String(), "sesame") {
		t.Errorf("the password is shown:\n%q", p.shown.String())
	}
}

// TestTypeAhead types while a statement runs, and faster than the prompt draws.
func TestTypeAhead(t *testing.T) {
	p := atPrompt(t, "-db", "demo")
	p.runsSlow()
	p.types("SHOW FIELD KEYS\nSHOW TAG")
	p.server.Query("", "KILL QUERY "+queryID(t, p.server))
	p.waits("ERR: ")
	p.waits("temperature")
	p.waits("(1 row)")
	p.types(" KEYS\r")
	p.waits("city")
	p.waits("> ") // before it a terminal may take Ctrl-D as the end of a line
	p.ends()
}

// queryID returns the number of the slow query.
func queryID(t *testing.T, s *apptest.Server) string {
	t.Helper()
	for row := range strings.SplitSeq(s.Query("", "SHOW QUERIES"), "],[") {
		if strings.Contains(row, "count(temperature)") {
			id, _, _ := strings.Cut(row[strings.LastIndex(row, "[")+1:], ",")
			return id
		}
	}
	t.Fatal("the query does not run")
	return ""
}

// TestPagerOfPrompt shows by the pager what is longer than the screen of 24 rows.
func TestPagerOfPrompt(t *testing.T) {
	p := atPrompt(t, "-db", "demo")
	p.types("SELECT count(temperature) FROM weather WHERE time >= 1767571200s AND time < 1767571230s GROUP BY time(1s) fill(0)\r")
	p.waits("paged:name: weather")
	p.waits("paged:(30 rows)")
	p.types("SHOW TAG KEYS\r")
	p.waits("\ntagKey")
	p.ends()
}

// TestDropLine: Ctrl-C drops the line while completions are shown and in a search, as it
// does otherwise.
func TestDropLine(t *testing.T) {
	p := atPrompt(t, "-db", "demo")
	for _, keys := range []string{"SELECT \t\t", "\x12SEL", "SELECT "} {
		p.types(keys + "\x03")
		p.types("SHOW FIELD KEYS\r")
		p.waits("temperature")
		p.waits("(1 row)")
	}
	p.ends()
}
