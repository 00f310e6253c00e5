package udp

import (
	"time"

	"tsdbd/services/input"
)

// Options configure an input. Those of input.Options that it needs are required.
type Options struct {
	input.Options
	Address string // host:port
	// ReadBuffer is the kernel's buffer in bytes. 0: the system's default.
	ReadBuffer int
	// Unit is that of timestamps, in ns. 0: 1.
	Unit int64
}

// Listen opens the input.
func Listen(opt Options) (*input.Service, error) {
	opt.Figures = func(c *input.Counts, figures map[string]any) {
		c.Received(figures)
		figures["readFail"] = c.ReadFailures.Load()
	}
	return input.Open(opt.Options, func(b *input.Batcher) (input.Listener, error) {
		return input.ListenPackets(opt.Address, opt.ReadBuffer, b.Counts(), func(packet []byte, now time.Time) {
			b.AddLines(packet, opt.Unit, now)
		})
	})
}
