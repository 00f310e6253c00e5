package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// failureDelay is how long a failed connection that came in stays open: the peer reads
// the reason, and cannot try again at once.
const failureDelay = 500 * time.Millisecond

// self returns what this node says about itself, complete.
func (t *Transport) self() Hello {
	h := t.opt.Self()
	if h.Protocol == 0 {
		h.Protocol = 1
	}
	if h.OldestProtocol == 0 {
		h.OldestProtocol = h.Protocol
	}
	if h.Address == "" {
		h.Address = string(t.advertise)
	}
	h.Clock = t.opt.Now()
	return h
}

// dial connects to the node that advertises an address.
func (t *Transport) dial(ctx context.Context, address string, k Kind) (*Conn, error) {
	if t.security.tls == nil && !loopback(address) {
		return nil, fmt.Errorf("connect to %s: nodes without a secret and without certificates must be on one machine", address)
	}
	ctx, cancel := context.WithTimeout(ctx, t.opt.HandshakeTimeout)
	defer cancel()
	stop := context.AfterFunc(t.ctx, cancel)
	defer stop()

	raw, err := t.opt.Dial(ctx, address)
	if t.ctx.Err() != nil {
		if err == nil {
			raw.Close()
		}
		return nil, fmt.Errorf("connect to %s: %w", address, net.ErrClosed)
	}
	if err != nil {
		t.failures.failed.Add(1)
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	c, err := t.offer(ctx, raw, address, k)
	if err == nil {
		err = t.started(c)
	}
	if err != nil {
		raw.Close()
		return nil, t.failedDial(ctx, address, err)
	}
	return c, nil
}

// failedDial counts and keeps the failure of a handshake, and returns its error.
func (t *Transport) failedDial(ctx context.Context, address string, err error) error {
	var r *Refusal
	switch {
	case errors.As(err, &r):
		r.Address, r.Time = address, t.opt.Now()
		t.failures.refused.Add(1)
		t.memory.refused(*r)
		return fmt.Errorf("connect to %s: %w", address, r)
	case t.ctx.Err() != nil:
		return fmt.Errorf("connect to %s: %w", address, net.ErrClosed)
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case errors.Is(err, io.EOF):
		err = errors.New("the peer closed the connection during the handshake")
	}
	t.failures.failed.Add(1)
	return fmt.Errorf("connect to %s: handshake: %w", address, err)
}

// offer is the handshake of the dialer.
func (t *Transport) offer(ctx context.Context, raw net.Conn, address string, k Kind) (*Conn, error) {
	stop := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	conn := raw
	self := t.self()
	if err := self.valid(); err != nil {
		return nil, fmt.Errorf("hello of this node: %w", err)
	}
	if t.security.tls != nil {
		encrypted := tls.Client(raw, t.security.client(address))
		conn = encrypted
		if err := encrypted.HandshakeContext(ctx); err != nil {
			return nil, t.security.explainDial(err, address, self.String())
		}
		if t.security.key != nil {
			if err := t.proveFirst(encrypted, address); err != nil {
				return nil, t.security.explainDial(err, address, self.String())
			}
		}
	}
	self.Clock = t.opt.Now()
	if _, err := conn.Write(appendFrame(nil, helloFrame, appendHello(nil, self))); err != nil {
		return nil, t.security.explainDial(err, address, self.String())
	}
	peer, err := readHello(conn)
	if err != nil {
		return nil, t.security.explainDial(err, address, self.String())
	}
	if _, err := expectFrame(conn, acceptFrame); err != nil {
		return nil, of(err, peer)
	}
	if reason := t.objection(self, peer); reason != "" {
		return nil, refuse(conn, nil, &Refusal{Peer: peer.Name, Reason: reason})
	}
	if _, err := conn.Write(append(appendFrame(nil, acceptFrame, nil), byte(k))); err != nil {
		return nil, err
	}
	if !stop() {
		return nil, context.Cause(ctx)
	}
	if err := raw.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	t.memory.connected(peer, address, false)
	return &Conn{Conn: conn, raw: raw, t: t, kind: k, peer: peer}, nil
}

// proveFirst is the exchange of proofs for the dialer. The acceptor says nothing to
// strangers.
func (t *Transport) proveFirst(c *tls.Conn, address string) error {
	mac, err := t.security.proof(c, dialerRole)
	if err != nil {
		return err
	}
	if _, err := c.Write(appendFrame(nil, proofFrame, mac)); err != nil {
		return err
	}
	got, err := expectFrame(c, proofFrame)
	if err != nil {
		return err
	}
	if ok, err := t.security.proves(c, acceptorRole, got); err != nil {
		return err
	} else if !ok {
		return &Refusal{Reason: fmt.Sprintf("%s does not know the secret of this node: something else answers at this address", address)}
	}
	return nil
}

// welcome is the handshake with a peer that dialed, and gives its connection to who
// serves it.
func (t *Transport) welcome(raw net.Conn) {
	stop := context.AfterFunc(t.ctx, func() { raw.Close() })
	_ = raw.SetDeadline(time.Now().Add(t.opt.HandshakeTimeout))
	host := hostOf(raw)
	c, err := t.accept(raw, host)
	if err == nil {
		err = t.started(c)
	}
	if err == nil && stop() {
		t.deliver(c)
		return
	}
	defer stop()
	if t.ctx.Err() == nil {
		t.failedAccept(host, err)
		// Closing before all is read would reset the connection. On some systems the
		// peer then loses the reason.
		_ = raw.SetDeadline(time.Now().Add(failureDelay))
		_, _ = io.Copy(io.Discard, raw)
		wait := time.NewTimer(failureDelay)
		select {
		case <-wait.C:
		case <-t.ctx.Done():
			wait.Stop()
		}
	}
	raw.Close()
}

// failedAccept counts, keeps and logs the failure of a handshake.
func (t *Transport) failedAccept(host string, err error) {
	var r *Refusal
	if errors.As(err, &r) {
		r.Incoming, r.Time = true, t.opt.Now()
		if r.Address == "" {
			r.Address = host
		}
		t.failures.refused.Add(1)
		t.memory.refused(*r)
	} else {
		t.failures.failed.Add(1)
	}
	t.memory.failure(host, err)
}

// accept is the handshake of the node that was dialed.
func (t *Transport) accept(raw net.Conn, host string) (*Conn, error) {
	self := t.self()
	first := &firstByte{Conn: raw}
	if err := first.peek(); err != nil {
		return nil, err
	}
	var conn net.Conn = first
	switch {
	case t.security.tls == nil && first.b == recordHandshake:
		_, _ = raw.Write(noProtocol)
		return nil, &Refusal{Reason: t.security.otherWay(host, self.String())}
	case t.security.tls != nil && first.b == frameMagic[0]:
		if _, _, err := readFrame(first); err != nil {
			return nil, err
		}
		return nil, refuse(raw, nil, &Refusal{Reason: t.security.otherWay(host, self.String())})
	case t.security.tls != nil:
		encrypted, err := t.encrypt(first, host, self)
		if err != nil {
			return nil, err
		}
		conn = encrypted
	}
	peer, err := readHello(conn)
	self.Clock = t.opt.Now()
	hello := appendFrame(nil, helloFrame, appendHello(nil, self))
	if err != nil {
		var r *Refusal
		if errors.As(err, &r) && !r.ByPeer {
			return nil, refuse(conn, hello, r)
		}
		return nil, t.security.explainAccept(err, nil, host, self.String())
	}
	if reason := t.objection(self, peer); reason != "" {
		return nil, refuse(conn, hello, &Refusal{Peer: peer.Name, Address: peer.Address, Reason: reason})
	}
	if _, err := conn.Write(appendFrame(hello, acceptFrame, nil)); err != nil {
		return nil, err
	}
	if _, err := expectFrame(conn, acceptFrame); err != nil {
		return nil, of(err, peer)
	}
	var kind [1]byte
	if _, err := io.ReadFull(conn, kind[:]); err != nil {
		return nil, err
	}
	k := Kind(kind[0])
	if k != Raft && k != HTTP {
		return nil, fmt.Errorf("%w: connection of kind %d", errNoNode, k)
	}
	if err := raw.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	t.memory.connected(peer, host, true)
	return &Conn{Conn: conn, raw: raw, t: t, kind: k, peer: peer}, nil
}

// refuse sends the reason of a refusal, after what else there is to send, and returns
// the refusal.
func refuse(conn net.Conn, before []byte, r *Refusal) error {
	_, _ = conn.Write(appendFrame(before, refusalFrame, []byte(printable(r.Reason))))
	return r
}

// of completes a refusal with the peer that it is about.
func of(err error, peer Hello) error {
	var r *Refusal
	if errors.As(err, &r) {
		r.Peer, r.Address = peer.Name, peer.Address
	}
	return err
}

// encrypt is the part of accept that makes a connection safe.
func (t *Transport) encrypt(raw net.Conn, host string, self Hello) (*tls.Conn, error) {
	var offered []string
	c := tls.Server(raw, t.security.server(&offered))
	if err := c.HandshakeContext(t.ctx); err != nil {
		return nil, t.security.explainAccept(err, offered, host, self.String())
	}
	if t.security.key == nil {
		return c, nil
	}
	got, err := expectFrame(c, proofFrame)
	if err != nil {
		return nil, t.security.explainAccept(err, offered, host, self.String())
	}
	ok, err := t.security.proves(c, dialerRole, got)
	if err != nil {
		return nil, err
	}
	if !ok {
		reason := fmt.Sprintf("the secret of %s is not that of %s: give all nodes the same", host, self)
		return nil, refuse(c, nil, &Refusal{Reason: reason})
	}
	mac, err := t.security.proof(c, acceptorRole)
	if err == nil {
		_, err = c.Write(appendFrame(nil, proofFrame, mac))
	}
	return c, err
}

// objection returns why this node refuses a peer, or "".
func (t *Transport) objection(self, peer Hello) string {
	if reason := check(self, peer); reason != "" {
		return reason
	}
	if err := t.opt.Check(peer); err != nil {
		return printable(err.Error())
	}
	return ""
}

// readHello reads the Hello of a peer, or why it does not send one.
func readHello(r io.Reader) (Hello, error) {
	b, err := expectFrame(r, helloFrame)
	if err != nil {
		return Hello{}, err
	}
	h, err := decodeHello(b)
	if err != nil {
		return Hello{}, &Refusal{Reason: err.Error()}
	}
	return h, nil
}
