package input

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// maxPacketBytes is the longest packet of UDP.
const maxPacketBytes = 64 << 10

// Packets is a Listener of packets.
type Packets struct {
	conn *net.UDPConn
	done sync.WaitGroup
}

// ListenPackets receives on a UDP address and calls handle with one packet at a time.
// handle must not keep the bytes. readBuffer is the size of the kernel's buffer in
// bytes. 0: the system's default.
func ListenPackets(address string, readBuffer int, counts *Counts, handle func(packet []byte, now time.Time)) (*Packets, error) {
	a, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return nil, fmt.Errorf("listen udp %s: %w", address, err)
	}
	conn, err := net.ListenUDP("udp", a)
	if err != nil {
		return nil, err // names the operation and the address
	}
	if readBuffer > 0 {
		if err := conn.SetReadBuffer(readBuffer); err != nil {
			return nil, errors.Join(fmt.Errorf("listen udp %s: set read buffer: %w", address, err), conn.Close())
		}
	}
	p := &Packets{conn: conn}
	p.done.Go(func() {
		buf := make([]byte, maxPacketBytes)
		for {
			n, _, err := conn.ReadFromUDPAddrPort(buf)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				counts.ReadFailures.Add(1)
				time.Sleep(10 * time.Millisecond) // the error may persist
				continue
			}
			counts.Bytes.Add(int64(n))
			handle(buf[:n], time.Now())
		}
	})
	return p, nil
}

// Addr returns the address of the socket.
func (p *Packets) Addr() net.Addr { return p.conn.LocalAddr() }

// Close stops and waits until the last packet is handled.
func (p *Packets) Close(context.Context) error {
	err := p.conn.Close()
	p.done.Wait()
	return err
}
