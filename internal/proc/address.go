package proc

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
)

// given holds the ports that FreeAddress has returned.
var given sync.Map

// FreeAddress returns an address of this machine that nobody listens on, and
// never the same twice. Its port is none of those the kernel gives to clients and
// to listeners on port 0: one of theirs could be taken before a server listens
// there, or while it is down between two starts.
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
		if err := l.Close(); err != nil {
			return "", err
		}
		if _, twice := given.LoadOrStore(address, true); twice {
			err = fmt.Errorf("%s was given to another", address)
			continue
		}
		return address, nil
	}
	return "", err
}
