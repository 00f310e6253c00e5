package recorder

import (
	"context"
	"sync"
	"time"

	"tsdbd/internal/pulse"
)

// Interval is the time between two samples. Rows is how many samples are kept: an hour.
const (
	Interval = 10 * time.Second
	Rows     = 360
)

// Figure is a number that is recorded.
type Figure string

// Service records figures.
type Service struct {
	names []Figure
	read  func(values []float64)
	now   func() time.Time

	mu struct {
		sync.Mutex
		times  [Rows]time.Time
		values []float64 // those of a sample are next to each other
		next   int       // where the next sample goes
		count  int
	}
}

// New returns a Service that has recorded the figures once. read sets the values of the
// figures, in the order of names. Several goroutines may call it at once.
func New(names []Figure, read func(values []float64)) *Service {
	s := &Service{names: names, read: read, now: time.Now}
	s.mu.values = make([]float64, Rows*len(names))
	s.record()
	return s
}

// Run records until the context ends.
func (s *Service) Run(ctx context.Context) {
	tick := pulse.NewTicker(Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.record()
		}
	}
}

// record adds a sample.
func (s *Service) record() {
	values := make([]float64, len(s.names))
	s.read(values)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.times[s.mu.next] = s.now()
	copy(s.mu.values[s.mu.next*len(s.names):], values)
	s.mu.next = (s.mu.next + 1) % Rows
	s.mu.count = min(s.mu.count+1, Rows)
}

// Samples are figures over time.
type Samples struct {
	Times   []time.Time
	Figures map[Figure][]float64 // a value for each of Times
}

// Samples returns what is kept, the oldest first, and the figures of now.
func (s *Service) Samples() Samples {
	now := make([]float64, len(s.names))
	s.read(now)
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.mu.count
	all := Samples{make([]time.Time, 0, n+1), make(map[Figure][]float64, len(s.names))}
	rows := make([]int, 0, n)
	for i := range n {
		row := (s.mu.next - n + i + Rows) % Rows
		rows = append(rows, row)
		all.Times = append(all.Times, s.mu.times[row])
	}
	all.Times = append(all.Times, s.now())
	for i, name := range s.names {
		values := make([]float64, 0, n+1)
		for _, row := range rows {
			values = append(values, s.mu.values[row*len(s.names)+i])
		}
		all.Figures[name] = append(values, now[i])
	}
	return all
}
