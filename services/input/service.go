package input

import (
	"context"
	"net"
)

// Listener receives from clients what a Batcher writes, until it is closed.
type Listener interface {
	Addr() net.Addr
	// Close stops receiving and waits until what was received is added. It may end
	// clients that are not done when ctx ends.
	Close(ctx context.Context) error
}

// Service is an open input: a listener, and the batcher of what it receives. It
// is safe for concurrent use.
type Service struct {
	batcher  *Batcher
	listener Listener
}

// Open opens an input. It calls listen for a listener that adds points to the batcher.
// The caller must call Close.
func Open(opt Options, listen func(*Batcher) (Listener, error)) (*Service, error) {
	s := &Service{batcher: NewBatcher(opt)}
	var err error
	if s.listener, err = listen(s.batcher); err != nil {
		s.batcher.Close(context.Background())
		return nil, err
	}
	return s, nil
}

// Addr returns the address of the listener.
func (s *Service) Addr() net.Addr { return s.listener.Addr() }

// Counts returns what the input counts.
func (s *Service) Counts() *Counts { return s.batcher.Counts() }

// Statistics returns what the input counts, by InfluxDB's names.
func (s *Service) Statistics() map[string]any {
	c := s.Counts()
	figures := map[string]any{"batchesTx": c.Batches.Load(), "batchesTxFail": c.BatchesFailed.Load(), "pointsTx": c.Written.Load()}
	if own := s.batcher.opt.Figures; own != nil {
		own(c, figures)
	}
	return figures
}

// Close stops receiving and writes the received points. When ctx ends, Close drops and
// counts the remaining points.
func (s *Service) Close(ctx context.Context) error {
	closed := make(chan error, 1)
	go func() { closed <- s.listener.Close(ctx) }()
	select {
	case err := <-closed:
		s.batcher.Close(ctx)
		return err
	case <-ctx.Done():
	}
	s.batcher.Close(ctx)
	return <-closed
}
