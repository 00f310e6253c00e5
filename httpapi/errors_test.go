package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"tsdbd/httpapi/throttle"
	"tsdbd/internal/body"
	"tsdbd/meta"
)

type overloaded struct{}

func (overloaded) Error() string   { return "cache is full" }
func (overloaded) Temporary() bool { return true }

type replaying struct{}

func (replaying) Error() string   { return "replay: Unable to parse entry 7" }
func (replaying) Temporary() bool { return true }

func TestErrorTable(t *testing.T) {
	f := func(err error, status int, message string) {
		t.Helper()
		if s, m := classify(err); s != status || m != message {
			t.Errorf("%v: %d %q, want %d %q", err, s, m, status, message)
		}
	}
	f(errDatabaseRequired, 400, "database is required")
	f(fmt.Errorf("write: %w", errEntityTooLarge), 413, "Request Entity Too Large")
	f(body.ErrTooLarge, 413, "Request Entity Too Large") // the rows of a small body may be
	f(databaseError(meta.ErrDatabaseNotFound, "x"), 404, `database not found: "x"`)
	f(databaseError(fmt.Errorf("%w: x", meta.ErrDatabaseNotFound), "x"), 404, `database not found: "x"`)
	f(policyError(meta.ErrRetentionPolicyNotFound, &target{db: "d", rp: "x"}), 500, "retention policy not found: x")
	f(policyError(fmt.Errorf("%w: autogen", meta.ErrRetentionPolicyNotFound), &target{db: "d"}), 500, "retention policy not found: autogen")
	f(overloaded{}, 503, "cache is full")
	f(fmt.Errorf("shard 7: %w", overloaded{}), 503, "shard 7: cache is full")
	f(replaying{}, 503, "write failed: see the server's log")
	f(context.Canceled, 503, "request was interrupted")
	f(context.DeadlineExceeded, 503, "timeout")
	f(errors.New("input/output error"), 500, "input/output error")
	f(errShuttingDown, 503, "server is shutting down")
	f(throttle.ErrFull, 503, "request throttled, queue full")
}

func TestServerErrorsKeepTheData(t *testing.T) {
	for _, w := range droppingWords {
		for _, err := range []error{errors.New("x: " + w + ": y"), errors.New(strings.ToUpper(w))} {
			if status, m := classify(err); status < 500 || strings.Contains(strings.ToLower(m), w) {
				t.Errorf("%v: %d %q", err, status, m)
			}
		}
	}
}

func TestErrorHeaderIsCutAndClean(t *testing.T) {
	long := strings.Repeat("é", 600)
	if h := headerText(long); len(h) > maxErrorHeader || !utf8.ValidString(h) || !strings.HasPrefix(long, h) {
		t.Errorf("%d bytes", len(h))
	}
	if h := headerText("a\nb\r\x00c\xff\x7f"); h != "a b  c  " {
		t.Errorf("%q", h)
	}
	w := httptest.NewRecorder()
	writeError(w, httptest.NewRequest("GET", "/", nil), overloaded{})
	if w.Code != 503 || w.Header().Get("Retry-After") != "1" || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}

func TestPrettyErrorsAreIndented(t *testing.T) {
	for query, want := range map[string]string{
		"?pretty=true": "{\n    \"error\": \"x\"\n}\n",
		"?pretty=1":    "{\"error\":\"x\"}\n",
	} {
		w := httptest.NewRecorder()
		writeError(w, httptest.NewRequest(http.MethodGet, "/query"+query, nil), errors.New("x"))
		if got := w.Body.String(); got != want {
			t.Errorf("%s: %q", query, got)
		}
	}
}
