package subscriber

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"

	"tsdbd/internal/version"
	"tsdbd/lineproto"
)

// queue has the texts that wait for one subscription, and the goroutines that send
// them.
type queue struct {
	s            *Service
	policy       policy
	name         string
	any          bool
	destinations []destination
	next         atomic.Uint64 // destination of ANY whose turn it is
	entries      chan []byte
	bytes        atomic.Int64 // in entries
	points       atomic.Uint64
	failures     atomic.Uint64
	stop         chan struct{}
	done         chan struct{}
	log          *slog.Logger
	failing      atomic.Bool // the last text failed: logged once
}

// A destination takes lines.
type destination interface {
	send(ctx context.Context, lines []byte) error
	close()
}

// put queues lines, or drops them.
func (q *queue) put(lines []byte) {
	n := int64(len(lines))
	q.s.queued.Add(n)
	if q.bytes.Add(n) <= q.s.opt.QueueBytes {
		select {
		case q.entries <- lines:
			select {
			case <-q.done: // the queue has been closed
				q.drain()
			default:
			}
			return
		default:
		}
	}
	q.drop(lines)
}

// drop counts lines as dropped; they are no longer queued.
func (q *queue) drop(lines []byte) {
	q.taken(lines)
	q.s.dropped.Add(1)
	q.failures.Add(1)
}

// taken counts lines out of the queue.
func (q *queue) taken(lines []byte) {
	q.bytes.Add(-int64(len(lines)))
	q.s.queued.Add(-int64(len(lines)))
}

// close ends the goroutine and waits for it.
func (q *queue) close() {
	close(q.stop)
	<-q.done
}

// run sends what is queued until the queue is closed.
func (q *queue) run() {
	defer close(q.done)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var senders sync.WaitGroup
	for range q.s.opt.Concurrency {
		senders.Go(func() { q.send(ctx) })
	}
	<-q.stop
	cancel() // a request in progress ends with the queue
	senders.Wait()
	for _, d := range q.destinations {
		d.close()
	}
	q.drain()
}

// drain drops what is queued.
func (q *queue) drain() {
	for {
		select {
		case lines := <-q.entries:
			q.drop(lines)
		default:
			return
		}
	}
}

// send delivers what is queued until ctx ends.
func (q *queue) send(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case lines := <-q.entries:
			q.taken(lines)
			q.deliver(ctx, lines)
		}
	}
}

// deliver sends to every destination, or with ANY to the first that takes it.
func (q *queue) deliver(ctx context.Context, lines []byte) {
	var failure error
	points := uint64(bytes.Count(lines, []byte{'\n'}))
	first := q.next.Add(1) - 1
	for i := range q.destinations {
		d := q.destinations[(first+uint64(i))%uint64(len(q.destinations))]
		if err := d.send(ctx, lines); err != nil {
			q.s.failed.Add(1)
			q.failures.Add(1)
			failure = err
			continue
		}
		q.s.sent.Add(1)
		q.s.points.Add(points)
		q.points.Add(points)
		if q.any {
			break
		}
	}
	failing := failure != nil
	if q.failing.Swap(failing) == failing {
		return
	}
	if failing {
		q.log.Warn("subscriber not reached", "err", failure)
	} else {
		q.log.Info("subscribers reached again")
	}
}

// destination returns the destination of a URL, which the statement has checked.
func (s *Service) destination(p policy, text string) destination {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return broken{fmt.Errorf("invalid subscription URL: %w", err)}
	case u.Scheme == "udp":
		return &udpDestination{s: s, address: u.Host}
	case u.Scheme == "http" || u.Scheme == "https":
		target := *u.JoinPath("write")
		target.User = nil
		target.RawQuery = url.Values{"db": {p.database}, "rp": {p.name}, "precision": {"ns"}}.Encode()
		return &httpDestination{client: s.opt.Client, target: target.String(), user: u.User}
	}
	return broken{fmt.Errorf("invalid subscription URL: %s", text)}
}

type broken struct{ err error }

func (b broken) send(context.Context, []byte) error { return b.err }
func (broken) close()                               {}

type httpDestination struct {
	client *http.Client
	target string
	user   *url.Userinfo
}

func (d *httpDestination) send(ctx context.Context, lines []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.target, bytes.NewReader(lines))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "text/plain; charset=utf-8")
	req.Header.Set("User-Agent", version.UserAgent())
	if d.user != nil {
		password, _ := d.user.Password()
		req.SetBasicAuth(d.user.Username(), password)
	}
	resp, err := d.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1024))
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s: %s: %s", req.URL.Host, resp.Status, bytes.TrimSpace(text))
	}
	return nil
}

func (*httpDestination) close() {}

// maxPacket is the most that a UDP packet over IPv4 carries.
const maxPacket = 65507

type udpDestination struct {
	s       *Service
	address string
	mu      sync.Mutex
	conn    net.Conn
}

// dial returns the socket. The first call creates it.
func (d *udpDestination) dial(ctx context.Context) (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conn == nil {
		conn, err := (&net.Dialer{}).DialContext(ctx, "udp", d.address)
		if err != nil {
			return nil, err
		}
		d.conn = conn
	}
	return d.conn, nil
}

// send sends lines in packets that end at the end of a line.
func (d *udpDestination) send(ctx context.Context, lines []byte) error {
	conn, err := d.dial(ctx)
	if err != nil {
		return err
	}
	for len(lines) > 0 {
		n := len(lines)
		if n > maxPacket {
			first := 0
			if n, first = packet(lines); n == 0 {
				d.s.malformed.Add(1)
				lines = lines[first:]
				continue
			}
		}
		if _, err := conn.Write(lines[:n]); err != nil {
			return err
		}
		lines = lines[n:]
	}
	return nil
}

// packet returns the length of as many whole lines as fit in a packet, and that of the first
// line.
func packet(lines []byte) (n, first int) {
	for line := range lineproto.Lines(lines) {
		if first == 0 {
			first = len(line)
		}
		if n+len(line) > maxPacket {
			break
		}
		n += len(line)
	}
	return n, first
}

func (d *udpDestination) close() {
	if d.conn != nil {
		_ = d.conn.Close()
	}
}
