package redact

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"regexp"
)

var harmlessID = regexp.MustCompile(`^[0-9A-Za-z-]{1,64}$`)

// RequestID returns the client's request id if it is harmless in a log line, or a
// new one.
func RequestID(h http.Header) string {
	for _, name := range []string{"X-Request-Id", "Request-Id"} {
		if id := h.Get(name); id != "" && harmlessID.MatchString(id) {
			return id
		}
	}
	// The form is that of a random UUID. The id need not be secret.
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], rand.Uint64()&^0xf000|0x4000)
	binary.BigEndian.PutUint64(b[8:], rand.Uint64()&^(3<<62)|2<<62)
	id := hex.EncodeToString(b[:])
	return id[:8] + "-" + id[8:12] + "-" + id[12:16] + "-" + id[16:20] + "-" + id[20:]
}
