package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestClusterDamage takes the files of a shard away from a follower. Queries of its times
// at that node are answered whole from its start on, whether another node answers them or
// the node has its points back; other times are answered as before.
func TestClusterDamage(t *testing.T) {
	n := openNodes(t)
	leader := n.leader()
	n.query(leader, "CREATE DATABASE d")
	const rows = 50
	var lines strings.Builder
	for i := range rows {
		fmt.Fprintf(&lines, "m,h=h%d v=%d %d\nup,__name__=up,h=h%d value=1 %d\nm v=1 %d\n", i%3, i, i, i%3, i, int64(i)+1e18)
	}
	if status, answer, _ := n.ask(leader, "POST", "/write?db=d", lines.String()); status != 204 {
		t.Fatal(status, answer)
	}
	at := n.follower()
	eventually(t, "the follower has the points", func() bool {
		return strings.Contains(n.query(at, "SELECT count(v) FROM m WHERE time < 1000s"), fmt.Sprintf("[0,%d]", rows))
	})
	n.close(at) // flushes
	files, err := filepath.Glob(filepath.Join(n.configs[at].Data.Dir, "db-*", "shard-1", "*.tsm"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	n.open(at)
	eventually(t, "the follower is ready", func() bool {
		ok, _ := n.servers[at].health().Health()
		return ok
	})
	_, left, _ := n.ask(at, "GET", "/query?db=d&partial=true&q=SELECT+count(v)+FROM+m+WHERE+time+%3C+1000s", "")
	t.Log("what is left:", left)
	for i := range 20 {
		for _, level := range []string{"", "&consistency=strong"} {
			q := fmt.Sprintf("/query?db=d&epoch=ns%s&q=SELECT+count(v)+FROM+m+WHERE+time+<+1000s", level)
			q = strings.ReplaceAll(q, "<", "%3C")
			for _, method := range []string{"GET", "POST"} {
				status, answer, head := n.ask(at, method, q, "")
				if status != 200 || !strings.Contains(answer, fmt.Sprintf("[0,%d]", rows)) || strings.Contains(answer, "missing") {
					t.Errorf("query %d, %s %s: %d %s", i, method, level, status, answer)
				}
				if head.Get("X-Tsdbd-Position") == "" {
					t.Errorf("no position: %v", head)
				}
			}
		}
		if status, answer, _ := n.ask(at, "GET", "/api/v1/query?db=d&time=0.5&query=count(up)", ""); status != 200 || !strings.Contains(answer, `"3"`) {
			t.Errorf("PromQL: %d %s", status, answer)
		}
		if status, answer, _ := n.ask(at, "GET", "/query?db=d&epoch=ns&q=SELECT+count(v)+FROM+m+WHERE+time+%3E+1000s", ""); status != 200 || !strings.Contains(answer, fmt.Sprint(rows)) {
			t.Errorf("other times: %d %s", status, answer)
		}
	}
}
