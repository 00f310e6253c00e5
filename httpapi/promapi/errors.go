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

// kinds are the statuses of kinds of errors.
var kinds = map[engine.Kind]int{
	engine.BadData:     http.StatusBadRequest,
	engine.NotFound:    http.StatusNotFound,
	engine.Execution:   http.StatusUnprocessableEntity,
	engine.Canceled:    statusClientClosed,
	engine.Unavailable: http.StatusServiceUnavailable,
	engine.Timeout:     http.StatusServiceUnavailable,
	engine.Internal:    http.StatusInternalServerError,
}

// types are the errorTypes of statuses. Others are internal from 500 on, and bad_data
// below.
var types = map[int]string{
	http.StatusUnauthorized:        "unauthorized",
	http.StatusForbidden:           "forbidden",
	http.StatusNotFound:            "not_found",
	http.StatusUnprocessableEntity: "execution",
	statusClientClosed:             "canceled",
	http.StatusServiceUnavailable:  "unavailable",
}

// Status returns the status, the type and the text of an error of this package, and
// false for other errors.
func Status(err error) (status int, kind, message string, ok bool) {
	var e *engine.Error
	if !errors.As(err, &e) {
		return 0, "", "", false
	}
	status = kinds[e.Kind]
	kind = typeOf(status)
	if e.Kind == engine.Timeout {
		kind = "timeout"
	}
	return status, kind, err.Error(), true
}

// typeOf returns the errorType of a status.
func typeOf(status int) string {
	if kind, ok := types[status]; ok {
		return kind
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
