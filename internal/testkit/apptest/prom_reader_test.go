package apptest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/golang/snappy"
)

// wideSeries is how many series the tests of large answers have.
const wideSeries = 100_000

// writeWide writes wideSeries series m{host=...} with 5 samples each, one in a minute.
func writeWide(s *Server, db string) {
	s.t.Helper()
	s.Query("", "CREATE DATABASE "+db)
	var lines strings.Builder
	for i := range wideSeries {
		for at := range 5 {
			fmt.Fprintf(&lines, "m,host=host-%06d,rack=rack-%03d value=%d %d\n", i, i%100, i+at, int64(at+1)*60e9)
		}
		if i%10_000 == 9_999 {
			s.Write(db, lines.String())
			lines.Reset()
		}
	}
}

// wideRequests ask for all that writeWide has written.
func wideRequests() map[string]func(base string) (*http.Request, error) {
	read := func(base string, accepted int64) (*http.Request, error) {
		q := message(nil).number(1, 0).number(2, 1<<40).sub(3, message(nil).number(1, 0).text(2, "__name__").text(3, "m"))
		req, err := http.NewRequest("POST", base+"/api/v1/read", strings.NewReader(string(snappy.Encode(nil, message(nil).sub(1, q).number(2, accepted)))))
		if err == nil {
			req.Header.Set("Content-Type", "application/x-protobuf")
			req.Header.Set("Content-Encoding", "snappy")
		}
		return req, err
	}
	return map[string]func(base string) (*http.Request, error){
		"remote read":         func(base string) (*http.Request, error) { return read(base, 0) },
		"remote read, chunks": func(base string) (*http.Request, error) { return read(base, 1) },
		"export": func(base string) (*http.Request, error) {
			return http.NewRequest("GET", base+"/api/v1/export?match[]=m", nil)
		},
		"query_range": func(base string) (*http.Request, error) {
			return http.NewRequest("GET", base+"/api/v1/query_range?query=m&start=60&end=300&step=60", nil)
		},
	}
}

// TestPrometheusWideRead asks for all samples of 100,000 series with little memory and
// with enough. The server says what is too little, and takes no more than it may.
func TestPrometheusWideRead(t *testing.T) {
	t.Parallel()
	s := New(t)
	s.Env = []string{"TSDBD_QUERY_MAX_MEMORY=8MiB", "GOGC=25"}
	s.Restart()
	writeWide(s, "wide")
	base := s.URL + "/prometheus/wide"
	for name, request := range wideRequests() {
		freshPeak(s)
		before := memoryNow(t, s, "VmRSS")
		req, err := request(base)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := s.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := readAll(resp)
		if err != nil || resp.StatusCode != 422 || !strings.Contains(body, "query memory limit exceeded: needs more than 8388608 bytes") {
			t.Errorf("%s: %d %.300s %v", name, resp.StatusCode, body, err)
		}
		grown := memoryNow(t, s, "VmHWM") - before
		t.Logf("%s: the server took %d MiB more", name, grown>>20)
		if grown > 48<<20 {
			t.Errorf("%s: the server took %d MiB more", name, grown>>20)
		}
	}
	s.Stop()
	s.Env = []string{"TSDBD_QUERY_MAX_MEMORY=128MiB"}
	s.Restart()
	base = s.URL + "/prometheus/wide"
	for name, request := range wideRequests() {
		req, err := request(base)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept-Encoding", "identity")
		resp, err := s.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := readAll(resp)
		if name == "remote read" && err == nil {
			var plain []byte
			plain, err = snappy.Decode(nil, []byte(body))
			body = string(plain)
		}
		if n := strings.Count(body, "host-"); err != nil || resp.StatusCode != 200 || n != wideSeries {
			t.Errorf("%s: %d with %d series, %v", name, resp.StatusCode, n, err)
		}
	}
}

// memoryNow returns a figure of the server's memory in bytes: VmRSS is what it has, and
// VmHWM the most since freshPeak. They are 0 where there is no /proc.
func memoryNow(t *testing.T, s *Server, figure string) (bytes int64) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Pid()))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), figure+":")
	if _, err := fmt.Sscan(rest, &bytes); err != nil {
		t.Fatal(err)
	}
	return bytes << 10
}

// freshPeak has VmHWM begin again.
func freshPeak(s *Server) {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.Pid()), []byte("5"), 0) // not Linux, if it fails
}

// TestPrometheusClientsThatStop begins to read large answers and stops. The query ends
// when the client goes away, and when it is killed. Then the client sees that its answer
// is not whole.
func TestPrometheusClientsThatStop(t *testing.T) {
	t.Parallel()
	s := New(t)
	s.Env = []string{"TSDBD_QUERY_MAX_MEMORY=128MiB"}
	s.Restart()
	writeWide(s, "wide")
	small := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			err = conn.(*net.TCPConn).SetReadBuffer(64 << 10)
		}
		return conn, err
	}}
	t.Cleanup(small.CloseIdleConnections)
	running := regexp.MustCompile(`\[(\d+),"(?:[^"\\]|\\.)*","wide"`)
	list := func() []string { return running.FindStringSubmatch(s.Query("", "SHOW QUERIES")) }
	for name, request := range wideRequests() {
		if name == "remote read" {
			continue // is one message, which is made before it is sent
		}
		for _, how := range []string{"disconnect", "kill"} {
			req, err := request(s.URL + "/prometheus/wide")
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Accept-Encoding", "identity")
			resp, err := (&http.Client{Transport: small}).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(resp.Body, make([]byte, 1000)); err != nil || resp.StatusCode != 200 {
				t.Fatalf("%s: %d %v", name, resp.StatusCode, err)
			}
			query := list()
			if query == nil {
				t.Fatalf("%s is over, or is not shown: %s", name, s.Query("", "SHOW QUERIES"))
			}
			if how == "kill" {
				s.Query("", "KILL QUERY "+query[1])
				if n, err := io.Copy(io.Discard, resp.Body); err == nil {
					t.Errorf("%s: after a kill the answer ends after %d bytes as if it were whole", name, n)
				}
			}
			_ = resp.Body.Close()
			for begin := time.Now(); list() != nil; time.Sleep(10 * time.Millisecond) {
				if time.Since(begin) > time.Minute {
					t.Fatalf("%s goes on after %s: %s", name, how, s.Query("", "SHOW QUERIES"))
				}
			}
		}
	}
}
