package httpapi

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"sync"

	"github.com/klauspost/compress/gzip"

	"tsdbd/httpapi/encode"
	"tsdbd/httpapi/stall"
)

// response is the http.ResponseWriter of handlers. It keeps the status and the
// number of bytes, and compresses the body of a 200 if the route and the client
// allow that.
type response struct {
	http.ResponseWriter
	status   int
	bytes    int64 // sent, after compression
	compress bool  // the body of a 200 may be compressed
	gz       *gzip.Writer
	client   stall.Client
	// stamp adds what a node of a cluster says with each answer; see Cluster.Stamp.
	stamp  func(http.Header)
	leader http.Header // the same, of the leader that stored what this node was sent
}

var gzipWriters = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed) // the level is valid
	return w
}}

// WriteHeader sends the status once.
func (w *response) WriteHeader(status int) {
	if w.status != 0 {
		return
	}
	w.status = status
	if w.stamp != nil {
		w.stamp(w.Header())
		maps.Copy(w.Header(), w.leader)
	}
	if w.compress {
		w.Header().Add("Vary", "Accept-Encoding")
		if status == http.StatusOK {
			w.Header().Set("Content-Encoding", "gzip")
			w.gz = gzipWriters.Get().(*gzip.Writer)
			w.gz.Reset(rawWriter{w})
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.gz != nil {
		return w.gz.Write(b)
	}
	return rawWriter{w}.Write(b)
}

// rawWriter writes to the connection without compression.
type rawWriter struct{ w *response }

// Write writes b to the connection in pieces. The client must read each piece in
// time, see stall.Client.
func (r rawWriter) Write(b []byte) (total int, err error) {
	c := http.NewResponseController(r.w.ResponseWriter)
	for first := true; err == nil && (first || len(b) > 0); first = false {
		begin := r.w.client.Begin(c)
		n, failed := r.w.ResponseWriter.Write(b[:min(len(b), stall.WriteBytes)])
		r.w.client.End(begin, n)
		r.w.bytes += int64(n)
		total, b, err = total+n, b[n:], failed
	}
	return total, err
}

// Flush sends what is buffered to the client.
func (w *response) Flush() {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.gz != nil {
		_ = w.gz.Flush() // the next write fails if the connection is broken
	}
	c := http.NewResponseController(w.ResponseWriter)
	begin := w.client.Begin(c)
	_ = c.Flush()
	w.client.End(begin, 0)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// close completes the compressed body.
func (w *response) close() {
	if w.gz == nil {
		return
	}
	_ = w.gz.Close() // as in Flush
	w.release()
}

// release returns the compressor to the pool. The body stays incomplete.
func (w *response) release() {
	if w.gz != nil {
		gzipWriters.Put(w.gz)
		w.gz = nil
	}
}

// writeJSON answers with v as a JSON document.
func writeJSON(w *response, status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", encode.MediaJSON)
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // the client is gone if this fails
	return nil
}
