package objecttest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// Bucket is the name of the bucket of a Server.
const Bucket = "backups"

// Server is a server with the API of S3 that holds one bucket in memory.
type Server struct {
	URL     string
	backend *s3mem.Backend
	handler http.Handler
	server  *httptest.Server
	// Requests counts those that reached the bucket.
	Requests atomic.Int64
	// Reads counts those that read objects of backups and cold stores, and ReadBytes what they got.
	Reads, ReadBytes atomic.Int64

	fault atomic.Pointer[func(w http.ResponseWriter, r *http.Request) bool]
}

// NewServer starts a server that ends with the test.
func NewServer(t testing.TB) *Server {
	t.Helper()
	s, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Open starts a server on 127.0.0.1 with an empty bucket.
func Open() (*Server, error) {
	s := &Server{backend: s3mem.New()}
	if err := s.backend.CreateBucket(Bucket); err != nil {
		return nil, err
	}
	s.handler = gofakes3.New(s.backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server()
	s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := s.fault.Load(); f != nil && (*f)(w, r) {
			return
		}
		s.Serve(w, r)
	}))
	s.URL = s.server.URL
	return s, nil
}

// Close ends the server.
func (s *Server) Close() { s.server.Close() }

// Serve answers as a bucket that works. It refuses a body that does not have the hash that
// was signed, as S3 does.
func (s *Server) Serve(w http.ResponseWriter, r *http.Request) {
	s.Requests.Add(1)
	if r.Method == http.MethodPut {
		b, err := io.ReadAll(r.Body)
		sum := sha256.Sum256(b)
		switch want := r.Header.Get("X-Amz-Content-Sha256"); {
		case err != nil:
			Refuse(w, http.StatusBadRequest, "IncompleteBody")
			return
		case want != hex.EncodeToString(sum[:]):
			Refuse(w, http.StatusBadRequest, "XAmzContentSHA256Mismatch")
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(b))
	}
	if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/objects/") {
		s.Reads.Add(1)
		w = counted{w, &s.ReadBytes}
	}
	s.handler.ServeHTTP(w, r)
}

// counted counts the bytes of an answer.
type counted struct {
	http.ResponseWriter
	bytes *atomic.Int64
}

func (c counted) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.bytes.Add(int64(n))
	return n, err
}

// Fault has f see each request first. If it returns true it has answered. Nil ends the
// fault.
func (s *Server) Fault(f func(w http.ResponseWriter, r *http.Request) bool) {
	if f == nil {
		s.fault.Store(nil)
		return
	}
	s.fault.Store(&f)
}

// Refuse answers with an error of S3.
func Refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>%s</Code><Message>for the test</Message></Error>", code)
}

// Object returns the bytes of an object in the bucket.
func (s *Server) Object(t testing.TB, key string) []byte {
	t.Helper()
	o, err := s.backend.GetObject(Bucket, key, nil)
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	defer o.Contents.Close()
	b, err := io.ReadAll(o.Contents)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Replace gives an object in the bucket other bytes.
func (s *Server) Replace(t testing.TB, key string, b []byte) {
	t.Helper()
	o, err := s.backend.HeadObject(Bucket, key)
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	if _, err := s.backend.PutObject(Bucket, key, o.Metadata, bytes.NewReader(b), int64(len(b)), nil); err != nil {
		t.Fatal(err)
	}
}

// Keys returns the names in the bucket below a prefix.
func (s *Server) Keys(t testing.TB, prefix string) (keys []string) {
	t.Helper()
	list, err := s.backend.ListBucket(Bucket, &gofakes3.Prefix{HasPrefix: prefix != "", Prefix: prefix}, gofakes3.ListBucketPage{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range list.Contents {
		keys = append(keys, o.Key)
	}
	return keys
}
