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

// TestPrompt types at the prompt in a terminal.
func TestPrompt(t *testing.T) {
	s := apptest.Start(t)
	s.Query("", "CREATE DATABASE demo")
	s.Write("demo", "weather,city=oslo temperature=-3.5 1767571200000000000")
	cmd := exec.Command(apptest.Binary(t), "query", "-host", s.URL)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "TERM=xterm", "INPUTRC=/dev/null")
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 120})
	if err != nil {
		t.Skipf("there is no terminal: %v", err)
	}
	var mu sync.Mutex
	var shown strings.Builder
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 4096)
		for {
			n, err := terminal.Read(b)
			mu.Lock()
			shown.Write(b[:n])
			// The prompt asks the terminal where the cursor is.
			if strings.Contains(string(b[:n]), "\x1b[6n") {
				_, _ = terminal.WriteString("\x1b[1;1R")
			}
			mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	ended := false
	defer func() {
		if !ended {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		_ = terminal.Close()
	}()
	from := 0
	wait := func(text string) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			mu.Lock()
			at := strings.Index(shown.String()[from:], text)
			if at >= 0 {
				from += at + len(text)
			}
			mu.Unlock()
			if at >= 0 {
				return
			}
		}
		mu.Lock()
		defer mu.Unlock()
		t.Fatalf("the terminal does not show %q:\n%q", text, shown.String())
	}
	// A person waits until the prompt has drawn a key. While it draws, it asks the
	// terminal where the cursor is, and a key in between would be part of the answer.
	const drawn = "\x1b[?25h"
	typed := func(text string) {
		t.Helper()
		for _, key := range text {
			if _, err := terminal.WriteString(string(key)); err != nil {
				t.Fatal(err)
			}
			if key >= ' ' || key == '\t' {
				wait(drawn)
			}
		}
	}
	wait("for help")
	wait("> ")
	wait(drawn)
	typed("use de\t\r")
	wait("using database demo")
	wait("demo> ")
	wait(drawn)
	typed("SELECT temperature,\r") // goes on in the next line
	wait(drawn)
	typed("city FROM weather\r")
	wait("oslo")
	wait("(1 row)")
	wait("demo> ")
	wait(drawn)
	typed("SELECT count(temperature) FROM weather WHERE time >= 0 GROUP BY time(1ms) fill(0)\r")
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(s.Query("", "SHOW QUERIES"), "count(temperature)"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the query does not begin")
		}
	}
	typed("\x03")
	wait("interrupted")
	for deadline := time.Now().Add(30 * time.Second); strings.Contains(s.Query("", "SHOW QUERIES"), "count(temperature)"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the query goes on at the server")
		}
	}
	wait("demo> ")
	wait(drawn)
	typed("\x04")
	<-done
	ended = true
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
