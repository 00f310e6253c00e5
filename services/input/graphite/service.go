package graphite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"tsdbd/model"
	"tsdbd/services/input"
)

// Options configure a Service. Those of input.Options that it needs are
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
	// Tags of all points that have not got them otherwise, key=value.
	Tags []string
}

// maxPoints bounds the points that a connection holds before it adds them.
const maxPoints = 500

// Service is an open input. It is safe for concurrent use.
type Service struct {
	batcher     *input.Batcher
	templates   *templates
	tags        model.Tags
	connections *input.Connections // one of these two is nil
	packets     *input.Packets
}

// Check tells what is wrong with the options that Listen would refuse.
func (o *Options) Check() error {
	_, err := o.service()
	return err
}

func (o *Options) service() (*Service, error) {
	if o.Protocol != "" && o.Protocol != "tcp" && o.Protocol != "udp" {
		return nil, fmt.Errorf("protocol is tcp or udp, not %q", o.Protocol)
	}
	t, err := newTemplates(o.Templates, o.Separator)
	if err != nil {
		return nil, err
	}
	tags, err := ParseTags(o.Tags)
	if err != nil {
		return nil, err
	}
	return &Service{templates: t, tags: tags}, nil
}

// Listen opens the input. Close closes it.
func Listen(opt Options) (*Service, error) {
	s, err := opt.service()
	if err != nil {
		return nil, err
	}
	s.batcher = input.NewBatcher(opt.Options)
	if opt.Protocol == "udp" {
		p := s.parser()
		s.packets, err = input.ListenPackets(opt.Address, opt.ReadBuffer, s.Counts(), func(packet []byte, now time.Time) {
			s.packet(p, packet, now)
		})
	} else {
		s.connections, err = input.ListenConnections(opt.Address, nil, s.Counts(), s.connection)
	}
	if err != nil {
		s.batcher.Close(context.Background())
		return nil, err
	}
	return s, nil
}

func (s *Service) parser() *parser { return &parser{templates: s.templates, tags: s.tags} }

// packet reads the lines of a packet.
func (s *Service) packet(p *parser, packet []byte, now time.Time) {
	var points []input.Point
	for line := range bytes.Lines(packet) {
		points = s.line(p, points, line, now)
	}
	s.batcher.Offer(points)
}

// line adds the point of a line.
func (s *Service) line(p *parser, points []input.Point, line []byte, now time.Time) []input.Point {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return points
	}
	point, err := p.parse(string(line), now)
	if err != nil {
		s.Counts().BadPoints.Add(1)
		return points
	}
	return append(points, point)
}

// connection reads lines until the client goes. What has come together is
// added at once, and what a client sends while all batches wait is not read.
func (s *Service) connection(_ net.Conn, lines *input.Lines) {
	p := s.parser()
	var points []input.Point
	for {
		line, err := lines.Next()
		if err == nil {
			points = s.line(p, points, line, time.Now())
		}
		if len(points) > 0 && (err != nil || len(points) >= maxPoints || !lines.More()) {
			if !s.batcher.Add(points) {
				return
			}
			points = points[:0]
		}
		if err != nil {
			var network net.Error
			if errors.As(err, &network) && !network.Timeout() {
				s.Counts().ReadFailures.Add(1)
			}
			return
		}
	}
}

// Addr returns the address that is listened on.
func (s *Service) Addr() net.Addr {
	if s.packets != nil {
		return s.packets.Addr()
	}
	return s.connections.Addr()
}

// Counts returns what the input counts.
func (s *Service) Counts() *input.Counts { return s.batcher.Counts() }

// Close stops receiving and writes what was received, while ctx lasts.
func (s *Service) Close(ctx context.Context) error {
	if s.packets != nil {
		return s.batcher.CloseAfter(ctx, s.packets)
	}
	return s.batcher.CloseAfter(ctx, s.connections)
}
