package server

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tsdbd/config"
	"tsdbd/internal/proc"
	"tsdbd/internal/testkit/leak"
)

// nodes are the servers of a cluster in this process.
type nodes struct {
	t       *testing.T
	configs []*config.Config
	servers []*Server // nil: closed
}

// Tests of clusters wait for elections: they run together.
func TestMain(m *testing.M) {
	leak.Parallel(8)
	os.Exit(m.Run())
}

// openNodes opens three servers, with settings in addition.
func openNodes(t *testing.T, env ...string) *nodes {
	t.Helper()
	t.Parallel()
	n := &nodes{t: t, servers: make([]*Server, 3)}
	var addresses, join []string
	for i := range 3 {
		address, err := proc.FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		addresses = append(addresses, address)
		join = append(join, fmt.Sprintf("n%d=%s", i+1, addresses[i]))
	}
	dir := t.TempDir()
	for i := range 3 {
		from := config.Source{Dir: filepath.Join(dir, fmt.Sprint("n", i+1)), Address: "127.0.0.1:0", Level: "error", Heap: 1 << 30}
		c, _, err := from.Load(append([]string{
			fmt.Sprintf("TSDBD_CLUSTER_NODE=n%d", i+1), "TSDBD_CLUSTER_BIND=" + addresses[i], "TSDBD_CLUSTER_JOIN=" + strings.Join(join, ","),
			"TSDBD_CLUSTER_ELECTION_TIMEOUT=500ms",
		}, env...))
		if err != nil {
			t.Fatal(err)
		}
		n.configs = append(n.configs, c)
	}
	var opening sync.WaitGroup
	for i := range n.servers {
		opening.Go(func() { n.open(i) })
	}
	opening.Wait()
	t.Cleanup(func() {
		for i := range n.servers {
			n.close(i)
		}
	})
	if t.Failed() {
		t.FailNow()
	}
	n.leader()
	return n
}

func (n *nodes) open(i int) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := Open(ctx, n.configs[i], Options{Stderr: n.t.Output(), Version: fmt.Sprint("0.9.", i)})
	if err != nil {
		n.t.Error(err)
		return
	}
	n.servers[i] = s
}

func (n *nodes) close(i int) {
	if s := n.servers[i]; s != nil {
		n.servers[i] = nil
		if err := s.Close(); err != nil {
			n.t.Error(err)
		}
	}
}

// eventually waits for what must come true.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if f() {
			return
		}
	}
	t.Fatalf("not within a minute: %s", what)
}

// leader returns the number of the leader, and waits for one with two voters more.
func (n *nodes) leader() (leader int) {
	n.t.Helper()
	eventually(n.t, "a leader", func() bool {
		for i, s := range n.servers {
			if s == nil || !s.node.Leads() {
				continue
			}
			voters := 0
			for _, m := range s.node.Status().Members {
				if m.Voter {
					voters++
				}
			}
			leader = i
			return voters == len(n.servers)
		}
		return false
	})
	return leader
}

// follower returns the number of a node that does not lead.
func (n *nodes) follower() int {
	n.t.Helper()
	for i, s := range n.servers {
		if s != nil && i != n.leader() {
			return i
		}
	}
	n.t.Fatal("no follower")
	return 0
}

// ask sends a request to a node, again while it gets 503.
func (n *nodes) ask(i int, method, path, body string, header ...string) (status int, answer string, head http.Header) {
	n.t.Helper()
	eventually(n.t, path, func() bool {
		r, err := http.NewRequest(method, n.servers[i].URL()+path, strings.NewReader(body))
		if err != nil {
			n.t.Fatal(err)
		}
		for h := 0; h < len(header); h += 2 {
			r.Header.Set(header[h], header[h+1])
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			n.t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			n.t.Fatal(err)
		}
		status, answer, head = resp.StatusCode, string(b), resp.Header
		if status == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") == "" {
			n.t.Errorf("503 without Retry-After: %s", answer)
		}
		return status != http.StatusServiceUnavailable
	})
	return status, answer, head
}

// query runs statements at a node.
func (n *nodes) query(i int, text string, header ...string) string {
	n.t.Helper()
	status, answer, _ := n.ask(i, "POST", "/query?db=d&epoch=ns&q="+url.QueryEscape(text), "", header...)
	if status != 200 {
		n.t.Errorf("%s: %d %s", text, status, answer)
	}
	return strings.TrimSuffix(answer, "\n")
}

func TestCluster(t *testing.T) {
	n := openNodes(t)
	leader, follower := n.leader(), n.follower()

	// Each node knows which version every other one runs.
	for i, s := range n.servers {
		for _, m := range s.node.Status().Members {
			if want := "0.9." + string(m.Name[1]-1); m.Version != want {
				t.Errorf("n%d takes %s for version %q, want %q", i+1, m.Name, m.Version, want)
			}
		}
	}

	// Statements through a follower, seen by all at its position.
	status, answer, head := n.ask(follower, "POST", "/query?q=CREATE+DATABASE+d", "")
	if status != 200 || head.Get("X-Tsdbd-Position") == "" {
		t.Fatalf("%d %s %v", status, answer, head)
	}
	for i := range n.servers {
		if got := n.query(i, "SHOW DATABASES", "X-Tsdbd-Position", head.Get("X-Tsdbd-Position")); !strings.Contains(got, `["d"]`) {
			t.Errorf("node %d: %s", i, got)
		}
	}

	// A client that keeps its position reads its own writes, whatever node it asks.
	for i := range 1000 {
		status, answer, head := n.ask(i%3, "POST", "/write?db=d", fmt.Sprintf("own v=%di %d", i, i))
		if status != 204 {
			t.Fatalf("write %d: %d %s", i, status, answer)
		}
		got := n.query((i+1+i/7)%3, fmt.Sprintf("SELECT v FROM own WHERE time = %d", i), "X-Tsdbd-Position", head.Get("X-Tsdbd-Position"))
		if !strings.Contains(got, fmt.Sprintf("[%d,%d]", i, i)) {
			t.Fatalf("write %d is not read: %s", i, got)
		}
	}
	// And so does one that asks for it.
	for i := range 50 {
		n.ask(i%3, "POST", "/write?db=d", fmt.Sprintf("strong v=%di 1", i))
		_, got, _ := n.ask((i+1)%3, "GET", "/query?db=d&epoch=ns&consistency=strong&q=SELECT+v+FROM+strong", "")
		if !strings.Contains(got, fmt.Sprintf("[1,%d]", i)) {
			t.Fatalf("strong read of %d: %s", i, got)
		}
	}

	// Errors of writes and statements through a follower are those of the leader.
	for _, request := range [][2]string{
		{"/write?db=d", "own v=1.5 1\nown w=1 1"},
		{"/write?db=d", "own v=1.5 1\nbad line\nown w=1 1"},
		{"/write?db=d", "nonsense"},
		{"/write?db=none", "m v=1"},
		{"/write?db=d&rp=none", "m v=1"},
		{"/write", "m v=1"},
		{"/api/v2/write?bucket=d", "own v=1.5 1"},
		{"/query?q=CREATE+RETENTION+POLICY+x+ON+none+DURATION+1d+REPLICATION+1", ""},
		{"/query?db=d&q=DELETE+WHERE+v+%3D+1", ""},
		{"/query?db=d&q=SELECT+v+INTO+none..m+FROM+own", ""},
	} {
		_, want, _ := n.ask(leader, "POST", request[0], request[1])
		_, got, _ := n.ask(follower, "POST", request[0], request[1])
		if got != want || !strings.Contains(want, "error") {
			t.Errorf("%s %q: %s, the leader says %s", request[0], request[1], got, want)
		}
	}

	// The nodes, from any of them. On a busy machine another one may come to lead: then
	// they agree a little later.
	var differs string
	agree := func() bool {
		leader := n.leader()
		for i := range n.servers {
			servers := n.query(i, "SHOW SERVERS")
			_, metrics, _ := n.ask(i, "GET", "/metrics", "")
			status, health, _ := n.ask(i, "GET", "/health", "")
			differs = fmt.Sprintf("node %d where %d leads: %s, %d %s", i, leader, servers, status, health)
			if strings.Count(servers, `"leader"`) != 1 || strings.Count(servers, `"follower"`) != 2 || !strings.Contains(servers, "data_nodes") {
				return false
			}
			if !strings.Contains(metrics, fmt.Sprintf("tsdbd_cluster_leader %d\n", map[bool]int{true: 1}[i == leader])) {
				return false
			}
			if want := map[bool]string{true: "leads the cluster", false: fmt.Sprintf("follows n%d", leader+1)}[i == leader]; status != 200 || !strings.Contains(health, want) {
				return false
			}
		}
		differs = ""
		return true
	}
	defer func() {
		if differs != "" {
			t.Error(differs)
		}
	}()
	eventually(t, "what all nodes say of the cluster", agree)
	for i := range n.servers {
		if got := n.query(i, "SHOW DIAGNOSTICS FOR 'cluster'"); !strings.Contains(got, fmt.Sprintf(`"n%d"`, i+1)) {
			t.Errorf("node %d: %s", i, got)
		}
		if got := n.query(i, "SHOW STATS FOR 'cluster'"); !strings.Contains(got, "applied_sequence") {
			t.Errorf("node %d: %s", i, got)
		}
	}

	n.close(follower)
	eventually(t, "the other nodes tell that one is gone", func() bool {
		leader := n.leader()
		servers := n.query(leader, "SHOW SERVERS")
		status, health, _ := n.ask(leader, "GET", "/health", "")
		differs = fmt.Sprintf("%s, %d %s", servers, status, health)
		if !strings.Contains(servers, `"follower",true,false,null,null,null,"not reachable at `) || status != 200 || !strings.Contains(health, fmt.Sprintf("; n%d: not reachable at ", follower+1)) {
			return false
		}
		differs = n.query(leader, "SHOW DIAGNOSTICS FOR 'cluster'")
		if !strings.Contains(differs, fmt.Sprintf(`"n%d: not reachable at `, follower+1)) {
			return false
		}
		differs = ""
		return true
	})

	// The directory of a member is not opened without its cluster.
	alone := *n.configs[follower]
	alone.Cluster = config.Default().Cluster
	if s, err := Open(t.Context(), &alone, Options{Stderr: io.Discard}); err == nil || !strings.Contains(err.Error(), "cluster leave") {
		t.Errorf("opened alone: %v, %v", s, err)
	}
}

// TestClusterLogins: users and rights that are given at one node hold at all of them.
func TestClusterLogins(t *testing.T) {
	n := openNodes(t, "TSDBD_HTTP_AUTH_ENABLED=true")
	a, b := n.follower(), n.leader()
	// While no node leads the answer is 503, on a busy machine at any time.
	ask := func(i int, login, path, body string) (int, string) {
		t.Helper()
		var header []string
		if login != "" {
			header = []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(login))}
		}
		status, answer, _ := n.ask(i, "POST", path, body, header...)
		return status, answer
	}
	f := func(i int, login, path, body string, want int) {
		t.Helper()
		if status, answer := ask(i, login, path, body); status != want {
			t.Errorf("%s of %s at node %d: %d %s", path, login, i, status, answer)
		}
	}
	create := "/query?q=" + url.QueryEscape("CREATE USER root WITH PASSWORD 'x' WITH ALL PRIVILEGES")
	f(a, "", "/query?q=CREATE+DATABASE+d", "", 403)
	// 401 if the answer to the first request was lost with the leader.
	if status, answer := ask(a, "", create, ""); status != 200 && status != 401 {
		t.Errorf("the first user: %d %s", status, answer)
	}
	f(a, "", create, "", 401)
	f(a, "root:x", "/query?q="+url.QueryEscape("CREATE DATABASE d; CREATE USER ann WITH PASSWORD 'y'; GRANT WRITE ON d TO ann"), "", 200)
	// At once, at the node that does not have it yet.
	f(a, "ann:y", "/write?db=d", "m v=1", 204)
	f(a, "ann:y", "/query?db=d&q=SELECT+v+FROM+m", "", 403)
	f(b, "root:x", "/query?q=GRANT+ALL+ON+d+TO+ann", "", 200)
	f(a, "ann:y", "/query?db=d&q=SELECT+v+FROM+m", "", 200)
	f(a, "ann:wrong", "/query?db=d&q=SELECT+v+FROM+m", "", 401)
	f(a, "ann:wrong", "/write?db=d", "m v=1", 401)
	f(a, "", "/write?db=d", "m v=1", 401)
	// The paths of nodes are not there for clients.
	f(a, "", passedWrite+"?db=d", "m v=1", 404)
	f(b, "root:x", passedWrite+"?db=d", "m v=1", 404)
}

// TestClusterInputs: what the input of a follower receives is stored, in a database
// that it has made.
func TestClusterInputs(t *testing.T) {
	n := openNodes(t, "TSDBD_UDP_0_ENABLED=true", "TSDBD_UDP_0_BIND_ADDRESS=127.0.0.1:0", "TSDBD_UDP_0_DATABASE=inputs", "TSDBD_UDP_0_BATCH_TIMEOUT=10ms")
	var inputs []net.Conn
	for i := range n.servers {
		c, err := net.Dial("udp", n.servers[i].inputs[0].Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		inputs = append(inputs, c)
	}
	eventually(t, "the points of all inputs", func() bool {
		// Again and again: while no node leads, the database cannot be made, and a packet is lost.
		for i, c := range inputs {
			if _, err := fmt.Fprintf(c, "m,node=%d v=1,s=\"two words\" %d\n", i, i+1); err != nil {
				t.Fatal(err)
			}
		}
		_, got, _ := n.ask(n.follower(), "GET", "/query?db=inputs&q=SELECT+count(s)+FROM+m", "")
		return strings.Contains(got, `,3]]`)
	})
}

// TestClusterHandsOver: a leader that closes first has another node lead. Clients write
// there while the requests that the old leader has are under way.
func TestClusterHandsOver(t *testing.T) {
	n := openNodes(t, "TSDBD_HTTP_STOP_TIMEOUT=1m")
	leader, other := n.leader(), n.follower()
	n.query(leader, "CREATE DATABASE d")
	slow, err := net.Dial("tcp", strings.TrimPrefix(n.servers[leader].URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	// The handler waits for the rest of the body, and says so to a client that expects it.
	if _, err := fmt.Fprint(slow, "POST /write?db=d HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\nExpect: 100-continue\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := slow.Read(make([]byte, len("HTTP/1.1 100"))); err != nil {
		t.Fatal(err)
	}
	old := n.servers[leader]
	n.servers[leader] = nil
	closed := make(chan error)
	go func() { closed <- old.Close() }()
	eventually(t, "another leader", func() bool {
		for _, s := range n.servers {
			if s != nil && s.node.Leads() {
				return true
			}
		}
		return false
	})
	if status, answer, _ := n.ask(other, "POST", "/write?db=d", "m v=2 2"); status != 204 {
		t.Errorf("%d %s", status, answer)
	}
	select {
	case err := <-closed:
		t.Errorf("the old leader has closed with a request under way: %v", err)
	default:
	}
	if err := slow.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// TestClusterDuties: continuous queries and the monitor run where the node leads, go on
// when another one leads, and leave no window out.
func TestClusterDuties(t *testing.T) {
	n := openNodes(t, "TSDBD_CONTINUOUS_QUERIES_RUN_INTERVAL=50ms", "TSDBD_MONITOR_STORE_ENABLED=true", "TSDBD_MONITOR_STORE_INTERVAL=1s")
	n.query(n.leader(), "CREATE DATABASE d; CREATE CONTINUOUS QUERY q ON d BEGIN SELECT count(v) AS n INTO t FROM m GROUP BY time(1s) END")
	runs := func() (runs [3]uint64) {
		for i, s := range n.servers {
			if s != nil {
				runs[i], _ = s.continuous.Counts()
			}
		}
		return runs
	}
	written := map[int64]int64{} // points by window, as far as they were stored before its end
	// alone reports whether one node has led for some runs and a window with points, and was
	// the only one that had runs. On a busy machine another one may come to lead at any time.
	alone := func() bool {
		leader, before, end := n.leader(), runs(), time.Now().Add(time.Minute)
		windows := len(written)
		for now := runs(); now[leader] < before[leader]+2 || len(written) == windows; now = runs() {
			if !n.servers[leader].node.Leads() || time.Now().After(end) {
				return false
			}
			at := time.Now().Add(2 * time.Second) // a busy machine has time to store it
			if status, answer, _ := n.ask(n.follower(), "POST", "/write?db=d", fmt.Sprintf("m v=1 %d", at.UnixNano())); status != 204 {
				t.Fatalf("%d %s", status, answer)
			}
			if window := at.Truncate(time.Second); time.Now().Before(window.Add(time.Second)) {
				written[window.UnixNano()]++
			}
			time.Sleep(20 * time.Millisecond)
		}
		now := runs()
		now[leader] = before[leader]
		return now == before
	}
	eventually(t, "runs at the leader alone", alone)
	old := n.leader()
	n.close(old)
	eventually(t, "runs at the new leader alone", alone)
	other := n.follower()
	// Every window that has ended has the count of its points: those of both leaders.
	eventually(t, "all windows", func() bool {
		var answer struct {
			Results []struct{ Series []struct{ Values [][2]int64 } }
		}
		text := n.query(other, "SELECT n FROM t")
		if err := json.Unmarshal([]byte(text), &answer); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		counts := map[int64]int64{}
		for _, r := range answer.Results {
			for _, s := range r.Series {
				for _, v := range s.Values {
					counts[v[0]] = v[1]
				}
			}
		}
		for window, points := range written {
			if counts[window] < points {
				return false
			}
		}
		return true
	})
	// The leaders have written the monitor's figures, the third node none.
	hosts := n.query(other, "SELECT count(term) FROM _internal.monitor.cluster")
	if !strings.Contains(hosts, "values") {
		t.Errorf("no figures of the cluster: %s", hosts)
	}
}
