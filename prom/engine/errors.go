package engine

import (
	"context"
	"errors"

	"github.com/prometheus/prometheus/promql"

	"tsdbd/internal/binio"
	"tsdbd/meta"
	"tsdbd/model/scan"
	"tsdbd/query/admission"
)

// Kind says whose fault an error is, in the classes of Prometheus' HTTP API.
type Kind uint8

// The kinds of errors.
const (
	Execution   Kind = iota // the query cannot be answered
	BadData                 // the query is not PromQL
	NotFound                // there is no such database or policy
	Unavailable             // too many queries run
	Timeout                 // the query took too long
	Canceled                // the client went away, or someone killed the query
	Internal                // damage, or a bug
)

// Error is why a request failed.
type Error struct {
	Kind Kind
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// env is how Prometheus names the step of a query in which it ended.
const env = "query execution"

// classify returns an error as an *Error. The context is the one of the query.
func classify(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	var known *Error
	var timeout promql.ErrQueryTimeout
	var canceled promql.ErrQueryCanceled
	var storage promql.ErrStorage
	cause := context.Cause(ctx)
	ended := cause != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, cause) || errors.As(err, &timeout) || errors.As(err, &canceled))
	switch {
	case errors.As(err, &known):
		return err
	case ended && (errors.Is(cause, admission.ErrQueryTimeout) || errors.Is(cause, context.DeadlineExceeded)):
		if timeout == "" {
			timeout = env
		}
		return &Error{Timeout, timeout}
	case ended && errors.Is(cause, context.Canceled):
		if canceled == "" {
			canceled = env
		}
		return &Error{Canceled, canceled}
	case ended && errors.Is(cause, admission.ErrMemory):
		return &Error{Execution, cause}
	case ended:
		return &Error{Canceled, cause}
	case errors.Is(err, meta.ErrDatabaseNotFound), errors.Is(err, meta.ErrRetentionPolicyNotFound):
		return &Error{NotFound, err}
	case errors.As(err, &storage):
		return &Error{Internal, storage.Err}
	case errors.As(err, new(*admission.Panic)), errors.As(err, new(*scan.DamageError)), errors.Is(err, binio.ErrCorrupt):
		return &Error{Internal, err}
	}
	return &Error{Execution, err}
}
