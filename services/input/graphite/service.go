package graphite

import (
	"bytes"
	"fmt"
	"net"
	"time"

	"tsdbd/services/input"
)

// Options configure an input. Those of input.Options that it needs are
// required.
type Options struct {
	input.Options
	Address string // host:port
	// Protocol is "tcp", "udp", or "" for tcp.
	Protocol string
	// ReadBuffer is the kernel's buffer for UDP in bytes. 0: the system's default.
	ReadBuffer int
	// Templates turn paths into points, see the package's comment.
	Templates []string
	// Separator joins parts. "": DefaultSeparator.
	Separator string
	// Tags are the default tags of points, key=value.
	Tags []string
}

// Check returns the error of Listen for bad options.
func (o *Options) Check() error {
	_, err := o.parser()
	return err
}

func (o *Options) parser() (parser, error) {
	if o.Protocol != "" && o.Protocol != "tcp" && o.Protocol != "udp" {
		return parser{}, fmt.Errorf("protocol is tcp or udp, not %q", o.Protocol)
	}
	t, err := newTemplates(o.Templates, o.Separator)
	if err != nil {
		return parser{}, err
	}
	tags, err := ParseTags(o.Tags)
	return parser{templates: t, tags: tags}, err
}

// Listen opens the input.
func Listen(opt Options) (*input.Service, error) {
	opt.Figures = func(c *input.Counts, figures map[string]any) {
		c.Received(figures)
		figures["pointsNaNFail"] = c.NotANumber.Load()
		figures["connsActive"], figures["connsHandled"] = c.Connections.Load(), c.Connected.Load()
	}
	p, err := opt.parser()
	if err != nil {
		return nil, err
	}
	return input.Open(opt.Options, func(b *input.Batcher) (input.Listener, error) {
		if opt.Protocol == "udp" {
			return input.ListenPackets(opt.Address, opt.ReadBuffer, b.Counts(), func(packet []byte, now time.Time) {
				var points []input.Point
				for line := range bytes.Lines(packet) {
					points = p.add(points, line, now, b.Counts())
				}
				b.Offer(points)
			})
		}
		return input.ListenConnections(opt.Address, nil, b.Counts(), func(_ net.Conn, lines *input.Lines) {
			own := parser{templates: p.templates, tags: p.tags}
			lines.Serve(b, func(points []input.Point, line []byte) ([]input.Point, error) {
				return own.add(points, line, time.Now(), b.Counts()), nil
			})
		})
	})
}

// add appends the point of a line, or counts that the line is bad.
func (p *parser) add(points []input.Point, line []byte, now time.Time, c *input.Counts) []input.Point {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return points
	}
	point, err := p.parse(string(line), now)
	if err != nil {
		c.BadPoints.Add(1)
		return points
	}
	return append(points, point)
}
