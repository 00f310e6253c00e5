package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tsdbd/cluster/admin"
	"tsdbd/cluster/raftlog"
	"tsdbd/cluster/self"
	"tsdbd/internal/identity"
	"tsdbd/internal/vfs"
	"tsdbd/meta"
)

// TestSettingFlags: every flag of a node and of a cold store sets the key that has its name.
func TestSettingFlags(t *testing.T) {
	for section, flags := range map[string][]string{
		"cluster": {
			"node", "n1", "bind", "127.0.0.1:1", "advertise", "localhost:1", "join", "n1=localhost:1,n2=localhost:2",
			"secret-file", "s", "certificate", "c", "private-key", "k", "ca", "a", "voter", "false",
		},
		"cold": {
			"url", "s3://b/p", "after", "7d", "endpoint", "http://127.0.0.1:1", "region", "r", "path-style", "true", "cache-size", "32MiB",
			"cache-dir", "d", "timeout", "5s", "upload-rate", "1MiB", "purge-after", "2d", "grace", "12h",
		},
	} {
		args := []string{"config"}
		for i := 0; i < len(flags); i += 2 {
			args = append(args, "-"+section+"-"+flags[i], flags[i+1])
		}
		out := must(t, args...)
		_, text, _ := strings.Cut(out, "\n["+section+"]\n")
		text, _, _ = strings.Cut(text, "\n[")
		for i := 0; i < len(flags); i += 2 {
			if line := flags[i] + " = " + flags[i+1] + "\n"; !strings.Contains(strings.ReplaceAll(text, `"`, ""), line) {
				t.Errorf("no %s in\n%s", line, text)
			}
		}
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-cluster-node", ""}, "it is empty, see tsdbd config -help"},
		{[]string{"-cluster-join", "n1"}, `-cluster-join: "n1" is not NAME=HOST:PORT`},
		{[]string{"-cluster-voter", "maybe"}, `-cluster-voter: "maybe" is neither true nor false`},
		{[]string{"-cold-after", "soon"}, `-cold-after: "soon" is not a duration such as 90s, 2h30m or 7d`},
		{[]string{"-cold-url", "s3://b/p", "-cold-access-key", "k"}, "cold.access-key and cold.secret-key belong together"},
		{[]string{"-cluster-secret", "x"}, "did you mean -cluster-secret-file?, see tsdbd config -help"},
	} {
		if _, _, err := tsdbd(t, append([]string{"config"}, c.args...)...); err == nil || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.args, err, c.want)
		}
	}
}

// TestExportOfNode: the directory of a node is exported with what the log of the node has,
// and not at all if nothing says what it lacks.
func TestExportOfNode(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, self.Dir, "log")
	if err := errors.Join(os.MkdirAll(log, 0o700), meta.Create(vfs.OS, filepath.Join(dir, "meta"), &meta.Data{Lineage: identity.NewLineage()}), raftlog.Create(vfs.OS, log, raftlog.Base{})); err != nil {
		t.Fatal(err)
	}
	for state, want := range map[string]string{
		"left":           "0 points exported, with what the log of node n3 has up to sequence 0, acknowledged or not\n",
		"needs-transfer": "nothing can be made of it alone",
	} {
		body := fmt.Sprintf(`{"edition": 3, "cluster": "00ff", "name": "n3", "id": "n3/1", "address": "10.0.0.3:8088", "state": %q}`, state)
		text := fmt.Sprintf("tsdbd-node 1 %x\n%s", sha256.Sum256([]byte(body)), body)
		if err := os.WriteFile(filepath.Join(dir, self.Dir, "node.0"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, told, err := tsdbd(t, "export", "-data", dir, "-lponly")
		if told += fmt.Sprint(err); !strings.Contains(told, want) {
			t.Errorf("%s: %q, want %q", state, told, want)
		}
	}
	if _, _, err := tsdbd(t, "export", "-data", t.TempDir(), "-until", "3"); err == nil || !strings.Contains(err.Error(), "is not the directory of a node of a cluster") {
		t.Errorf("-until of another directory: %v", err)
	}
	if _, _, err := tsdbd(t, "export", "-host", "x", "-until", "3"); err == nil || !strings.Contains(err.Error(), "-until is for -data") {
		t.Errorf("-until of a server: %v", err)
	}
}

// fakeNode answers as a node of a cluster. Its answers may change while it runs.
type fakeNode struct {
	*httptest.Server
	mu     sync.Mutex
	status admin.Status
	verify admin.Verification
	asked  []string
	onAsk  func(path string)
}

func newFakeNode(t *testing.T) *fakeNode {
	n := &fakeNode{
		status: admin.Status{
			Cluster: "00ff", Node: "n1", Role: "leader", Leader: "n1", Term: 3, LogBytes: 3 << 20, LogMaxBytes: 1 << 30, Disks: 2,
			Members: []admin.Member{
				{Name: "n1", ID: "n1/1", Address: "10.0.0.1:8088", Voter: true, Leader: true, Reachable: true, Applied: 1000, Version: "0.1.0"},
				{Name: "n3", ID: "n3/1", Address: "10.0.0.3:8088", Reachable: true, Applied: 1000, Version: "0.1.0"},
				{Name: "n2", ID: "n2/1", Address: "10.0.0.2:8088", Voter: true, Reachable: true, Applied: 990, LagSeconds: 0.0312, Version: "0.1.0"},
			},
		},
		verify: admin.Verification{Sequence: 1000, Equal: true, Nodes: []admin.NodeSum{{Name: "n1", Sum: "ab"}, {Name: "n2", Sum: "ab"}}},
	}
	n.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.mu.Lock()
		defer n.mu.Unlock()
		path := strings.TrimPrefix(r.URL.Path, admin.Prefix)
		n.asked = append(n.asked, r.Method+" "+path+"?"+r.URL.RawQuery)
		if n.onAsk != nil {
			n.onAsk(path)
		}
		var answer any = struct{}{}
		switch path {
		case "status":
			answer = n.status
		case "verify":
			answer = n.verify
		case "transfer-leader":
			answer = map[string]string{"leader": "n2"}
		case "finish-upgrade":
			answer = map[string]int{"format": 2}
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(n.Close)
	return n
}

func TestClusterStatus(t *testing.T) {
	n := newFakeNode(t)
	// The first address that answers is asked.
	host := "127.0.0.1:1, " + strings.TrimPrefix(n.URL, "http://")
	want := `cluster 00ff   leader n1   term 3   log 3.0MiB of 1024.0MiB   writes on 2 of 3 disks   as n1 (leader) sees it

NODE  ROLE      ADDRESS        REACHABLE  APPLIED  BEHIND  VERSION
n1    leader    10.0.0.1:8088  yes        1000     0s      0.1.0
n2    follower  10.0.0.2:8088  yes        990      30ms    0.1.0
n3    copy      10.0.0.3:8088  yes        1000     0s      0.1.0
`
	if out := must(t, "cluster", "status", "-host", host); out != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
	var s admin.Status
	if err := json.Unmarshal([]byte(must(t, "cluster", "status", "-json", "-host", host)), &s); err != nil || len(s.Members) != 3 || s.Members[2].Applied != 990 {
		t.Errorf("%+v %v", s, err)
	}

	n.status.Leader, n.status.Members[0].Leader = "", false
	n.status.Role = "candidate"
	n.status.Members[1].Problem = "its clock is off by an hour"
	n.status.Members[2].Reachable, n.status.Members[2].Problem = false, "not reachable at 10.0.0.2:8088"
	n.status.Notes = []string{"2 voters bear no more losses than 1: add a voter, or take a vote away."}
	n.status.Transfer = &admin.Transfer{From: "n2", Bytes: 1 << 20, TotalBytes: 4 << 20}
	want = `cluster 00ff   leader none   term 3   log 3.0MiB of 1024.0MiB   writes on 2 of 3 disks   as n1 (candidate) sees it

NODE  ROLE      ADDRESS        REACHABLE  APPLIED  BEHIND  VERSION
n1    follower  10.0.0.1:8088  yes        1000     0s      0.1.0
n2    follower  10.0.0.2:8088  no         -        -       0.1.0
n3    copy      10.0.0.3:8088  yes        1000     0s      0.1.0

n1 copies the data of n2: 1.0MiB of 4.0MiB

PROBLEM  no leader is known: writes get 503 until there is one
PROBLEM  n3: its clock is off by an hour
PROBLEM  n2: not reachable at 10.0.0.2:8088
NOTE     2 voters bear no more losses than 1: add a voter, or take a vote away.
`
	for _, form := range []string{"-json=false", "-json"} {
		out, _, err := tsdbd(t, "cluster", "status", form, "-host", host)
		if err == nil || err.Error() != "the cluster is degraded" {
			t.Errorf("%s of a degraded cluster: %v", form, err)
		}
		if form != "-json" && out != want {
			t.Errorf("got\n%s\nwant\n%s", out, want)
		}
	}
	n.Close()
	if _, _, err := tsdbd(t, "cluster", "status", "-host", host); err == nil || strings.Count(err.Error(), "connection refused") != 2 {
		t.Errorf("no node answers: %v", err)
	}
}

// TestClusterWatch: the page shows how fast nodes are, and goes on while none
// answers.
func TestClusterWatch(t *testing.T) {
	n := newFakeNode(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	asked := 0
	n.onAsk = func(string) {
		asked++
		n.status.Members[0].Applied += 1_000_000
		if asked == 3 {
			cancel()
		}
	}
	var out, errs bytes.Buffer
	if err := run(ctx, []string{"cluster", "status", "-watch", "-host", n.URL}, &out, &errs); err != nil {
		t.Fatal(err)
	}
	pages := strings.Split(out.String(), "\ncluster 00ff")
	if len(pages) != 3 || !strings.Contains(pages[1], "BEHIND  ENTRIES/S  VERSION") {
		t.Fatalf("%d pages:\n%s", len(pages)-1, &out)
	}
	row := func(page string) []string {
		for line := range strings.Lines(page) {
			if strings.HasPrefix(line, "n1 ") {
				return strings.Fields(line)
			}
		}
		return make([]string, 8)
	}
	if first, second := row(pages[1])[6], row(pages[2])[6]; first != "0" || len(second) < 5 {
		t.Errorf("entries a second: %s, then %s", first, second)
	}

	n.Close()
	ctx, cancel = context.WithCancel(context.Background())
	defer cancel()
	lost := writerFunc(func(b []byte) (int, error) {
		if !bytes.Contains(b, []byte("no node answers: ")) {
			t.Errorf("page %s", b)
		}
		cancel()
		return len(b), nil
	})
	if err := run(ctx, []string{"cluster", "status", "-watch", "-host", n.URL}, lost, &errs); err != nil {
		t.Error(err)
	}
}

// TestClusterWait: status waits until the cluster is as it should be, and says
// what is wrong when it does not become so.
func TestClusterWait(t *testing.T) {
	n := newFakeNode(t)
	n.status.Members[2].Problem = "not reachable at 10.0.0.2:8088"
	asked := 0
	n.onAsk = func(string) {
		if asked++; asked == 3 {
			n.status.Members[2].Problem = ""
		}
	}
	if out := must(t, "cluster", "status", "-wait", "1m", "-voters", "2", "-host", n.URL); asked != 3 || !strings.Contains(out, "n2    follower  10.0.0.2:8088  yes") {
		t.Errorf("asked %d times, said\n%s", asked, out)
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{"the cluster has 2 voters, not 3", []string{"-voters", "3"}},
		{"the cluster has 2 voters, not 3", []string{"-voters", "3", "-wait", "300ms"}},
	} {
		asked = 3
		out, _, err := tsdbd(t, append([]string{"cluster", "status", "-host", n.URL}, c.args...)...)
		if err == nil || err.Error() != c.want || !strings.Contains(out, "n3 ") || (asked > 4) != (len(c.args) > 2) {
			t.Errorf("%q: asked %d times, %v\n%s", c.args, asked-3, err, out)
		}
	}
	n.Close()
	if _, _, err := tsdbd(t, "cluster", "status", "-wait", "300ms", "-host", n.URL); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("no node answers: %v", err)
	}
}

// TestClusterWaitEnds: status does not wait for what cannot heal.
func TestClusterWaitEnds(t *testing.T) {
	n := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer n.Close()
	for _, host := range []string{n.URL, strings.Replace(n.URL, "http", "https", 1)} {
		begin := time.Now()
		if _, _, err := tsdbd(t, "cluster", "status", "-wait", "5m", "-host", host); err == nil || time.Since(begin) > 2*time.Minute {
			t.Errorf("%s: %v after %s", host, err, time.Since(begin))
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestClusterVerify(t *testing.T) {
	n := newFakeNode(t)
	want := "NODE  SUM OF THE CONTENT\nn1    ab\nn2    ab\n\ncontent at sequence 1000: the same on all nodes\n"
	if out := must(t, "cluster", "verify", "-host", n.URL); out != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
	n.verify.Equal = false
	n.verify.Nodes[1].Sum = "cd"
	n.verify.Nodes = append(n.verify.Nodes, admin.NodeSum{Name: "n3", Error: "not reachable"})
	n.verify.Differences = []admin.Difference{
		{Sums: map[string]string{"n2": "2", "n1": "1"}},
		{Database: "db", RetentionPolicy: "autogen", Shard: 4, Sums: map[string]string{"n1": "1", "n2": ""}, Values: map[string]int64{"n1": 6000}},
	}
	n.verify.Nodes[0].Values, n.verify.Nodes[0].Flushed, n.verify.Nodes[0].Term = 6000, 990, 3
	want = `NODE  SUM OF THE CONTENT  VALUES  FILES UP TO  OF TERM
n1    ab                  6000    990          3
n2    cd                  0       0            0
n3    none: not reachable

DIFFERENT  the catalog: n1 1 n2 2
DIFFERENT  shard 4 of "db"."autogen": n1 1 (6000 values) n2 missing

A sum does not tell which node is right, and neither do two that are equal. Acknowledged points may be
alone on n1. Keep a copy of the directory of a node before you replace it.

content at sequence 1000: NOT shown to be the same on all nodes
`
	for _, form := range []string{"-json=false", "-json"} {
		out, _, err := tsdbd(t, "cluster", "verify", form, "-host", n.URL)
		if err == nil || err.Error() != "not all nodes are shown to hold the same data" {
			t.Errorf("%s of nodes that differ: %v", form, err)
		}
		if form != "-json" && out != want {
			t.Errorf("got\n%s\nwant\n%s", out, want)
		}
	}
}

func TestClusterChanges(t *testing.T) {
	n := newFakeNode(t)
	f := func(want, asked string, args ...string) {
		t.Helper()
		n.asked = nil
		out := must(t, append(append([]string{"cluster"}, args...), "-host", n.URL)...)
		if got := n.asked[len(n.asked)-1]; out != want+"\n" || got != "POST "+asked {
			t.Errorf("%q: said %q, asked %s", args, out, got)
		}
	}
	f("n2 leads", "transfer-leader?", "transfer-leader")
	f("n2 leads", "transfer-leader?name=n2", "transfer-leader", "n2")
	f("the log is written in format 2, which all nodes read", "finish-upgrade?", "finish-upgrade")
	f("n3 is no member any more", "remove?name=n3", "remove", "n3")
	f("n3 has a vote", "add?name=n3&voter=true", "add", "n3")
	f("n3 holds a copy without a vote", "add?name=n3&voter=false", "add", "-voter=false", "n3")

	const others = "-watch and -voters are for status, -wait for status and scrub, -json for status, verify and scrub, -voter for add, -data and -until for leave"
	for _, c := range []struct {
		want string
		args []string
	}{
		{"cluster takes what to do: status, verify, scrub, transfer-leader, remove, add, finish-upgrade or leave", nil},
		{`cluster does not know "list"`, []string{"list"}},
		{`unexpected argument "n1"`, []string{"status", "n1"}},
		{`unexpected argument "n1 n2"`, []string{"transfer-leader", "n1", "n2"}},
		{"cluster remove takes the name of one node", []string{"remove"}},
		{"cluster add takes the name of one node", []string{"add", "n1", "n2"}},
		{others, []string{"verify", "-watch"}},
		{others, []string{"remove", "n1", "-data", "x"}},
		{others, []string{"status", "-until", "3"}},
		{"cluster leave takes -data, the directory of a node that does not run", []string{"leave"}},
		{"cluster leave takes -data, the directory of a node that does not run", []string{"leave", "n1", "-data", "x"}},
		{others, []string{"verify", "-wait", "1s"}},
		{others, []string{"remove", "n1", "-json"}},
		{others, []string{"remove", "n1", "-voter=false"}},
		{"-watch takes no other flag of status", []string{"status", "-json", "-watch"}},
		{"-watch takes no other flag of status", []string{"status", "-voters", "3", "-watch"}},
	} {
		n.asked = nil
		if _, _, err := tsdbd(t, append(append([]string{"cluster"}, c.args...), "-host", n.URL)...); err == nil || err.Error() != c.want+", see tsdbd cluster -help" {
			t.Errorf("%q: %v, want %s", c.args, err, c.want)
		}
		if len(n.asked) > 0 {
			t.Errorf("%q asks %s", c.args, n.asked)
		}
	}
}
