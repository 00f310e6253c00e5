package influxhttp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"strings"

	"tsdbd/exchange"
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

// targetError is an error of the target.
type targetError struct{ error }

// Unwrap returns the error.
func (e targetError) Unwrap() error { return e.error }

// explain adds to a refusal of the source what the user can do.
func explain(err error) error {
	var w *exchange.WriteError
	var target targetError
	switch {
	case err == nil, errors.As(err, &target):
	case errors.As(err, &w) && w.Status == http.StatusUnauthorized:
		return fmt.Errorf("the old server does not accept the login; InfluxDB 1.x takes a user and a password, 2.x and 3.x a token: %w", err)
	case errors.As(err, &w) && w.Status == http.StatusForbidden:
		return fmt.Errorf("the login may not read that at the old server; an administrator, or a token with the right to read all buckets, may: %w", err)
	}
	return err
}
