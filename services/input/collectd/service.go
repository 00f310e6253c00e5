package collectd

import (
	"errors"
	"time"

	"tsdbd/services/input"
)

// Options configure an input. Those of input.Options that it needs are
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

// Listen opens the input.
func Listen(opt Options) (*input.Service, error) {
	opt.Figures = func(c *input.Counts, figures map[string]any) {
		c.Received(figures)
		figures["readFail"], figures["droppedPointsInvalid"] = c.ReadFailures.Load(), c.NotANumber.Load()+c.Refused.Load()
	}
	return input.Open(opt.Options, func(b *input.Batcher) (input.Listener, error) {
		d := decoder{types: opt.Types, users: opt.Users, level: opt.Level, split: !opt.Join}
		c := b.Counts()
		return input.ListenPackets(opt.Address, opt.ReadBuffer, c, func(packet []byte, now time.Time) {
			points, err := d.decode(packet, now)
			if err != nil {
				c.BadPoints.Add(1)
			}
			if errors.Is(err, errUnprotected) {
				b.Complain("packets refused", err)
			}
			c.NotANumber.Add(int64(d.notNumber))
			b.Offer(points)
		})
	})
}
