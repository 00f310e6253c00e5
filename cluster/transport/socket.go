package transport

import (
	"context"
	"errors"
	"net"
	"time"
)

// A peer that disappears without closing its connections is noticed within about half a
// minute: by probes if nothing is sent, and by data that it does not acknowledge otherwise.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

const unacknowledgedTimeout = 30 * time.Second

func dialTCP(ctx context.Context, address string) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: keepAlive, Control: controlSocket}
	return dialOther(ctx, &d, address)
}

// dialOther refuses a connection to itself. The system makes one where it chooses for a
// connection's own port the one of this machine that it goes to, and nobody listens there.
func dialOther(ctx context.Context, d *net.Dialer, address string) (net.Conn, error) {
	c, err := d.DialContext(ctx, "tcp", address)
	if err == nil && c.LocalAddr().String() == c.RemoteAddr().String() {
		return nil, errors.Join(errors.New("nobody listens there"), c.Close())
	}
	return c, err
}

func listenTCP(address string) (net.Listener, error) {
	l := net.ListenConfig{KeepAliveConfig: keepAlive, Control: controlSocket}
	return l.Listen(context.Background(), "tcp", address)
}
