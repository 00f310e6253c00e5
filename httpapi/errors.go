package httpapi

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"

	"tsdbd/httpapi/browser"
	"tsdbd/httpapi/encode"
	"tsdbd/httpapi/login"
	"tsdbd/internal/body"
	"tsdbd/meta"
	"tsdbd/model/point"
	"tsdbd/query/admission"
)

// apiError is an answer with a status of its own.
type apiError struct {
	status  int
	message string
}

func (e *apiError) Error() string { return e.message }

func badRequest(message string) error { return &apiError{http.StatusBadRequest, message} }

// The answers that have no error value elsewhere.
var (
	errDatabaseRequired   = badRequest("database is required")
	errConsistency        = badRequest("invalid consistency level")
	errMissingQuery       = badRequest(`missing required parameter "q"`)
	errTimeFormat         = badRequest("Time format must be one of the following: rfc3339,epoch")
	errEntityTooLarge     = &apiError{http.StatusRequestEntityTooLarge, "Request Entity Too Large"}
	errShuttingDown       = &apiError{http.StatusServiceUnavailable, "server is shutting down"}
	errTooManyBodies      = &apiError{http.StatusServiceUnavailable, body.ErrBusy.Error()}
	errTooManyAsync       = &apiError{http.StatusServiceUnavailable, "too many queries in the background"}
	errInternal           = &apiError{http.StatusInternalServerError, "internal error"}
	errQueryTooLong       = badRequest("error parsing query: query is too long")
	errQueryTooDeep       = badRequest("error parsing query: too deeply nested")
	errTooManyParentheses = badRequest("error parsing query: too many parentheses")
	errFluxDisabled       = &apiError{http.StatusForbidden, "Flux query service disabled: tsdbd has no Flux, use InfluxQL by /query"}
	errDropped            = &apiError{http.StatusServiceUnavailable, "the database was dropped while the request was under way, which may be sent again"}
	errRequestTimeout     = &apiError{http.StatusServiceUnavailable, "timeout"}
	errRequestInterrupted = &apiError{http.StatusServiceUnavailable, "request was interrupted"}
)

// retryAfterSeconds is the Retry-After of every 503, in whole seconds.
const retryAfterSeconds = "1"

// droppingWords are texts that make clients drop a batch, whatever the status is.
// A 5xx must not contain them by accident: a replay that was "unable to parse" an
// entry would lose live data.
var droppingWords = []string{
	"partial write", "unable to parse", "retention policy not found",
	"points beyond retention policy", "hinted handoff queue not empty",
	"database not found", "field type conflict",
}

// classify is the table from error to status and text. Errors of the client are
// 4xx with the full text. Errors of the environment and of the server are 5xx with
// a text that makes clients keep their data.
func classify(err error) (status int, message string) {
	var api *apiError
	var refused login.Error
	var busy login.BusyError
	var partial point.PartialWrite
	var readOnly *readOnlyError
	var page browser.Refusal
	switch {
	case errors.As(err, &api):
		return api.status, api.message
	case errors.As(err, &readOnly):
		return http.StatusBadRequest, readOnly.Message
	case errors.As(err, &page):
		return http.StatusForbidden, page.Error()
	case errors.As(err, &refused):
		return http.StatusUnauthorized, refused.Error()
	case errors.As(err, &busy):
		return http.StatusServiceUnavailable, busy.Error() // Telegraf drops a batch that is answered 429
	case errors.As(err, &partial):
		return http.StatusBadRequest, partial.Error()
	case errors.Is(err, meta.ErrDatabaseNotFound):
		return http.StatusNotFound, err.Error()
	case errors.Is(err, meta.ErrRetentionPolicyNotFound):
		// The status is InfluxDB's. The dropping word is intended: to send the
		// batch again does not create the policy.
		return http.StatusInternalServerError, err.Error()
	case errors.Is(err, body.ErrTooLarge):
		return errEntityTooLarge.status, errEntityTooLarge.message
	case errors.Is(err, context.Canceled):
		return errRequestInterrupted.status, errRequestInterrupted.message
	case errors.Is(err, context.DeadlineExceeded):
		return errRequestTimeout.status, errRequestTimeout.message
	case point.Temporary(err), errors.Is(err, admission.ErrMemory):
		return http.StatusServiceUnavailable, keepingWords(err.Error())
	case errors.As(err, new(*encode.StatementError)):
		return http.StatusBadRequest, err.Error()
	}
	return http.StatusInternalServerError, keepingWords(err.Error())
}

// keepingWords replaces a text that contains dropping words.
func keepingWords(message string) string {
	lower := strings.ToLower(message)
	for _, w := range droppingWords {
		if strings.Contains(lower, w) {
			return "write failed: see the server's log"
		}
	}
	return message
}

// bodyError returns the answer to a failed read of a body: too large, a connection
// that broke or timed out (the client should send again), or bad compression.
func bodyError(err error) error {
	var network net.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, body.ErrTooLarge):
		return errEntityTooLarge
	case errors.Is(err, body.ErrBusy):
		return errTooManyBodies
	case errors.As(err, &network):
		return errRequestInterrupted
	}
	return badRequest(err.Error())
}

// maxErrorHeader is the length at which X-Influxdb-Error is cut.
const maxErrorHeader = 1024

// writeError answers with err in the format that the client accepts.
func writeError(w http.ResponseWriter, r *http.Request, err error) {
	status, message := errorHead(w, err)
	h := w.Header()
	f := encode.Format{Media: encode.Negotiate(r.Header.Values("Accept")), Pretty: pretty(r)}
	h.Set("Content-Type", f.ErrorMedia())
	w.WriteHeader(status)
	body := encode.Error(f, message)
	if refused, ok := errors.AsType[*readOnlyError](err); ok && f.ErrorMedia() == encode.MediaJSON {
		body = refused.document(f.Pretty)
	}
	_, _ = w.Write(body) // the client is gone if this fails
}

// errorHead returns the status and the text of err, and sets the headers of the answer.
func errorHead(w http.ResponseWriter, err error) (status int, message string) {
	status, message = classify(err)
	if status != http.StatusUnauthorized {
		w.Header().Set(errorHeader, headerText(message))
	}
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfterSeconds)
	}
	return status, message
}

// pretty reports whether the client wants JSON indented.
func pretty(r *http.Request) bool { return r.URL.Query().Get("pretty") == "true" }
