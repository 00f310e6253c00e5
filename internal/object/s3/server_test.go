package s3

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"math/rand/v2"
	"testing"

	"tsdbd/internal/object"
	"tsdbd/internal/object/objecttest"
)

var (
	serverEndpoint = flag.String("s3-endpoint", "", "URL of a server with the API of S3, for TestServer")
	serverBucket   = flag.String("s3-bucket", "", "an empty bucket of it")
	serverKey      = flag.String("s3-key", "", "access key and secret key, which are the same")
)

// TestServer holds a real server against the interface, with objects in parts of the least size
// that S3 takes as well.
func TestServer(t *testing.T) {
	if *serverEndpoint == "" {
		t.Skip("-s3-endpoint names no server")
	}
	at := func(prefix string) *Store {
		s, err := Open(Options{
			Endpoint: *serverEndpoint, Bucket: *serverBucket, Prefix: prefix, PathStyle: true, AccessKey: *serverKey, SecretKey: *serverKey, PartBytes: 5 << 20,
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	objecttest.Contract(t, at("contract"), t.TempDir())
	s := at("parts")
	want := make([]byte, 12<<20)
	for i := range want {
		want[i] = byte(rand.Uint32())
	}
	hash := sha256.Sum256(want)
	sum := hex.EncodeToString(hash[:])
	if err := s.Put(t.Context(), "large", object.Content{Bytes: want, SHA256: sum}); err != nil {
		t.Fatal(err)
	}
	if got, err := object.Read(t.Context(), s, "large", 1<<30); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes in parts, %v", len(got), err)
	}
	if st, err := s.Stat(t.Context(), "large"); err != nil || st.SHA256 != sum || st.Size != int64(len(want)) {
		t.Errorf("%+v, %v", st, err)
	}
	if err := s.Put(t.Context(), "large", object.Content{Bytes: want}); !errors.Is(err, object.ErrExists) {
		t.Errorf("second put: %v", err)
	}
	if list, err := s.List(t.Context(), ""); err != nil || len(list) != 1 {
		t.Errorf("list %v, %v", list, err)
	}
}
