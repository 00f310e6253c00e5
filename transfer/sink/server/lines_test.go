package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tsdbd/exchange"
	"tsdbd/transfer/mover"
)

// moved moves a part of text to a server. It returns what was kept of the refused rows.
func moved(t *testing.T, c *exchange.Client, p mover.Part) (*mover.Stats, string, error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "refused")
	refused, err := mover.OpenRefused(name, false)
	if err != nil {
		t.Fatal(err)
	}
	s, err := mover.Run(t.Context(), &mover.List{Items: []*mover.Part{&p}}, New(c, Options{}), mover.Options{Failed: refused})
	if cerr := refused.Close(); cerr != nil {
		t.Error(cerr)
	}
	kept, kerr := os.ReadFile(name)
	if kerr != nil {
		t.Fatal(kerr)
	}
	return s, string(kept), err
}

// TestReasons finds all lines that a server refuses, though it names one reason for all of
// them, and the rows that the lines come from.
func TestReasons(t *testing.T) {
	for _, tells := range []bool{false, true} { // how many lines it has dropped
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			dropped, reason := 0, ""
			for line := range strings.Lines(string(body)) {
				if _, bad, is := strings.Cut(line, "bad="); is {
					dropped++
					reason, _, _ = strings.Cut(bad, " ")
				}
			}
			if dropped == 0 {
				w.WriteHeader(http.StatusNoContent)
				return
			}
			if tells {
				w.Header().Set("X-Tsdbd-Dropped", strconv.Itoa(dropped))
			}
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":"partial write: %s is wrong dropped=%d"}`, reason, dropped)
		}))
		defer server.Close()
		for _, rows := range []bool{false, true} {
			part := mover.Part{Name: "f", Lines: func(_ context.Context, to mover.Lines) error {
				for i, bad := range []string{"", ",bad=one", "", ",bad=two", ",bad=three", ",bad=three", "", ""} {
					l := &mover.Line{Database: "d", Policy: "p", Text: fmt.Appendf(nil, "m%s v=1 %d", bad, i)}
					if rows {
						l.From = &mover.Row{Number: i + 2, Head: []byte("head\n"), Text: fmt.Append(nil, i+2)}
					}
					if err := to.Put(l); err != nil {
						return err
					}
				}
				return nil
			}}
			s, kept, err := moved(t, &exchange.Client{URL: server.URL}, part)
			if err != nil || s.Refused != 4 || s.Written != 4 || s.Parts != 1 {
				t.Errorf("%+v, %v", s, err)
			}
			wantKept := "# CONTEXT-DATABASE:d\n# CONTEXT-RETENTION-POLICY:p\nm,bad=one v=1 1\nm,bad=two v=1 3\nm,bad=three v=1 4\nm,bad=three v=1 5\n"
			want := []mover.Reason{{Text: "partial write: one is wrong dropped=1", Values: 1}, {Text: "partial write: two is wrong dropped=1", Values: 1}, {Text: "partial write: three is wrong dropped=1", Values: 2}}
			if tells {
				want[2].Text = "partial write: three is wrong dropped=2"
			}
			if rows {
				wantKept = "head\n3\n5\n6\n7\n"
				for i := range want {
					want[i].Text = fmt.Sprintf("f:%s: %s", []string{"3", "5", "6-7"}[i], want[i].Text)
				}
				if !tells {
					want[2] = mover.Reason{Text: "f:6: partial write: three is wrong dropped=1", Values: 1}
					want = append(want, mover.Reason{Text: "f:7: partial write: three is wrong dropped=1", Values: 1})
				}
			}
			if kept != wantKept || !slices.Equal(s.Reasons, want) {
				t.Errorf("reasons %+v, want %+v, kept\n%s", s.Reasons, want, kept)
			}
		}
	}
}

// silent is a server that takes requests and answers none.
type silent struct{}

// RoundTrip implements http.RoundTripper.
func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestSilent: a server that takes lines and does not answer does not hold a move forever. The
// error is that of a server that is away.
func TestSilent(t *testing.T) {
	for _, series := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			c := &exchange.Client{URL: "http://h", HTTP: &http.Client{Transport: silent{}}}
			part := mover.Part{Series: series, Lines: func(ctx context.Context, to mover.Lines) error {
				if err := to.Put(&mover.Line{Database: "d", Text: []byte("m v=1 1")}); err != nil {
					return err
				}
				return to.Query("CREATE DATABASE d")
			}}
			s, _, err := moved(t, c, part)
			var away *url.Error
			var target *mover.TargetError
			if !errors.Is(err, errUnanswered) || !errors.As(err, &away) || !errors.As(err, &target) || s.Written != 0 || s.Statements != 0 || time.Since(began) != requestTime {
				t.Errorf("%v after %s, %+v", err, time.Since(began), s)
			}
		})
	}
}

// TestWriteErrors: the answer of a server decides what is done.
func TestWriteErrors(t *testing.T) {
	for _, c := range []struct {
		status               int
		body                 string
		lines, policy, again bool
	}{
		{400, `{"error":"partial write: points beyond retention policy dropped=1"}`, true, false, false},
		{400, `{"error":"unable to parse 'x': missing fields"}`, true, false, false},
		{404, `{"error":"database not found: \"x\""}`, false, false, false},
		{500, `{"error":"retention policy not found: rp"}`, false, true, false},
		{503, `{"error":"timeout"}`, false, false, true},
		{429, `slow down`, false, false, true},
		{502, `bad gateway`, false, false, true},
	} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}))
		err := (&exchange.Client{URL: web.URL}).Write(t.Context(), "d", "", "", []byte("m v=1"))
		web.Close()
		var answer *exchange.WriteError
		if !errors.As(err, &answer) || ofLines(answer) != c.lines || ofPolicy(answer) != c.policy || answer.Temporary() != c.again {
			t.Errorf("%d %s: %v", c.status, c.body, err)
		}
	}
}
