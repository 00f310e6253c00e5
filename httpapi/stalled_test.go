package httpapi_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tsdbd/httpapi"
	"tsdbd/httpapi/listener"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query"
	"tsdbd/query/admission"
	"tsdbd/query/result"
)

// selfSigned returns a certificate of the test's own.
func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// longAnswer is a Result of long strings.
func longAnswer() *result.Result {
	const rows = 1000
	s := &result.Series{Name: "m", Columns: []string{"time", "s"}, Rows: rows, Partial: true, Values: []column.Vector{
		{Type: model.Integer, Ints: make([]int64, rows)},
		{Type: model.String, Strings: make([]string, rows)},
	}}
	for i := range rows {
		s.Values[1].Strings[i] = rand.Text() + rand.Text() + strings.Repeat("x", 900)
	}
	return &result.Result{Series: []*result.Series{s}, Partial: true}
}

// A client asks and does not read. Whatever ends the query, or takes the memory
// that the answer holds, ends the write that waits for the client, over every
// kind of connection.
func TestClientThatDoesNotRead(t *testing.T) {
	memory := admission.NewMemory(1 << 20)
	for _, how := range []string{"interrupt", "memory", "disconnect"} {
		for _, kind := range []string{"tcp", "tls", "unix"} {
			for _, format := range []string{"application/json", "application/csv"} {
				if format != "application/json" && kind != "tcp" {
					continue // the connection does not know the format
				}
				t.Run(how+" "+kind+" "+format, func(t *testing.T) {
					store := newFakeStore()
					ended := make(chan error, 1)
					store.execute = func(_ context.Context, emit func(*result.Result) error) error {
						for {
							if err := emit(longAnswer()); err != nil {
								ended <- err
								return err
							}
						}
					}
					h := httpapi.New(httpapi.Options{Writer: store, Query: store, Memory: memory, Registry: prometheus.NewRegistry()})
					opt, client := listener.Options{}, func(address string) (net.Conn, error) { return net.Dial("tcp", address) }
					switch kind {
					case "tls":
						opt.TLS = &tls.Config{Certificates: []tls.Certificate{selfSigned(t)}}
						client = func(address string) (net.Conn, error) {
							return tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
						}
					case "unix":
						dir, err := os.MkdirTemp("", "tsdbd") // a short path: that of a socket is bounded
						if err != nil {
							t.Fatal(err)
						}
						defer os.RemoveAll(dir)
						opt.Socket, opt.SocketMode = filepath.Join(dir, "s"), 0o600
						client = func(string) (net.Conn, error) { return net.Dial("unix", opt.Socket) }
					}
					srv, err := listener.Listen(h, opt)
					if err != nil {
						t.Fatal(err)
					}
					defer func() {
						if err := srv.Close(t.Context()); err != nil {
							t.Error(err)
						}
						h.Close()
					}()
					conn, err := client(srv.Addr())
					if err != nil {
						t.Fatal(err)
					}
					defer conn.Close()
					if _, err := fmt.Fprintf(conn, "GET /query?q=SELECT+s+FROM+m HTTP/1.1\r\nHost: x\r\nAccept: %s\r\n\r\n", format); err != nil {
						t.Fatal(err)
					}
					options := waitBlocked(t, store)
					begin := time.Now()
					switch how {
					case "interrupt":
						options.Interrupt()
					case "disconnect":
						if err := conn.Close(); err != nil {
							t.Fatal(err)
						}
					case "memory":
						if err := options.Account.SetAnswer(800 << 10); err != nil {
							t.Fatal(err)
						}
						other := memory.Open(nil, nil)
						defer other.Close()
						// The client's buffers may take some more for a moment.
						for other.SetAnswer(500<<10) != nil && time.Since(begin) < 30*time.Second {
							time.Sleep(10 * time.Millisecond)
						}
						if memory.Used() != 500<<10 {
							t.Errorf("%d bytes are held, by the answer or by nobody", memory.Used())
						}
					}
					select {
					case err := <-ended:
						if errors.Is(err, query.ErrStopped) {
							t.Log("stopped between two writes")
						}
						t.Logf("%v after %v", err, time.Since(begin))
					case <-time.After(45 * time.Second): // less than an answer has without any of this
						t.Error("the write still waits for the client")
					}
				})
			}
		}
	}
	if n := memory.Used(); n != 0 {
		t.Errorf("%d bytes are still held", n)
	}
}

// waitBlocked returns the options of the latest query once its write waits for
// the client.
func waitBlocked(t *testing.T, s *fakeStore) query.ExecuteOptions {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		opt := s.options
		s.mu.Unlock()
		if opt.Account != nil && opt.Account.Waiting() > 20*time.Millisecond {
			return opt
		}
	}
	t.Fatal("the server does not wait for its client")
	return query.ExecuteOptions{}
}
