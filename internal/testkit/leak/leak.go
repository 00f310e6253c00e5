// Package leak runs tests that start many goroutines, and fails if any is left.
package leak

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// patience is how long goroutines have to end after the last test.
const patience = 20 * time.Second

// Parallel is called by a TestMain. Unless -parallel says something else, so many parallel
// tests run at a time: for tests that wait more than they compute.
func Parallel(n int) {
	flag.Parse()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "test.parallel" })
	if !set {
		if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
			panic(err)
		}
	}
}

// Main is the body of a TestMain with so many parallel tests at a time (Parallel).
func Main(m *testing.M, parallel int) {
	Parallel(parallel)
	code := m.Run()
	if code == 0 {
		http.DefaultClient.CloseIdleConnections()
		if left := wait(patience); len(left) > 0 {
			fmt.Fprintf(os.Stderr, "%d goroutines are left:\n%s\n", len(left), strings.Join(left, "\n\n"))
			code = 1
		}
	}
	os.Exit(code)
}

// wait returns the goroutines that are left after some time.
func wait(patience time.Duration) (left []string) {
	for until := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if left = running(); len(left) == 0 || time.Now().After(until) {
			return left
		}
	}
}

// unanswered is in the stack of who waits for an answer of hashicorp/raft. What raft is asked
// just before its end it never answers, and nothing can end the wait.
const unanswered = "raft.(*deferError).Error("

// running returns the stacks of the goroutines that a test may have started: all but
// the one that calls, those of package testing and of the Go runtime's signals, and those
// that wait for raft alone.
func running() (out []string) {
	buf := make([]byte, 1<<20)
	stacks := strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
	for _, s := range stacks[1:] {
		if !strings.Contains(s, "os/signal.") && !strings.Contains(s, unanswered) && !strings.Contains(s, "\ntesting.(*") && !strings.Contains(s, "\ntesting.tRunner(") {
			out = append(out, s)
		}
	}
	return out
}
