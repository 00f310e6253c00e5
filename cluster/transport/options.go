package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"
)

// MinSecret is the least length of a secret in bytes. A shorter one could be guessed
// by a stranger whom a node has dialed.
const MinSecret = 16

// Options configures Listen.
type Options struct {
	Bind      string // host:port to listen on
	Advertise string // host:port where other nodes reach this one; "": where it listens

	// Secret is known to all nodes and to nobody else; "" for none.
	Secret string
	// TLS returns this node's certificate and the certificate authorities of the nodes
	// (RootCAs). It is called for each connection. nil for none.
	TLS func() *tls.Config

	// Self returns what this node says about itself. It is called for each connection.
	Self func() Hello
	// Check returns an error to refuse a peer for a reason that the transport does not
	// know. The peer gets the text.
	Check func(Hello) error

	HandshakeTimeout time.Duration // of a whole handshake; 0: 10 seconds
	WriteTimeout     time.Duration // in which a write must make progress; 0: 30 seconds

	Logger *slog.Logger     // nil: none
	Now    func() time.Time // nil: time.Now

	Dial   func(ctx context.Context, address string) (net.Conn, error) // nil: TCP
	Listen func(address string) (net.Listener, error)                  // nil: TCP
}

func (o Options) withDefaults() Options {
	if o.HandshakeTimeout == 0 {
		o.HandshakeTimeout = 10 * time.Second
	}
	if o.WriteTimeout == 0 {
		o.WriteTimeout = 30 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Check == nil {
		o.Check = func(Hello) error { return nil }
	}
	if o.Dial == nil {
		o.Dial = dialTCP
	}
	if o.Listen == nil {
		o.Listen = listenTCP
	}
	return o
}

// Check returns an error if nodes with these options and these addresses of peers must
// not talk to each other: a secret that is too short, TLS that does not verify, or an
// address beyond this machine without either of them.
func Check(o Options, peers []string) error {
	if o.Secret != "" && len(o.Secret) < MinSecret {
		return fmt.Errorf("the secret of the cluster has %d bytes: it needs at least %d, for example from `openssl rand -hex 16`", len(o.Secret), MinSecret)
	}
	if o.TLS != nil {
		if err := checkTLS(o.TLS()); err != nil {
			return err
		}
	}
	if _, _, err := net.SplitHostPort(o.Bind); err != nil {
		return fmt.Errorf("address %q to listen on for nodes: %w", o.Bind, err)
	}
	addresses := peers
	if o.Advertise != "" {
		addresses = append([]string{o.Advertise}, peers...)
	}
	for _, address := range addresses {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return fmt.Errorf("address %q of a node: %w", address, err)
		}
		if everywhere(host) || port == "" || port == "0" {
			return fmt.Errorf("address %q of a node: other nodes need a host and a port to connect to", address)
		}
	}
	if o.Secret != "" || o.TLS != nil {
		return nil
	}
	for _, address := range append([]string{o.Bind}, addresses...) {
		if !loopback(address) {
			return fmt.Errorf("nodes without a secret and without certificates must be on one machine, but %s is not a loopback address: give all nodes the same secret, or certificates", address)
		}
	}
	return nil
}

func checkTLS(c *tls.Config) error {
	switch {
	case c.InsecureSkipVerify:
		return errors.New("the TLS configuration of the nodes does not verify certificates")
	case len(c.Certificates) == 0:
		return errors.New("the TLS configuration of the nodes has no certificate")
	case c.RootCAs == nil:
		return errors.New("the TLS configuration of the nodes has no certificate authority: with those of the system, any certificate of the internet would be a node")
	}
	return nil
}

// everywhere reports whether a host stands for all addresses of a machine.
func everywhere(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// loopback reports whether an address can be reached from this machine only.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
