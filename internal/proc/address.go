package proc

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
)

// given holds the ports that FreeAddress has returned, each with the socket that tells other
// processes so.
var given sync.Map

// FreeAddress returns an address of this machine that nobody listens on, and never the
// same twice, nor one that another running process was given. Its port is none of those the
// kernel gives to clients and to listeners on port 0: one of theirs could be taken before a
// server listens there, or while it is down between two starts.
func FreeAddress() (string, error) {
	const first = 10_000
	end := 32_768 // the kernel's default
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		_, _ = fmt.Sscan(string(text), &end)
	}
	var err error
	for range 1000 {
		port := 0 // the kernel's choice, if it has left no others
		if end > first+1000 {
			port = first + rand.IntN(end-first)
		}
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err != nil {
			continue
		}
		address := l.Addr().String()
		// A packet socket of a neighboring address disturbs no server. Where there is no
		// such address, as on macOS, processes may be given the same.
		sign, signErr := net.ListenPacket("udp", fmt.Sprintf("127.0.0.2:%d", l.Addr().(*net.TCPAddr).Port))
		if err := l.Close(); err != nil {
			return "", err
		}
		if errors.Is(signErr, syscall.EADDRINUSE) {
			err = fmt.Errorf("%s was given to another", address)
			continue
		}
		if _, twice := given.LoadOrStore(address, sign); twice {
			err = fmt.Errorf("%s was given to another", address)
			continue
		}
		return address, nil
	}
	return "", err
}
