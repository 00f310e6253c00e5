package collectd

import (
	"context"
	"errors"
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
	// Types are the names of values. Values of other types are named "value",
	// or by their place where a list has several.
	Types Types
	// Users are the passwords by which packets are signed and encrypted.
	Users map[string]string
	// Level is how packets must be protected.
	Level Level
	// Join makes a list of values one point.
	Join bool
}

// Service is an open input. It is safe for concurrent use.
type Service struct {
	batcher *input.Batcher
	packets *input.Packets
}

// Listen opens the input. Close closes it.
func Listen(opt Options) (*Service, error) {
	s := &Service{batcher: input.NewBatcher(opt.Options)}
	d := decoder{types: opt.Types, users: opt.Users, level: opt.Level, split: !opt.Join}
	c := s.batcher.Counts()
	var err error
	s.packets, err = input.ListenPackets(opt.Address, opt.ReadBuffer, c, func(packet []byte, now time.Time) {
		points, err := d.decode(packet, now)
		if err != nil {
			c.BadPoints.Add(1)
			if errors.Is(err, errUnprotected) {
				s.batcher.Complain("packets refused", err)
			}
		}
		c.NotANumber.Add(int64(d.notNumber))
		s.batcher.Offer(points)
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
func (s *Service) Close(ctx context.Context) error { return s.batcher.CloseAfter(ctx, s.packets) }
