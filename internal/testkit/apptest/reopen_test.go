package apptest

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestReopen: a node that was away for longer than the others keep the log copies the
// state of one of them, in the same process, and goes on.
func TestReopen(t *testing.T) {
	t.Parallel()
	nodes := startNodes(t, "TSDBD_CLUSTER_LOG_MAX_SIZE=1MiB", "TSDBD_DATA_FLUSH_SIZE=1MiB")
	nodes[0].Query("", "CREATE DATABASE d")
	nodes[0].Write("d", "m v=1i 1")
	away := nodes[2]
	away.Kill()
	// The log of the others goes on until its beginning is gone: 1 MiB stays, and
	// segments are dropped as a whole.
	text := strings.Repeat("x", 1000)
	rows := 1
	for i := range 30 {
		var lines strings.Builder
		for j := range 1000 {
			fmt.Fprintf(&lines, "m v=1i,text=\"%s\" %d\n", text, 2+i*1000+j)
		}
		rows += 1000
		var status int
		var answer string
		for deadline := time.Now().Add(time.Minute); status != http.StatusNoContent; time.Sleep(10 * time.Millisecond) {
			if status, answer = nodes[i%2].Send("/write?db=d", lines.String()); time.Now().After(deadline) {
				t.Fatalf("%d %s", status, answer)
			}
		}
	}
	away.Begin()
	if err := away.Await(); err != nil {
		t.Fatal(err)
	}
	pid := away.Pid()
	away.WaitLog("the node is opened again")
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		status, body, err := away.Do(t.Context(), http.MethodGet, "/query", url.Values{"db": {"d"}, "q": {"SELECT count(v) FROM m"}, "consistency": {"strong"}}, "")
		if err == nil && status == http.StatusOK {
			if want := fmt.Sprintf(",%d]]", rows); !strings.Contains(body, want) {
				t.Errorf("%s, want %s", body, want)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the node does not answer: %d %s %v", status, body, err)
		}
	}
	awaitVoters(t, nodes)
	if got := strings.Count(away.Log(), "msg=serving "); got < 2 || away.Pid() != pid {
		t.Errorf("it has served %d times as process %d, before %d", got, away.Pid(), pid)
	}
}
