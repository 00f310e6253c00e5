package remote

import (
	"testing"
)

// FuzzReadRequest holds that no bytes make the reader of read requests panic.
func FuzzReadRequest(f *testing.F) {
	f.Add([]byte(build(nil).bytes(1, build(nil).number(1, 1000).number(2, 2000).bytes(3, build(nil).number(1, 2).bytes(2, []byte("job")).bytes(3, []byte("a|b"))))))
	f.Add([]byte{0x0a, 0x04, 0x08, 0x01, 0x10, 0x02})
	f.Add([]byte{0x0b, 0x0b, 0x0c})
	f.Fuzz(func(t *testing.T, b []byte) {
		req, err := ParseReadRequest(b)
		if err == nil && len(req.Queries) > len(b) {
			t.Errorf("%d queries of %d bytes", len(req.Queries), len(b))
		}
	})
}
