package cluster

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"tsdbd/backup"
	"tsdbd/cluster/replica"
	"tsdbd/cluster/self"
	"tsdbd/cluster/transport"
	"tsdbd/internal/vfs"
	"tsdbd/store"
)

// Peer is a node and where other nodes reach it.
type Peer struct{ Name, Address string }

// Options say which node this is, and how it finds the others.
type Options struct {
	Dir  string // the data directory
	Name string // of this node
	Bind string // HOST:PORT to listen on for other nodes
	// Join has nodes of the cluster, this one included. It is the same on all nodes of
	// a new cluster. A node that joins a cluster needs one member of it.
	Join []Peer
	// Voter has the node take part in elections and majorities. Otherwise it keeps the
	// data without a vote, until an administrator gives it one.
	Voter bool

	Secret string             // see transport.Options
	TLS    func() *tls.Config // see transport.Options

	ElectionTimeout time.Duration // default 1 s
	MaxLag          time.Duration // a node that is further behind does not answer queries itself; default 5 s
	LogMaxBytes     int64         // of the log that is kept for nodes that were away; default 1 GiB
	MaxClockSkew    time.Duration // a node whose clock differs by more from that of most voters is not to lead; default 1 minute

	// Store has the options with which a node that founds a cluster opens the store
	// that it has, to put its log into files. They have no log.
	Store store.Options

	// Cold is the cold store of the nodes: Objects and Dir. nil: this node has none.
	Cold *backup.Cold

	Version string // of the program
	// LogFormat is the newest form of the log that the program reads; default
	// replica.Format. Tests stand in for other programs.
	LogFormat byte
	Logger    *slog.Logger
	FS        vfs.FS // default vfs.OS
	Now       func() time.Time

	// Dial and Listen replace the network; see transport.Options.
	Dial   func(ctx context.Context, address string) (net.Conn, error)
	Listen func(address string) (net.Listener, error)

	damage func(*store.Store) damage // nil: damageOf; tests have others
}

func (o *Options) setDefaults() {
	o.ElectionTimeout = cmp.Or(o.ElectionTimeout, time.Second)
	o.MaxLag = cmp.Or(o.MaxLag, 5*time.Second)
	o.MaxClockSkew = cmp.Or(o.MaxClockSkew, time.Minute)
	o.LogMaxBytes = cmp.Or(o.LogMaxBytes, 1<<30)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.LogFormat = cmp.Or(o.LogFormat, replica.Format)
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.damage == nil {
		o.damage = damageOf
	}
	o.Store.FS, o.Store.Logger = o.FS, o.Logger
}

// check returns what is wrong with the options.
func (o *Options) check() error {
	if o.Name == "" {
		return errors.New("the node has no name: set cluster.node")
	}
	if err := self.CheckName(o.Name); err != nil {
		return err
	}
	if o.address() == "" {
		return fmt.Errorf("cluster.join has no %s, the name of this node (cluster.node): give all nodes the same list, with this one", o.Name)
	}
	var addresses []string
	for i, p := range o.Join {
		for _, q := range o.Join[:i] {
			if p.Name == q.Name {
				return fmt.Errorf("cluster.join has %s twice", p.Name)
			}
			if p.Address == q.Address {
				return fmt.Errorf("cluster.join gives %s and %s the same address %s", q.Name, p.Name, p.Address)
			}
		}
		addresses = append(addresses, p.Address)
	}
	return transport.Check(transport.Options{Bind: o.Bind, Secret: o.Secret, TLS: o.TLS}, addresses)
}

// founder returns the name of the node that founds a cluster of empty nodes.
func (o *Options) founder() string { return o.Join[0].Name }

// address returns where other nodes reach this one.
func (o *Options) address() string {
	for _, p := range o.Join {
		if p.Name == o.Name {
			return p.Address
		}
	}
	return ""
}

// others returns the other nodes in the list.
func (o *Options) others() (others []Peer) {
	for _, p := range o.Join {
		if p.Name != o.Name {
			others = append(others, p)
		}
	}
	return others
}
