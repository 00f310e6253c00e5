package influxhttp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"time"

	"tsdbd/exchange"
	"tsdbd/transfer/mover"
)

// verdict says what to do about an error of the source.
type verdict byte

const (
	give  verdict = iota // up: the same request fails again
	again                // later
	split                // the slice is too large for the server
)

// tooMuch are words of servers about a query that is too large for them.
var tooMuch = []string{"max-select", "query-timeout", "query timeout", "timed out", "timeout", "deadline exceeded", "out of memory", "memory limit", "resources exhausted", "file limit", "too large", "too many"}

// passing are words of servers about a state that passes.
var passing = []string{"max-concurrent-queries", "query interrupted", "query killed", "engine is closed", "disabled", "not ready", "try again"}

// judge says what to do about an error.
func judge(err error) verdict {
	var w *exchange.WriteError
	var q *exchange.QueryError
	var file *fs.PathError // the disk here is full
	switch {
	case errors.Is(err, context.Canceled), errors.As(err, &file):
		return give
	case errors.Is(err, errTruncated), errors.Is(err, errStalled):
		return split
	case errors.As(err, &w):
		return judgeText(w.Message, judgeStatus(w.Status))
	case errors.As(err, &q):
		return judgeText(q.Text, give)
	}
	return again // the connection, or half an answer
}

func judgeText(message string, otherwise verdict) verdict {
	message = strings.ToLower(message)
	for _, words := range []struct {
		list []string
		then verdict
	}{{passing, again}, {tooMuch, split}} {
		for _, w := range words.list {
			if strings.Contains(message, w) {
				return words.then
			}
		}
	}
	return otherwise
}

func judgeStatus(status int) verdict {
	switch {
	case status == http.StatusRequestTimeout, status == http.StatusRequestEntityTooLarge, status == http.StatusGatewayTimeout:
		return split
	case status == http.StatusTooManyRequests, status >= 500:
		return again
	}
	return give
}

// away reports that a server may answer again: it is not reached, or has a problem of its
// own.
func away(err error) bool {
	var w *exchange.WriteError
	var u *url.Error
	return errors.As(err, &w) && w.Temporary() || errors.As(err, &u)
}

// explain adds to a refusal of the source what the user can do.
func explain(err error) error {
	var w *exchange.WriteError
	var target *mover.TargetError
	switch {
	case err == nil, errors.As(err, &target):
	case errors.As(err, &w) && w.Status == http.StatusUnauthorized:
		return fmt.Errorf("the old server does not accept the login; InfluxDB 1.x takes a user and a password, 2.x and 3.x a token: %w", err)
	case errors.As(err, &w) && w.Status == http.StatusForbidden:
		return fmt.Errorf("the login may not read that at the old server; an administrator, or a token with the right to read all buckets, may: %w", err)
	}
	return err
}

// retry asks until an answer comes, as long as the source may recover.
func retry[T any](ctx context.Context, s *Source, ask func() (T, error)) (T, error) {
	for w := s.newWait(); ; {
		out, err := ask()
		if err == nil || judge(err) != again {
			return out, err
		}
		if err := w.pause(ctx, err); err != nil {
			return out, err
		}
	}
}

// wait is the time between the attempts of a request.
type wait struct {
	source *Source
	until  time.Time // zero before the first error: an attempt may take long
	next   time.Duration
	noted  bool
}

func (s *Source) newWait() wait {
	return wait{source: s, next: s.opt.Patience / 1000}
}

// pause waits before the next attempt. It returns the error of the last one when the
// patience is at its end.
func (w *wait) pause(ctx context.Context, last error) error {
	if w.until.IsZero() {
		w.until = time.Now().Add(w.source.opt.Patience)
	}
	if time.Now().Add(w.next).After(w.until) {
		return last
	}
	if !w.noted && w.next > w.source.opt.Patience/100 {
		w.noted = true
		w.source.note("%v; trying again for up to %s", last, time.Until(w.until).Round(time.Second))
	}
	select {
	case <-time.After(w.next):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	w.next = min(2*w.next, 30*time.Second)
	return nil
}
