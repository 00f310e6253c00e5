package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"tsdbd/httpapi"
)

// TestTooLargeIsReadable: a client that sends the whole body before it reads
// sees the 413, with a length in the header and in chunks. One that waits for
// leave to send is refused at once.
func TestTooLargeIsReadable(t *testing.T) {
	store := newFakeStore()
	store.create("d")
	_, base := start(t, store, httpapi.Options{Limits: httpapi.Limits{MaxBodySize: 1 << 20}})
	const size = 30 << 20
	for name, c := range map[string]struct {
		head string
		body func(w io.Writer) error
	}{
		"length": {fmt.Sprintf("Content-Length: %d", size), func(w io.Writer) error {
			_, err := io.CopyN(w, endless{}, size)
			return err
		}},
		"chunks": {"Transfer-Encoding: chunked", func(w io.Writer) error {
			chunk := fmt.Sprintf("%x\r\n%s\r\n", 1<<20, strings.Repeat("x", 1<<20))
			_, err := io.WriteString(w, strings.Repeat(chunk, size>>20)+"0\r\n\r\n")
			return err
		}},
		"waits": {fmt.Sprintf("Content-Length: %d\r\nExpect: 100-continue", size), func(io.Writer) error { return nil }},
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		if _, err = fmt.Fprintf(conn, "POST /write?db=d HTTP/1.1\r\nHost: h\r\n%s\r\n\r\n", c.head); err == nil {
			err = c.body(conn)
		}
		if err != nil {
			t.Errorf("%s: send: %v", name, err)
			continue
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text, err := io.ReadAll(answer.Body)
		if answer.StatusCode != 413 || !strings.Contains(string(text), "Request Entity Too Large") || err != nil {
			t.Errorf("%s: %d %s %v", name, answer.StatusCode, text, err)
		}
	}
}

// endless is a body without an end.
type endless struct{}

// Read implements io.Reader.
func (endless) Read(p []byte) (int, error) { return len(p), nil }
