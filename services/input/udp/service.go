package udp

import (
	"context"
	"net"
	"time"

	"tsdbd/services/input"
)

// Options configure a Service. Those of input.Options that it needs are
// required.
type Options struct {
	input.Options
	Address string // host:port
	// ReadBuffer is the kernel's buffer in bytes. 0: the system's default.
	ReadBuffer int
	// Unit is that of timestamps, in ns. 0: 1.
	Unit int64
}

// Service is an open input. It is safe for concurrent use.
type Service struct {
	batcher *input.Batcher
	packets *input.Packets
}

// Listen opens the input. Close closes it.
func Listen(opt Options) (*Service, error) {
	s := &Service{batcher: input.NewBatcher(opt.Options)}
	var err error
	s.packets, err = input.ListenPackets(opt.Address, opt.ReadBuffer, s.batcher.Counts(), func(packet []byte, now time.Time) {
		s.batcher.AddLines(packet, opt.Unit, now)
	})
	if err != nil {
		s.batcher.Close(context.Background())
		return nil, err
	}
	return s, nil
}

// Addr returns the address that is listened on.
func (s *Service) Addr() net.Addr { return s.packets.Addr() }

// Counts returns what the input counts.
func (s *Service) Counts() *input.Counts { return s.batcher.Counts() }

// Close stops receiving and writes what was received, while ctx lasts.
func (s *Service) Close(ctx context.Context) error {
	return s.batcher.CloseAfter(ctx, s.packets)
}
