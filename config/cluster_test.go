package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const joined = "TSDBD_CLUSTER_JOIN=n1=10.0.0.1:8088,n2=10.0.0.2:8088,n3=10.0.0.3:8088"

// inCluster returns the variables of a sound node, and others.
func inCluster(more ...string) []string {
	return append([]string{"TSDBD_CLUSTER_NODE=n1", "TSDBD_CLUSTER_BIND=10.0.0.1:8088", joined, "TSDBD_CLUSTER_SECRET=sesame-sesame-sesame"}, more...)
}

func TestClusterSettings(t *testing.T) {
	c, err := loadConfig(Source{File: writeFile(t, `[cluster]
node = "n2"
bind = ":8088"
join = "n1=10.0.0.1:8088, n2=db2.example.org:8088,n3=[fd00::3]:8088"
secret = "sesame-sesame-sesame"
voter = false
election-timeout = "2s"
max-lag = "30s"
log-max-size = "64MiB"
max-clock-skew = "10s"
`)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	k := c.Cluster
	if k.Node != "n2" || k.Bind != ":8088" || k.Advertise != "db2.example.org:8088" || k.Voter || k.ElectionTimeout != Duration(2*time.Second) ||
		k.MaxLag != Duration(30*time.Second) || k.LogMaxSize != 64<<20 || k.MaxClockSkew != Duration(10*time.Second) {
		t.Errorf("%+v", k)
	}
	if len(k.Join) != 3 || k.Join[0] != (Node{"n1", "10.0.0.1:8088"}) || k.Join.Address("n3") != "[fd00::3]:8088" || k.Join.Address("n4") != "" {
		t.Errorf("join %v", k.Join)
	}
	// What is printed is read back, except the secret.
	var b strings.Builder
	if err := c.Print(&b); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "sesame") || !strings.Contains(b.String(), redacted) {
		t.Errorf("the secret is shown, or nothing in its place:\n%s", &b)
	}
	again, err := loadConfig(Source{File: writeFile(t, strings.Replace(b.String(), redacted, "sesame-sesame-sesame", 1))}, nil)
	if err != nil || fmt.Sprint(again.Cluster.Join) != fmt.Sprint(k.Join) || again.Cluster.Advertise != k.Advertise || again.Cluster.Voter {
		t.Errorf("read back %+v %v", again, err)
	}
}

// TestClusterFlags: a flag wins over the environment, the environment over the
// file.
func TestClusterFlags(t *testing.T) {
	file := writeFile(t, "[cluster]\nnode = \"n1\"\nbind = \"127.0.0.1:1\"\njoin = \"n1=127.0.0.1:1\"\n")
	c, err := loadConfig(Source{File: file, Set: []Flag{
		{"cluster-node", "cluster.node", "n3"}, {"cluster-join", "cluster.join", "n3=127.0.0.1:3"}, {"cluster-voter", "cluster.voter", "false"},
	}}, []string{"TSDBD_CLUSTER_NODE=n2", "TSDBD_CLUSTER_BIND=127.0.0.1:3"})
	if err != nil || c.Cluster.Node != "n3" || c.Cluster.Bind != "127.0.0.1:3" || c.Cluster.Voter {
		t.Errorf("%+v %v", c, err)
	}
	for _, f := range []struct {
		flag Flag
		want string
	}{
		{Flag{"cluster-join", "cluster.join", "n1"}, `-cluster-join: "n1" is not NAME=HOST:PORT`},
		{Flag{"cluster-nod", "cluster.nod", "n1"}, "-cluster-nod: unknown key cluster.nod"},
	} {
		if _, err := loadConfig(Source{Set: []Flag{f.flag}}, nil); err == nil || err.Error() != f.want {
			t.Errorf("%v: %v, want %s", f.flag, err, f.want)
		}
	}
}

func TestClusterSettingsAreChecked(t *testing.T) {
	f := func(want string, env ...string) {
		t.Helper()
		if _, err := loadConfig(Source{}, env); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", env, err, want)
		}
	}
	sound := func(env ...string) {
		t.Helper()
		if _, err := loadConfig(Source{}, env); err != nil {
			t.Errorf("%v: %v", env, err)
		}
	}
	node := inCluster
	sound(node()...)
	sound("TSDBD_CLUSTER_NODE=n1", "TSDBD_CLUSTER_BIND=127.0.0.1:1", "TSDBD_CLUSTER_JOIN=n1=127.0.0.1:1,n2=localhost:2,n3=[::1]:3")

	f("cluster.bind is set but cluster.node is not", "TSDBD_CLUSTER_BIND=10.0.0.1:8088")
	f("cluster.join is set but cluster.node is not", joined)
	f("cluster.secret is set but cluster.node is not", "TSDBD_CLUSTER_SECRET=x")
	f("cluster.voter is set but cluster.node is not", "TSDBD_CLUSTER_VOTER=false")
	f("cluster.bind must be set if cluster.node is: HOST:PORT", "TSDBD_CLUSTER_NODE=n1", joined)
	f("cluster.join must list the nodes of the cluster with this one, such as n1=10.9.9.9:8088,n2=", "TSDBD_CLUSTER_NODE=n1", "TSDBD_CLUSTER_BIND=10.9.9.9:8088")
	f("cluster.join has no n4, the name of this node (cluster.node): it has n1=10.0.0.1:8088,n2=", node("TSDBD_CLUSTER_NODE=n4")...)
	f("cluster.join gives this node (n2) the address 10.0.0.2:8088, but its own address is 10.0.0.1:8088", node("TSDBD_CLUSTER_NODE=n2")...)
	f("cluster.join gives this node (n1) the address 10.0.0.1:8088, but its own address is 10.0.0.1:9", node("TSDBD_CLUSTER_ADVERTISE=10.0.0.1:9")...)
	sound(node("TSDBD_CLUSTER_BIND=0.0.0.0:8088")...)
	sound(node("TSDBD_CLUSTER_BIND=:9", "TSDBD_CLUSTER_ADVERTISE=10.0.0.1:8088")...)
	f(`cluster.bind: "10.0.0.1" is not HOST:PORT such as 10.0.0.1:8088`, node("TSDBD_CLUSTER_BIND=10.0.0.1")...)
	f(`cluster.bind: "10.0.0.1:0" has no port from 1 to 65535`, node("TSDBD_CLUSTER_BIND=10.0.0.1:0")...)
	f(`cluster.advertise: ":8088" names no host that others can reach`, node("TSDBD_CLUSTER_ADVERTISE=:8088")...)
	f("cluster.bind and http.bind-address are both 10.0.0.1:8088", node("TSDBD_HTTP_BIND_ADDRESS=10.0.0.1:8088")...)

	for _, name := range []string{"n 1", "n/1", "é", strings.Repeat("n", 65)} {
		f("cannot be the name of a node", node("TSDBD_CLUSTER_NODE="+name)...)
		f("TSDBD_CLUSTER_JOIN: ", node("TSDBD_CLUSTER_JOIN="+name+"=10.0.0.1:8088")...)
	}
	sound("TSDBD_CLUSTER_NODE=a.B-_9", "TSDBD_CLUSTER_BIND=127.0.0.1:1", "TSDBD_CLUSTER_JOIN=a.B-_9=127.0.0.1:1")
	list := func(want, text string) {
		t.Helper()
		f("TSDBD_CLUSTER_JOIN: "+want, node("TSDBD_CLUSTER_JOIN="+text)...)
	}
	list("n1 is there twice", "n1=10.0.0.1:8088,n1=10.0.0.2:8088")
	list("n1 and n2 have the same address 10.0.0.1:8088", "n1=10.0.0.1:8088,n2=10.0.0.1:8088")
	list(`"10.0.0.1:8088" is not NAME=HOST:PORT`, "10.0.0.1:8088")
	list(`"" is not NAME=HOST:PORT`, "n1=10.0.0.1:8088,")
	list(`address of n1: "10.0.0.1" is not HOST:PORT`, "n1=10.0.0.1")
	list(`address of n1: "10.0.0.1:http8" has no port`, "n1=10.0.0.1:http8")
	list(`address of n2: "0.0.0.0:8088" names no host that others can reach`, "n1=10.0.0.1:8088,n2=0.0.0.0:8088")

	for _, d := range []string{"99ms", "61s", "0s"} {
		f("cluster.election-timeout must be from 100ms to 60s, not ", "TSDBD_CLUSTER_ELECTION_TIMEOUT="+d)
	}
	sound("TSDBD_CLUSTER_ELECTION_TIMEOUT=100ms")
	sound("TSDBD_CLUSTER_ELECTION_TIMEOUT=60s")
	f("cluster.max-lag must be positive", "TSDBD_CLUSTER_MAX_LAG=0s")
	f("cluster.max-clock-skew must be positive", "TSDBD_CLUSTER_MAX_CLOCK_SKEW=0s")
	f("cluster.log-max-size must be at least 1MiB", "TSDBD_CLUSTER_LOG_MAX_SIZE=1000k")
	f("data.wal-sync-interval must be 0s on a node of a cluster", node("TSDBD_DATA_WAL_SYNC_INTERVAL=1s")...)
	f("unknown variable TSDBD_CLUSTER_NODES, did you mean TSDBD_CLUSTER_NODE?", "TSDBD_CLUSTER_NODES=n1")

	open := "needs cluster.secret, cluster.secret-file, or cluster.certificate and cluster.ca"
	f("a cluster on 10.0.0.1:8088 "+open, "TSDBD_CLUSTER_NODE=n1", "TSDBD_CLUSTER_BIND=10.0.0.1:8088", joined)
	f("a cluster on :8088 "+open, "TSDBD_CLUSTER_NODE=n1", "TSDBD_CLUSTER_BIND=:8088", "TSDBD_CLUSTER_JOIN=n1=127.0.0.1:8088")
	f("a cluster on db1:8088 "+open, "TSDBD_CLUSTER_NODE=n1", "TSDBD_CLUSTER_BIND=db1:8088", "TSDBD_CLUSTER_JOIN=n1=db1:8088")
	f("a cluster on 10.0.0.2:1 "+open, "TSDBD_CLUSTER_NODE=n1", "TSDBD_CLUSTER_BIND=127.0.0.1:1", "TSDBD_CLUSTER_JOIN=n1=127.0.0.1:1,n2=10.0.0.2:1")
	f("cluster.secret is given and empty", node("TSDBD_CLUSTER_SECRET=")...)
	f("cluster.secret and cluster.secret-file are both set", node("TSDBD_CLUSTER_SECRET_FILE=x")...)
	f("cluster.certificate and cluster.ca must be set together", node("TSDBD_CLUSTER_CERTIFICATE=x")...)
	f("cluster.certificate and cluster.ca must be set together", node("TSDBD_CLUSTER_CA=x")...)
	f("cluster.private-key is set but cluster.certificate is not", node("TSDBD_CLUSTER_PRIVATE_KEY=x")...)
	sound("TSDBD_CLUSTER_NODE=n1", "TSDBD_CLUSTER_BIND=10.0.0.1:8088", joined, "TSDBD_CLUSTER_CERTIFICATE=x", "TSDBD_CLUSTER_CA=y")
}

func TestClusterSecret(t *testing.T) {
	f := func(c Cluster, want, wantErr string) {
		t.Helper()
		got, err := c.SharedSecret()
		if got != want || (err == nil) != (wantErr == "") || err != nil && !strings.Contains(err.Error(), wantErr) {
			t.Errorf("%q %v, want %q %s", got, err, want, wantErr)
		}
	}
	secret := func(text string) (s Secret) {
		if err := s.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		return s
	}
	f(Cluster{}, "", "")
	f(Cluster{Secret: secret("sesame-sesame-sesame")}, "sesame-sesame-sesame", "")
	f(Cluster{Secret: secret("sesame")}, "", "cluster.secret has 6 characters, a secret has at least 16")
	f(Cluster{SecretFile: writeFile(t, "sesame-sesame-sesame\nnot this\n")}, "sesame-sesame-sesame", "")
	f(Cluster{SecretFile: writeFile(t, "sesame-sesame-sesame")}, "sesame-sesame-sesame", "")
	f(Cluster{SecretFile: writeFile(t, "\n")}, "", "has 0 characters")
	f(Cluster{SecretFile: filepath.Join(t.TempDir(), "none")}, "", "read cluster.secret-file: open ")
}
