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
	"sync/atomic"
)

// queue is what waits for one subscription, and the goroutine that sends it.
type queue struct {
	s            *Service
	policy       policy
	name         string
	any          bool
	destinations []destination
	next         int // destination of ANY whose turn it is
	entries      chan []byte
	bytes        atomic.Int64 // in entries
	stop         chan struct{}
	done         chan struct{}
	log          *slog.Logger
	failing      bool // the last text failed: logged once
}

// A destination takes lines.
type destination interface {
	send(ctx context.Context, lines []byte) error
	close()
}

// put queues lines, or drops them.
func (q *queue) put(lines []byte) {
	n := int64(len(lines))
	if q.bytes.Add(n) > q.s.opt.QueueBytes {
		q.bytes.Add(-n)
		q.s.dropped.Add(1)
		return
	}
	select {
	case q.entries <- lines:
	default:
		q.bytes.Add(-n)
		q.s.dropped.Add(1)
	}
}

// close ends the goroutine and waits for it.
func (q *queue) close() {
	close(q.stop)
	<-q.done
}

func (q *queue) run() {
	defer close(q.done)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // a request under way ends with the queue
		select {
		case <-q.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	defer func() {
		for _, d := range q.destinations {
			d.close()
		}
		q.s.dropped.Add(uint64(len(q.entries)))
	}()
	for {
		select {
		case <-q.stop:
			return
		default:
		}
		select {
		case <-q.stop:
			return
		case lines := <-q.entries:
			q.bytes.Add(-int64(len(lines)))
			q.deliver(ctx, lines)
		}
	}
}

// deliver sends to every destination, or with ANY to the first that takes it.
func (q *queue) deliver(ctx context.Context, lines []byte) {
	var failure error
	for range q.destinations {
		d := q.destinations[q.next]
		q.next = (q.next + 1) % len(q.destinations)
		if err := d.send(ctx, lines); err != nil {
			q.s.failed.Add(1)
			failure = err
			continue
		}
		q.s.sent.Add(1)
		if q.any {
			break
		}
	}
	if failing := failure != nil; failing != q.failing {
		q.failing = failing
		if failing {
			q.log.Warn("subscriber not reached", "err", failure)
		} else {
			q.log.Info("subscribers reached again")
		}
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
	conn    net.Conn
}

// send cuts lines into packets at their ends.
func (d *udpDestination) send(ctx context.Context, lines []byte) error {
	if d.conn == nil {
		conn, err := (&net.Dialer{}).DialContext(ctx, "udp", d.address)
		if err != nil {
			return err
		}
		d.conn = conn
	}
	for len(lines) > 0 {
		n := len(lines)
		if n > maxPacket {
			if n = bytes.LastIndexByte(lines[:maxPacket], '\n') + 1; n == 0 {
				d.s.malformed.Add(1)
				end := bytes.IndexByte(lines, '\n') // every line has one
				lines = lines[end+1:]
				continue
			}
		}
		if _, err := d.conn.Write(lines[:n]); err != nil {
			return err
		}
		lines = lines[n:]
	}
	return nil
}

func (d *udpDestination) close() {
	if d.conn != nil {
		_ = d.conn.Close()
	}
}
