package subscriber

import (
	"cmp"
	"crypto/tls"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tsdbd/internal/pulse"
	"tsdbd/lineproto/wire"
	"tsdbd/meta"
	"tsdbd/model/point"
)

// The defaults of Options.
const (
	DefaultQueueLength   = 1000
	DefaultQueueBytes    = 64 << 20
	DefaultTimeout       = 30 * time.Second
	DefaultConcurrency   = 1
	DefaultCheckInterval = time.Second
)

// Options adjusts a Service. Catalog is required.
type Options struct {
	Catalog func() *meta.Data
	Logger  *slog.Logger // nil discards
	// QueueLength and QueueBytes bound what waits for one subscription.
	QueueLength int
	QueueBytes  int64
	// Concurrency is the number of texts of a subscription that are sent at a time.
	// With more than one they may arrive in another order.
	Concurrency int
	// Timeout bounds one HTTP request.
	Timeout time.Duration
	// CheckInterval is the time between looks at the catalog.
	CheckInterval time.Duration
	// Client sends HTTP requests; nil is one of its own, with TLS for https.
	Client *http.Client
	TLS    *tls.Config
}

// Service copies writes to subscribers. It is a prometheus.Collector.
type Service struct {
	opt  Options
	stop chan struct{}
	done sync.WaitGroup
	once sync.Once

	// policies is replaced as a whole: database and policy -> subscriptions.
	policies atomic.Pointer[map[policy][]*queue]
	mu       sync.Mutex // of Update
	running  map[subscription]*queue

	queued                                   atomic.Int64 // bytes that wait
	points, sent, dropped, failed, malformed atomic.Uint64
}

type policy struct{ database, name string }

// subscription identifies a subscription. One that was dropped and created with the
// same name and other destinations is different.
type subscription struct {
	policy
	name, mode, destinations string
}

// New returns a service. Start starts it.
func New(opt Options) *Service {
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	opt.QueueLength = cmp.Or(max(0, opt.QueueLength), DefaultQueueLength)
	opt.QueueBytes = cmp.Or(max(0, opt.QueueBytes), DefaultQueueBytes)
	opt.Timeout = cmp.Or(max(0, opt.Timeout), DefaultTimeout)
	opt.Concurrency = cmp.Or(max(0, opt.Concurrency), DefaultConcurrency)
	opt.CheckInterval = cmp.Or(max(0, opt.CheckInterval), DefaultCheckInterval)
	if opt.Client == nil {
		opt.Client = &http.Client{Timeout: opt.Timeout, Transport: &http.Transport{MaxIdleConnsPerHost: opt.Concurrency + 1, Proxy: nil, TLSClientConfig: opt.TLS}}
	}
	s := &Service{opt: opt, stop: make(chan struct{}), running: map[subscription]*queue{}}
	s.policies.Store(&map[policy][]*queue{})
	return s
}

// Start looks at the catalog, now and at every CheckInterval until Close.
func (s *Service) Start() {
	s.Update()
	s.done.Go(func() {
		ticker := pulse.NewTicker(s.opt.CheckInterval)
		defer ticker.Stop()
		for {
			select {
			case <-s.stop:
				return
			case <-ticker.C:
				s.Update()
			}
		}
	})
}

// Close ends all queues; what they hold is dropped and counted.
func (s *Service) Close() {
	s.once.Do(func() {
		close(s.stop)
		s.done.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.policies.Store(&map[policy][]*queue{})
		for k, q := range s.running {
			q.close()
			delete(s.running, k)
		}
	})
}

// Update starts the new subscriptions of the catalog and ends the dropped ones.
func (s *Service) Update() {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := map[policy][]*queue{}
	want := map[subscription]bool{}
	for _, db := range s.opt.Catalog().Databases {
		for _, rp := range db.RetentionPolicies {
			p := policy{db.Name, rp.Name}
			for _, sub := range rp.Subscriptions {
				k := subscription{p, sub.Name, sub.Mode, strings.Join(sub.Destinations, "\x00")}
				want[k] = true
				q := s.running[k]
				if q == nil {
					q = s.open(p, &sub)
					s.running[k] = q
				}
				next[p] = append(next[p], q)
			}
		}
	}
	s.policies.Store(&next)
	for k, q := range s.running {
		if !want[k] {
			q.close()
			delete(s.running, k)
		}
	}
}

// Encode returns the lines of a batch that is about to be written to a
// retention policy, by its name, or nil if the policy has no subscription.
func (s *Service) Encode(database, rp string, b *point.Batch) []byte {
	if len((*s.policies.Load())[policy{database, rp}]) == 0 {
		return nil
	}
	var lines []byte
	e := wire.Encoder{Finite: true}
	for i := range b.Rows {
		lines = e.AppendRow(lines, b, &b.Rows[i])
	}
	return lines
}

// Send queues what Encode returned. It keeps lines.
func (s *Service) Send(database, rp string, lines []byte) {
	if len(lines) == 0 {
		return
	}
	for _, q := range (*s.policies.Load())[policy{database, rp}] {
		q.put(lines)
	}
}

// Counts are what became of the texts given to Send, per subscription and
// destination.
type Counts struct {
	Points    uint64 // lines of the texts sent, per destination
	Sent      uint64 // accepted by a destination, or put on the wire over UDP
	Dropped   uint64 // not queued, or still queued at the end
	Failed    uint64 // refused or not reached
	Malformed uint64 // lines longer than a UDP packet
}

// Counts returns the counts since the start.
func (s *Service) Counts() Counts {
	return Counts{s.points.Load(), s.sent.Load(), s.dropped.Load(), s.failed.Load(), s.malformed.Load()}
}

var (
	writesDesc = prometheus.NewDesc("tsdbd_subscriber_writes_total", "Writes copied to subscribers.", []string{"result"}, nil)
	queuedDesc = prometheus.NewDesc("tsdbd_subscriber_queued_bytes", "Bytes waiting for subscribers.", nil, nil)
)

// Describe implements prometheus.Collector.
func (s *Service) Describe(ch chan<- *prometheus.Desc) { ch <- writesDesc; ch <- queuedDesc }

// Collect implements prometheus.Collector.
func (s *Service) Collect(ch chan<- prometheus.Metric) {
	c := s.Counts()
	for _, m := range []struct {
		n      uint64
		result string
	}{{c.Sent, "sent"}, {c.Dropped, "dropped"}, {c.Failed, "failed"}, {c.Malformed, "malformed"}} {
		ch <- prometheus.MustNewConstMetric(writesDesc, prometheus.CounterValue, float64(m.n), m.result)
	}
	ch <- prometheus.MustNewConstMetric(queuedDesc, prometheus.GaugeValue, float64(s.QueuedBytes()))
}

// QueuedBytes returns the bytes that wait for subscribers.
func (s *Service) QueuedBytes() int64 { return s.queued.Load() }

// Subscription is what became of the texts of one subscription.
type Subscription struct {
	Database, RetentionPolicy, Name, Mode string

	Points      uint64 // lines sent, per destination
	Failures    uint64 // texts that were dropped, refused or lost on the way
	QueuedBytes int64
}

// Subscriptions returns those that run, in order of their names.
func (s *Service) Subscriptions() []Subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Subscription, 0, len(s.running))
	for k, q := range s.running {
		list = append(list, Subscription{
			Database: k.database, RetentionPolicy: k.policy.name, Name: k.name, Mode: k.mode,
			Points: q.points.Load(), Failures: q.failures.Load(), QueuedBytes: q.bytes.Load(),
		})
	}
	slices.SortFunc(list, func(a, b Subscription) int {
		return cmp.Or(cmp.Compare(a.Database, b.Database), cmp.Compare(a.RetentionPolicy, b.RetentionPolicy), cmp.Compare(a.Name, b.Name))
	})
	return list
}

// open makes the queue of a subscription and starts it.
func (s *Service) open(p policy, sub *meta.Subscription) *queue {
	q := &queue{
		s: s, name: sub.Name, policy: p, any: sub.Mode == "ANY",
		entries: make(chan []byte, s.opt.QueueLength), stop: make(chan struct{}), done: make(chan struct{}),
		log: s.opt.Logger.With("subscription", sub.Name, "database", p.database, "policy", p.name),
	}
	for _, d := range sub.Destinations {
		q.destinations = append(q.destinations, s.destination(p, d))
	}
	go q.run()
	return q
}
