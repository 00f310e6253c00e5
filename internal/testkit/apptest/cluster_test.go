package apptest

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// alone returns the flags of a node that is a cluster by itself.
func alone(t testing.TB, name string) []string {
	bind := FreeAddress(t)
	return []string{"-cluster-node", name, "-cluster-bind", bind, "-cluster-join", name + "=" + bind}
}

// command runs the binary and returns what it prints.
func command(t testing.TB, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, Binary(t), args...).CombinedOutput()
	return string(out), err
}

// TestClusterFlagsAreRefused: flags that cannot work are refused before anything is
// opened, with what to do.
func TestClusterFlagsAreRefused(t *testing.T) {
	t.Parallel()
	f := func(want string, args ...string) {
		t.Helper()
		if out := Refusal(t, args...); !strings.Contains(out, want) {
			t.Errorf("%q:\n%s\nwant %s", args, out, want)
		}
	}
	const list = "n1=127.0.0.1:18188,n2=127.0.0.1:18189"
	f("cluster.bind must be set if cluster.node is", "-cluster-node", "n1", "-cluster-join", list)
	f("cluster.bind is set but cluster.node is not", "-cluster-bind", "127.0.0.1:18188")
	f("cluster.join has no n3, the name of this node", "-cluster-node", "n3", "-cluster-bind", "127.0.0.1:18188", "-cluster-join", list)
	f("gives this node (n2) the address 127.0.0.1:18189, but its own address is 127.0.0.1:18188", "-cluster-node", "n2", "-cluster-bind", "127.0.0.1:18188", "-cluster-join", list)
	f("n1 is there twice", "-cluster-node", "n1", "-cluster-bind", "127.0.0.1:18188", "-cluster-join", "n1=127.0.0.1:18188,n1=127.0.0.1:18189")
	f("needs cluster.secret, cluster.secret-file", "-cluster-node", "n1", "-cluster-bind", ":18188", "-cluster-join", "n1=10.0.0.1:18188")
	f("read cluster.secret-file: open /nonexistent", "-cluster-node", "n1", "-cluster-bind", "127.0.0.1:18188", "-cluster-join", list, "-cluster-secret-file", "/nonexistent")
	f("a secret has at least 16", "-cluster-node", "n1", "-cluster-bind", "127.0.0.1:18188", "-cluster-join", list, "-cluster-secret-file", TempFile(t, "sesame\n"))
	f("load certificate /nonexistent with key /nonexistent: open /nonexistent", "-cluster-node", "n1", "-cluster-bind", "127.0.0.1:18188", "-cluster-join", list, "-cluster-certificate", "/nonexistent", "-cluster-ca", "/nonexistent")
}

// TestClusterOfOneDirectory goes from a server with data to a node and back: the
// node begins a cluster with the data, its directory is refused without the flags and
// under another name, and after cluster leave it is a server's again.
func TestClusterOfOneDirectory(t *testing.T) {
	t.Parallel()
	s := Start(t)
	s.Query("", "CREATE DATABASE db")
	s.Write("db", "m v=1 1")
	if out, err := command(t, "cluster", "status", "-host", s.URL); err == nil || !strings.Contains(out, "is not a node of a cluster") {
		t.Errorf("status of a server that is alone: %v %s", err, out)
	}
	s.Stop()
	if out, err := command(t, "cluster", "leave", "-data", s.Dir); err == nil || !strings.Contains(out, "is no member of a cluster") {
		t.Errorf("a server that is alone leaves: %v %s", err, out)
	}

	s.Args = alone(t, "n1")
	s.Restart()
	s.Write("db", "m v=2 2")
	if got := s.Query("db", "SELECT sum(v) FROM m"); !strings.Contains(got, "[0,3]") {
		t.Errorf("the node has %s", got)
	}
	if out, err := command(t, "cluster", "status", "-host", s.URL, "-wait", "1m"); err != nil || !strings.Contains(out, "n1    leader") {
		t.Errorf("status: %v %s", err, out)
	}
	if out, err := command(t, "cluster", "verify", "-host", s.URL); err != nil || !strings.Contains(out, "the same on all nodes") {
		t.Errorf("verify: %v %s", err, out)
	}
	if out, err := command(t, "cluster", "leave", "-data", s.Dir); err == nil {
		t.Errorf("a node that runs leaves: %s", out)
	}
	s.Stop()

	f := func(want string, args ...string) {
		t.Helper()
		if out := Refusal(t, append(args, "-data", s.Dir)...); !strings.Contains(out, want) {
			t.Errorf("%q:\n%s\nwant %s", args, out, want)
		}
	}
	f(s.Dir + " is the directory of node n1 of cluster ")
	f("is the directory of node n1, but cluster.node is n2", alone(t, "n2")...)
	if out, err := command(t, "cluster", "leave", "-data", s.Dir); err != nil || !strings.Contains(out, "n1 has left") {
		t.Fatalf("leave: %v %s", err, out)
	}
	s.Args = nil
	s.Restart()
	s.Write("db", "m v=4 3")
	if got := s.Query("db", "SELECT sum(v) FROM m"); !strings.Contains(got, "[0,7]") {
		t.Errorf("after it has left, the server has %s", got)
	}
	s.Stop()
}

// TestClusterTwoWithData: two nodes with data begin no cluster. The one that notices
// says so and ends; both are servers with their data as before.
func TestClusterTwoWithData(t *testing.T) {
	t.Parallel()
	a, b := FreeAddress(t), FreeAddress(t)
	join := "n1=" + a + ",n2=" + b
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	said := make(chan string, 2)
	var servers []*Server
	for name, bind := range map[string]string{"n1": a, "n2": b} {
		s := Start(t)
		s.Query("", "CREATE DATABASE db")
		s.Write("db", "m v=1 1")
		s.Stop()
		servers = append(servers, s)
		go func() {
			out, _ := exec.CommandContext(ctx, Binary(t), "-data", s.Dir, "-http", "127.0.0.1:0", "-cluster-node", name, "-cluster-bind", bind, "-cluster-join", join).CombinedOutput()
			said <- string(out)
		}()
	}
	if out := <-said; !strings.Contains(out, "have data, and only one node of a new cluster may") {
		t.Errorf("the first that ends says %s", out)
	}
	cancel()
	<-said
	for _, s := range servers {
		s.Restart()
		if got := s.Query("db", "SELECT v FROM m"); !strings.Contains(got, "[1,1]") {
			t.Errorf("the data of %s is %s", s.Dir, got)
		}
		s.Stop()
	}
}
