package faulty

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"net"
	"slices"
	"sync"
)

// Network connects nodes that have names.
type Network struct {
	seed uint64
	mu   struct {
		sync.Mutex
		nodes   map[string]*endpoint
		links   map[[2]string]*Link // by sender and receiver
		proxies map[[2]string]*Proxy
		closed  bool
	}
}

// endpoint is a node of a network.
type endpoint struct {
	address string
	port    *port // nil for a node that is another process
}

// New returns a network without nodes.
func New(seed uint64) *Network {
	n := &Network{seed: seed}
	n.mu.nodes = map[string]*endpoint{}
	n.mu.links = map[[2]string]*Link{}
	n.mu.proxies = map[[2]string]*Proxy{}
	return n
}

// Add adds a node that is a process of its own and listens on an address.
func (n *Network) Add(name, address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.nodes[name] = &endpoint{address: address}
}

// Address adds a node in this process, if there is none with this name, and returns
// its address. For a node in this process, the network keeps
// its port while the node is stopped: then connections are reset.
func (n *Network) Address(name string) (string, error) {
	e, err := n.node(name)
	if err != nil {
		return "", err
	}
	return e.address, nil
}

func (n *Network) node(name string) (*endpoint, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e := n.mu.nodes[name]; e != nil {
		return e, nil
	}
	if n.mu.closed {
		return nil, net.ErrClosed
	}
	p, err := newPort()
	if err != nil {
		return nil, err
	}
	e := &endpoint{address: p.Addr().String(), port: p}
	n.mu.nodes[name] = e
	return e, nil
}

// Listen returns how a node in this process listens on its address.
func (n *Network) Listen(name string) func(address string) (net.Listener, error) {
	return func(address string) (net.Listener, error) {
		e, err := n.node(name)
		if err != nil {
			return nil, err
		}
		if e.port == nil || e.address != address {
			return nil, fmt.Errorf("listen on %s: the address of %s is %s", address, name, e.address)
		}
		return e.port.listen()
	}
}

// Dial returns how a node in this process connects to others, by their address.
func (n *Network) Dial(name string) func(ctx context.Context, address string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		to, err := n.named(address)
		if err != nil {
			return nil, err
		}
		p, err := n.proxy(name, to)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(p.Forward.open(ctx), p.Backward.open(ctx)); err != nil {
			return nil, fmt.Errorf("dial %s: %w", address, err)
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", p.Address())
	}
}

// AddressFor returns the address by which one node reaches another one. Processes
// need it in place of the other's own address.
func (n *Network) AddressFor(from, to string) (string, error) {
	p, err := n.proxy(from, to)
	if err != nil {
		return "", err
	}
	return p.Address(), nil
}

func (n *Network) named(address string) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name, e := range n.mu.nodes {
		if e.address == address {
			return name, nil
		}
	}
	return "", fmt.Errorf("dial %s: no node has this address", address)
}

// proxy returns the proxy for connections that from dials.
func (n *Network) proxy(from, to string) (*Proxy, error) {
	target, err := n.Address(to)
	if err != nil {
		return nil, err
	}
	forward, backward := n.Link(from, to), n.Link(to, from)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.closed {
		return nil, net.ErrClosed
	}
	key := [2]string{from, to}
	if n.mu.proxies[key] == nil {
		p, err := NewProxy(target, forward, backward)
		if err != nil {
			return nil, err
		}
		n.mu.proxies[key] = p
	}
	return n.mu.proxies[key], nil
}

// Link returns the direction from one node to another one, whoever has dialed.
func (n *Network) Link(from, to string) *Link {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := [2]string{from, to}
	if n.mu.links[key] == nil {
		h := fnv.New64a()
		fmt.Fprintf(h, "%d %s %s", n.seed, from, to)
		n.mu.links[key] = NewLink(h.Sum64())
	}
	return n.mu.links[key]
}

// Cut cuts one direction.
func (n *Network) Cut(from, to string) { n.Link(from, to).Cut() }

// Heal heals one direction.
func (n *Network) Heal(from, to string) { n.Link(from, to).Heal() }

// Partition cuts both directions between the nodes of a group and all others.
func (n *Network) Partition(group ...string) {
	for _, other := range n.names() {
		if slices.Contains(group, other) {
			continue
		}
		for _, name := range group {
			n.Cut(name, other)
			n.Cut(other, name)
		}
	}
}

// HealAll ends all cuts. Other faults stay.
func (n *Network) HealAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.mu.links {
		l.Heal()
	}
}

// Reset breaks the connections between two nodes, whoever has dialed.
func (n *Network) Reset(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, key := range [][2]string{{a, b}, {b, a}} {
		if p := n.mu.proxies[key]; p != nil {
			p.Reset()
		}
	}
}

// names returns the names of all nodes.
func (n *Network) names() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Collect(maps.Keys(n.mu.nodes))
}

// Close ends everything.
func (n *Network) Close() error {
	n.mu.Lock()
	n.mu.closed = true
	proxies, nodes := n.mu.proxies, n.mu.nodes
	n.mu.proxies = nil
	n.mu.Unlock()
	var errs []error
	for _, p := range proxies {
		errs = append(errs, p.Close())
	}
	for _, e := range nodes {
		if e.port != nil {
			errs = append(errs, e.port.close())
		}
	}
	return errors.Join(errs...)
}
