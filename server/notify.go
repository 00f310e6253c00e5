package server

import (
	"fmt"
	"net"
)

// notify sends a state to a supervisor with systemd's protocol, such as
// READY=1. The socket is that of NOTIFY_SOCKET; without one nobody listens.
func notify(socket, state string) error {
	if socket == "" {
		return nil
	}
	if socket[0] == '@' { // abstract
		socket = "\x00" + socket[1:]
	}
	c, err := net.Dial("unixgram", socket)
	if err != nil {
		return fmt.Errorf("notify supervisor: %w", err)
	}
	defer c.Close()
	if _, err := c.Write([]byte(state)); err != nil {
		return fmt.Errorf("notify supervisor: %w", err)
	}
	return nil
}
