package promapi

import (
	"errors"
	"fmt"
	"net/http"

	"tsdbd/httpapi/encode"
	"tsdbd/prom/engine"
)

// statusClientClosed is the status for a client that went away, which nobody sees. It
// is nginx's.
const statusClientClosed = 499

// badData returns an error for a request that is wrong.
func badData(format string, args ...any) error {
	return &engine.Error{Kind: engine.BadData, Err: fmt.Errorf(format, args...)}
}

// invalid returns an error for a parameter.
func invalid(name string, err error) error { return badData("invalid parameter %q: %w", name, err) }

// Status returns the status, the type and the text of an error of this package, and
// false for other errors.
func Status(err error) (status int, kind, message string, ok bool) {
	var e *engine.Error
	if !errors.As(err, &e) {
		return 0, "", "", false
	}
	switch e.Kind {
	case engine.BadData:
		status = http.StatusBadRequest
	case engine.NotFound:
		status = http.StatusNotFound
	case engine.Unavailable, engine.Timeout:
		status = http.StatusServiceUnavailable
	case engine.Canceled:
		status = statusClientClosed
	case engine.Internal:
		status = http.StatusInternalServerError
	default:
		status = http.StatusUnprocessableEntity
	}
	kind = typeOf(status)
	if e.Kind == engine.Timeout {
		kind = "timeout"
	}
	return status, kind, err.Error(), true
}

// typeOf returns the errorType of a status.
func typeOf(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "unauthorized"
	case http.StatusForbidden:
		return "forbidden"
	case http.StatusNotFound:
		return "not_found"
	case http.StatusUnprocessableEntity:
		return "execution"
	case statusClientClosed:
		return "canceled"
	case http.StatusServiceUnavailable:
		return "unavailable"
	}
	if status >= http.StatusInternalServerError {
		return "internal"
	}
	return "bad_data"
}

// WriteText answers with an error as text, as Prometheus does where no document is answered.
func WriteText(w http.ResponseWriter, status int, _, message string) { http.Error(w, message, status) }

// writeDocument answers with an error as a document.
func writeDocument(w http.ResponseWriter, status int, kind, message string) {
	if kind == "" {
		kind = typeOf(status)
	}
	b := encode.AppendString([]byte(`{"status":"error","errorType":`), kind)
	b = encode.AppendString(append(b, `,"error":`...), message)
	w.Header().Set("Content-Type", encode.MediaJSON)
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '}')) // the client is gone if this fails
}
