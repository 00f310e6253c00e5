package transport

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// controlSocket bounds how long sent data may stay unacknowledged: the kernel's own
// bound is about a quarter of an hour. Connections inherit it from their listener.
func controlSocket(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(unacknowledgedTimeout.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return failed
}
