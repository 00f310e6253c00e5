package s3

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/minio/minio-go/v7"

	"tsdbd/internal/object"
)

const (
	firstWait       = 200 * time.Millisecond
	longestWait     = 10 * time.Second
	firstPatience   = 10 * time.Second // until the bucket has answered once
	maxMessageBytes = 300
)

// try calls f until it succeeds, the patience ends, or the error is not one that
// passes. f calls moved when bytes of its request move.
func (s *Store) try(ctx context.Context, action, name string, f func(ctx context.Context, moved func()) error) error {
	for begin, wait, attempts := time.Now(), firstWait, 1; ; attempts++ {
		w := newWatch(ctx, s.opt.Stall)
		err := w.cause(f(w.ctx, w.moved))
		w.stop()
		if err == nil {
			s.reached.Store(true)
			return nil
		}
		if e := ctx.Err(); e != nil {
			return e
		}
		err = s.explain(action, name, err)
		if !errors.Is(err, object.ErrUnreachable) {
			s.reached.Store(true)
			return err
		}
		patience := s.opt.Patience
		if !s.reached.Load() {
			patience = min(patience, firstPatience)
		}
		if time.Since(begin)+wait > patience {
			return fmt.Errorf("%w (tried %d times)", err, attempts)
		}
		if wait, err = pause(ctx, wait); err != nil {
			return err
		}
	}
}

// pause waits some of the time that is given, and returns how long to wait next.
func pause(ctx context.Context, wait time.Duration) (next time.Duration, err error) {
	t := time.NewTimer(wait/2 + rand.N(wait/2))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-t.C:
		return min(2*wait, longestWait), nil
	}
}

var errStalled = errors.New("no byte moved")

// watch ends a request on which nothing moves.
type watch struct {
	ctx   context.Context
	end   context.CancelCauseFunc
	timer *time.Timer
	after time.Duration
}

func newWatch(ctx context.Context, after time.Duration) *watch {
	w := &watch{after: after}
	w.ctx, w.end = context.WithCancelCause(ctx)
	w.timer = time.AfterFunc(after, func() { w.end(errStalled) })
	return w
}

func (w *watch) moved() { w.timer.Reset(w.after) }

func (w *watch) stop() {
	w.timer.Stop()
	w.end(nil)
}

// cause returns why the request has ended with an error.
func (w *watch) cause(err error) error {
	if err != nil && errors.Is(context.Cause(w.ctx), errStalled) {
		return fmt.Errorf("%w: %w for %s", object.ErrUnreachable, errStalled, w.after)
	}
	return err
}

// name names an object for messages.
func (s *Store) name(name string) string {
	if name == "" {
		return s.where
	}
	return s.where + "/" + name
}

// failure is an error of a class. The detail may be empty.
func (s *Store) failure(action, name string, class error, detail string) error {
	if len(detail) > maxMessageBytes {
		detail = detail[:maxMessageBytes] + "..."
	}
	if detail != "" {
		return fmt.Errorf("%s %s: %w: %s", action, s.name(name), class, detail)
	}
	return fmt.Errorf("%s %s: %w", action, s.name(name), class)
}

// explain gives an error of a request its class and says what to do.
func (s *Store) explain(action, name string, err error) error {
	for _, class := range []error{object.ErrUnreachable, object.ErrRefused, object.ErrExists} {
		if errors.Is(err, class) {
			return fmt.Errorf("%s %s: %w", action, s.name(name), err)
		}
	}
	var answer minio.ErrorResponse
	if !errors.As(err, &answer) {
		return s.explainTransport(action, name, err)
	}
	at := s.opt.Endpoint
	if at == "" {
		at = "Amazon S3, region " + s.opt.Region
	}
	refused := func(detail string, values ...any) error {
		return s.failure(action, name, object.ErrRefused, fmt.Sprintf(detail, values...))
	}
	status := answer.StatusCode
	switch answer.Code {
	case "NoSuchBucket":
		return refused("there is no bucket %s at %s", s.opt.Bucket, at)
	case "NoSuchUpload":
		return refused("somebody has ended the upload")
	case "AccessDenied", "AllAccessDisabled", "AccountProblem":
		return refused("access denied: the credentials lack the right to %s here (%s)", action, answer.Message)
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken":
		return refused("wrong credentials: %s", answer.Code)
	case "ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired":
		return refused("the credentials have expired")
	case "RequestTimeTooSkewed":
		return refused("the clock of this machine differs too much from that of the store")
	case "AuthorizationHeaderMalformed", "InvalidRegion", "PermanentRedirect", "TemporaryRedirect", "IllegalLocationConstraintException":
		if answer.Region != "" && answer.Region != s.opt.Region {
			return refused("the bucket is in the region %s, not in %s: use -region %s", answer.Region, s.opt.Region, answer.Region)
		}
		return refused("wrong region or endpoint: %s", answer.Message)
	case "InvalidRange":
		return s.failure(action, name, io.ErrUnexpectedEOF, "the object is shorter")
	case "ConditionalRequestConflict", "OperationAborted", "XAmzContentSHA256Mismatch", "BadDigest", "IncompleteBody", "RequestTimeout", "SlowDown":
		return s.failure(action, name, object.ErrUnreachable, answer.Code+": "+answer.Message)
	}
	detail := fmt.Sprintf("status %d: %s", status, answer.Message)
	switch {
	case answer.Code == "NoSuchKey" || status == http.StatusNotFound:
		return s.failure(action, name, object.ErrNotFound, "")
	case status == http.StatusPreconditionFailed:
		return s.failure(action, name, object.ErrExists, "")
	case status == http.StatusForbidden:
		return refused("access denied: the credentials lack the right to %s here", action)
	case status == http.StatusNotImplemented:
		return refused("it cannot do that: %s", answer.Message)
	case status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout:
		return s.failure(action, name, object.ErrUnreachable, detail)
	}
	return refused("%s", detail)
}

// explainTransport is explain for errors that no store has sent.
func (s *Store) explainTransport(action, name string, err error) error {
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var certificate *tls.CertificateVerificationError
	var notTLS tls.RecordHeaderError
	var network net.Error
	switch {
	case errors.As(err, &authority), errors.As(err, &host), errors.As(err, &invalid), errors.As(err, &certificate), errors.As(err, &notTLS), errors.Is(err, http.ErrSchemeMismatch):
		return s.failure(action, name, object.ErrRefused, "TLS: "+err.Error())
	case errors.As(err, &network), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return s.failure(action, name, object.ErrUnreachable, err.Error())
	}
	return s.failure(action, name, object.ErrRefused, "the answer is not that of an object store: "+err.Error())
}

// roleOfContainer reports whether the environment names a service that gives the role
// of a container. Nothing is asked otherwise.
func roleOfContainer() bool {
	for _, v := range []string{"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"} {
		if os.Getenv(v) != "" {
			return true
		}
	}
	return false
}
