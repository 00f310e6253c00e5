package coldcache_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tsdbd/internal/coldcache"
	"tsdbd/internal/object"
	"tsdbd/internal/object/objecttest"
	"tsdbd/internal/object/s3"
)

// TestBucket reads an object of a bucket while the server fails in turns, and while it has
// other bytes.
func TestBucket(t *testing.T) {
	server := objecttest.NewServer(t)
	store, err := s3.Open(s3.Options{Endpoint: server.URL, Bucket: objecttest.Bucket, Prefix: "cold", AccessKey: "k", SecretKey: "s", Patience: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.NewChaCha8([32]byte{1})
	want := make([]byte, 5<<20+99)
	_, _ = rng.Read(want)
	if err := store.Put(t.Context(), "objects/x", object.Content{Bytes: want}); err != nil {
		t.Fatal(err)
	}
	cache, err := coldcache.Open(coldcache.Options{Dir: t.TempDir(), Store: store, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cache.Close(); err != nil {
			t.Error(err)
		}
	}()
	o := cache.Object("objects/x", int64(len(want)))
	var n atomic.Int64
	server.Fault(func(w http.ResponseWriter, _ *http.Request) bool {
		switch n.Add(1) % 3 {
		case 0:
			return false
		case 1:
			objecttest.Refuse(w, http.StatusServiceUnavailable, "SlowDown")
			return true
		}
		panic(http.ErrAbortHandler)
	})
	p := make([]byte, 3<<20)
	if err := o.ReadBody(t.Context(), p, 1<<20+17); err != nil || !bytes.Equal(p, want[1<<20+17:][:len(p)]) {
		t.Errorf("reads while the server fails: %v", err)
	}
	if st := cache.Stats(); st.Errors == 0 || st.Gets <= st.Errors {
		t.Errorf("%+v", st)
	}
	server.Fault(nil)
	// The cache does not know what the bytes mean. Its caller does, and asks again.
	server.Replace(t, "cold/objects/x", make([]byte, len(want)))
	if err := o.ReadBody(t.Context(), p[:10], 0); err != nil || !bytes.Equal(p[:10], make([]byte, 10)) {
		t.Errorf("%v", err)
	}
	server.Replace(t, "cold/objects/x", want)
	if err := o.ReadBodyAgain(t.Context(), p[:10], 0); err != nil || !bytes.Equal(p[:10], want[:10]) {
		t.Errorf("%v", err)
	}
	server.Fault(func(w http.ResponseWriter, _ *http.Request) bool {
		objecttest.Refuse(w, http.StatusBadRequest, "ExpiredToken")
		return true
	})
	err = o.ReadBodyAgain(t.Context(), p[:10], 5<<20)
	if !errors.Is(err, coldcache.ErrUnreachable) || !strings.Contains(err.Error(), "objects/x") || !strings.Contains(err.Error(), "the credentials have expired") {
		t.Errorf("%v", err)
	}
}
