package config

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"
)

// Cluster makes the server a node of a cluster. Without a name of the node, the
// server is alone and the other settings must be empty.
type Cluster struct {
	Node string `toml:"node"`
	// Bind is where the node listens for the other nodes.
	Bind string `toml:"bind"`
	// Advertise is the address under which the other nodes reach this one. Load
	// fills it in: see setDefaults.
	Advertise string `toml:"advertise"`
	// Join lists nodes of the cluster, this one included.
	Join Nodes `toml:"join"`
	// Secret, or the first line of SecretFile, proves to the other nodes that a
	// node belongs to them.
	Secret     Secret `toml:"secret,omitempty"`
	SecretFile string `toml:"secret-file"`
	// Certificate and CA encrypt the connections between nodes. Each node shows
	// its certificate and accepts those that CA has signed.
	Certificate string `toml:"certificate"`
	// PrivateKey is the file of the key; empty: the file of the certificate.
	PrivateKey string `toml:"private-key"`
	CA         string `toml:"ca"`
	// Voter is false for a node that only holds a copy: it takes no part in
	// elections, and no write waits for it.
	Voter           bool     `toml:"voter"`
	ElectionTimeout Duration `toml:"election-timeout"`
	// MaxLag is how far a node may be behind and still answer queries itself.
	MaxLag Duration `toml:"max-lag"`
	// LogMaxSize is how much of the log is kept for nodes that are behind.
	LogMaxSize   Size     `toml:"log-max-size"`
	MaxClockSkew Duration `toml:"max-clock-skew"`
}

func defaultCluster() Cluster {
	return Cluster{
		Voter: true, ElectionTimeout: Duration(time.Second), MaxLag: Duration(5 * time.Second),
		LogMaxSize: 1 << 30, MaxClockSkew: Duration(time.Minute),
	}
}

// Node is the name of a node and the address under which others reach it.
type Node struct{ Name, Address string }

// Nodes are nodes of a cluster, written n1=10.0.0.1:8088,n2=10.0.0.2:8088.
type Nodes []Node

// UnmarshalText reads names and addresses, and checks them.
func (l *Nodes) UnmarshalText(text []byte) error {
	*l = nil
	if strings.TrimSpace(string(text)) == "" {
		return nil
	}
	for item := range strings.SplitSeq(string(text), ",") {
		name, address, ok := strings.Cut(strings.TrimSpace(item), "=")
		if !ok {
			return fmt.Errorf("%q is not NAME=HOST:PORT", item)
		}
		if err := checkNodeName(name); err != nil {
			return err
		}
		if err := checkNodeAddress(address, false); err != nil {
			return fmt.Errorf("address of %s: %w", name, err)
		}
		for _, n := range *l {
			if n.Name == name {
				return fmt.Errorf("%s is there twice", name)
			}
			if n.Address == address {
				return fmt.Errorf("%s and %s have the same address %s", n.Name, name, address)
			}
		}
		*l = append(*l, Node{name, address})
	}
	return nil
}

// String returns the list as it is written.
func (l Nodes) String() string {
	var items []string
	for _, n := range l {
		items = append(items, n.Name+"="+n.Address)
	}
	return strings.Join(items, ",")
}

// MarshalText writes the list.
func (l Nodes) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// Address returns the address of a node, "" if the list does not have it.
func (l Nodes) Address(name string) string {
	i := slices.IndexFunc(l, func(n Node) bool { return n.Name == name })
	if i < 0 {
		return ""
	}
	return l[i].Address
}

func checkNodeName(name string) error {
	bad := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '_' && r != '-'
	}
	if name == "" || len(name) > 64 || strings.ContainsFunc(name, bad) {
		return fmt.Errorf("%q cannot be the name of a node: 1 to 64 of a-z, A-Z, 0-9, dot, hyphen and underscore", name)
	}
	return nil
}

// checkNodeAddress checks HOST:PORT. Only an address to listen on may be all
// addresses of the machine.
func checkNodeAddress(address string, listen bool) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is not HOST:PORT such as 10.0.0.1:8088", address)
	}
	if n, err := net.LookupPort("tcp", port); err != nil || n == 0 {
		return fmt.Errorf("%q has no port from 1 to 65535", address)
	}
	if !listen && isEveryAddress(host) {
		return fmt.Errorf("%q names no host that others can reach", address)
	}
	return nil
}

func isEveryAddress(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

func isLoopback(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// setDefaults fills in the address of the node: the one that it listens
// on. If that is every address of the machine, the list of nodes has it.
func (c *Cluster) setDefaults() {
	if c.Advertise != "" {
		return
	}
	c.Advertise = c.Bind
	if host, _, err := net.SplitHostPort(c.Bind); err == nil && isEveryAddress(host) {
		c.Advertise = c.Join.Address(c.Node)
	}
}

// checkCluster returns what is wrong with the settings of the cluster.
func (c *Config) checkCluster() (errs []error) {
	k := &c.Cluster
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(k.ElectionTimeout >= Duration(100*time.Millisecond) && k.ElectionTimeout <= Duration(time.Minute),
		"cluster.election-timeout must be from 100ms to 60s, not %s", time.Duration(k.ElectionTimeout))
	check(k.MaxLag > 0, "cluster.max-lag must be positive")
	check(k.MaxClockSkew > 0, "cluster.max-clock-skew must be positive")
	check(k.LogMaxSize >= 1<<20, "cluster.log-max-size must be at least 1MiB")
	if k.Node == "" {
		for _, s := range []struct {
			key string
			set bool
		}{
			{"bind", k.Bind != ""},
			{"advertise", k.Advertise != ""},
			{"join", len(k.Join) > 0},
			{"secret", k.Secret.text != ""},
			{"secret-file", k.SecretFile != ""},
			{"certificate", k.Certificate != ""},
			{"private-key", k.PrivateKey != ""},
			{"ca", k.CA != ""},
			{"voter", !k.Voter},
		} {
			if s.set {
				check(false, "cluster.%s is set but cluster.node is not: name this node, or remove the settings of the cluster", s.key)
				break
			}
		}
		return errs
	}
	if err := checkNodeName(k.Node); err != nil {
		errs = append(errs, fmt.Errorf("cluster.node: %w", err))
	}
	if k.Bind == "" {
		check(false, "cluster.bind must be set if cluster.node is: HOST:PORT where this node listens for the others, such as 10.0.0.1:8088")
	} else if err := checkNodeAddress(k.Bind, true); err != nil {
		errs = append(errs, fmt.Errorf("cluster.bind: %w", err))
	}
	if k.Advertise != "" {
		if err := checkNodeAddress(k.Advertise, false); err != nil {
			errs = append(errs, fmt.Errorf("cluster.advertise: %w", err))
		}
	}
	own := k.Join.Address(k.Node)
	switch {
	case len(k.Join) == 0:
		check(false, "cluster.join must list the nodes of the cluster with this one, such as %s=%s,n2=10.0.0.2:8088,n3=10.0.0.3:8088", k.Node, cmp.Or(k.Advertise, "10.0.0.1:8088"))
	case own == "":
		check(false, "cluster.join has no %s, the name of this node (cluster.node): it has %s", k.Node, k.Join)
	case own != k.Advertise && len(errs) == 0:
		check(false, "cluster.join gives this node (%s) the address %s, but its own address is %s (cluster.advertise, else cluster.bind)", k.Node, own, k.Advertise)
	}
	check(k.Bind != c.HTTP.BindAddress, "cluster.bind and http.bind-address are both %s: nodes need a port of their own", k.Bind)
	check(c.Data.WALSyncInterval == 0, "data.wal-sync-interval must be 0s on a node of a cluster: its log syncs every write before the answer")
	check(!k.Secret.given || k.Secret.text != "", "cluster.secret is given and empty: put a secret, or leave the key out")
	check(k.Secret.text == "" || k.SecretFile == "", "cluster.secret and cluster.secret-file are both set: give one of them")
	check((k.Certificate == "") == (k.CA == ""), "cluster.certificate and cluster.ca must be set together: the nodes check each other's certificates")
	check(k.PrivateKey == "" || k.Certificate != "", "cluster.private-key is set but cluster.certificate is not")
	if k.Secret.text == "" && k.SecretFile == "" && k.Certificate == "" {
		addresses := []string{k.Bind, k.Advertise}
		for _, n := range k.Join {
			addresses = append(addresses, n.Address)
		}
		i := slices.IndexFunc(addresses, func(a string) bool { return a != "" && !isLoopback(a) })
		if i >= 0 {
			check(false, "a cluster on %s needs cluster.secret, cluster.secret-file, or cluster.certificate and cluster.ca: without them everyone who reaches the port can read and change the data", addresses[i])
		}
	}
	return errs
}

// minSecret is the length of a secret that cannot be guessed from what is seen
// on the network.
const minSecret = 16

// SharedSecret returns the secret of the nodes, "" if there is none.
func (c *Cluster) SharedSecret() (string, error) {
	secret, from := c.Secret.text, "cluster.secret"
	if c.SecretFile != "" {
		text, err := os.ReadFile(c.SecretFile)
		if err != nil {
			return "", fmt.Errorf("read cluster.secret-file: %w", err)
		}
		line, _, _ := strings.Cut(string(text), "\n")
		secret, from = strings.TrimSpace(line), "the first line of cluster.secret-file "+c.SecretFile
	} else if secret == "" {
		return "", nil
	}
	if len(secret) < minSecret {
		return "", fmt.Errorf("%s has %d characters, a secret has at least %d: openssl rand -hex 32 prints one", from, len(secret), minSecret)
	}
	return secret, nil
}
