package transport

import (
	"context"
	"net"
	"time"
)

// A peer that is gone without a word is found out within about half a minute: when
// nothing was sent by probes, otherwise by data that it does not acknowledge.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

const unacknowledgedTimeout = 30 * time.Second

func dialTCP(ctx context.Context, address string) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: keepAlive, Control: controlSocket}
	return d.DialContext(ctx, "tcp", address)
}

func listenTCP(address string) (net.Listener, error) {
	l := net.ListenConfig{KeepAliveConfig: keepAlive, Control: controlSocket}
	return l.Listen(context.Background(), "tcp", address)
}
