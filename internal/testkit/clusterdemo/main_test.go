//go:build linux

package main

import (
	"context"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tsdbd/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

// pages keeps the latest page, and all of them.
type pages struct {
	mu   sync.Mutex
	last string
	all  strings.Builder
}

func (p *pages) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = string(b)
	return p.all.Write(b)
}

// wait returns a page that f accepts. Pages can come faster than it looks, and slower than
// nodes start.
func (p *pages) wait(t *testing.T, what string, f func(page string) bool) string {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		p.mu.Lock()
		page, ok := p.last, f(p.last)
		p.mu.Unlock()
		if ok {
			return page
		}
	}
	t.Fatalf("no page has %s; all of them are\n%s", what, &p.all)
	return ""
}

// TestDemo runs the demonstration as a user would: looks at the page, kills the
// node that leads, sees it come back, and ends everything.
func TestDemo(t *testing.T) {
	t.Setenv("TSDBD_HTTP_BIND_ADDRESS", "127.0.0.1:1") // of another server: it has no effect here
	bin, temp := apptest.Binary(t), t.TempDir()
	t.Setenv("TMPDIR", temp)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var out pages
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, []string{"-tsdbd", bin, "-port", "0"}, &out) }()

	well := func(page string) bool {
		return strings.Count(page, "  yes  ") == 3 && !strings.Contains(page, "PROBLEM") && regexp.MustCompile(`found:  n1 [1-9]\d*  n2 [1-9]\d*  n3 [1-9]\d*\n`).MatchString(page)
	}
	page := out.wait(t, "three nodes that hold points", well)
	leader := regexp.MustCompile(`leader (n\d)`).FindStringSubmatch(page)
	if leader == nil {
		t.Fatalf("no leader:\n%s", page)
	}
	process := regexp.MustCompile(leader[1] + `  http://\S+  pid (\d+)`).FindStringSubmatch(page)
	if process == nil {
		t.Fatalf("no process of %s:\n%s", leader[1], page)
	}
	pid, err := strconv.Atoi(process[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	out.wait(t, "the end of "+leader[1], func(string) bool {
		return strings.Contains(out.all.String(), leader[1]+" ended: signal: killed")
	})
	page = out.wait(t, "the node back", func(page string) bool {
		return well(page) && strings.Count(page, "  pid ") == 3 && !strings.Contains(page, process[0]+"\n")
	})

	var pids []int
	for _, m := range regexp.MustCompile(`  pid (\d+)`).FindAllStringSubmatch(page, -1) {
		pid, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("%v\n%s", err, &out.all)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("it does not end")
	}
	if len(pids) != 3 {
		t.Errorf("processes %v", pids)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); err == nil {
			t.Errorf("process %d still runs", pid)
		}
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	if !regexp.MustCompile(`load: [1-9]\d* points acknowledged, .*\nThe nodes have ended, `).MatchString(out.last) {
		t.Errorf("the last words are %s", out.last)
	}
}

// TestState: a node that has no process is shown as such.
func TestState(t *testing.T) {
	n := new(node)
	if got := n.state(); got != "not running" {
		t.Error(got)
	}
	n.setPid(7)
	if got := n.state(); got != "pid 7" {
		t.Error(got)
	}
}

// TestDemoRefuses: what keeps it from starting is said at once.
func TestDemoRefuses(t *testing.T) {
	for _, c := range []struct {
		want string
		args []string
	}{
		{"find the program, which make build builds", []string{"-tsdbd", "/nonexistent"}},
		{"flag provided but not defined", []string{"-prot", "1"}},
	} {
		if err := run(context.Background(), c.args, new(pages)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.args, err, c.want)
		}
	}
}

// TestMakeCluster holds the target to this program.
func TestMakeCluster(t *testing.T) {
	text, err := os.ReadFile("../../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	_, recipe, ok := strings.Cut(string(text), "\ncluster: build ")
	recipe, _, _ = strings.Cut(recipe, "\n\n")
	if !ok || !strings.HasSuffix(recipe, "\n\tgo build -o bin/clusterdemo ./internal/testkit/clusterdemo\n\tbin/clusterdemo") {
		t.Errorf("make cluster is %q", recipe)
	}
}
