package remote

import (
	"fmt"
	"mime"
	"strings"
)

// MediaWrite and MediaWrite2 are the Content-Types of remote write 1.0 and 2.0.
const (
	MediaWrite  = "application/x-protobuf;proto=prometheus.WriteRequest"
	MediaWrite2 = "application/x-protobuf;proto=io.prometheus.write.v2.Request"
)

// Negotiate reports whether a body with these headers is a request of remote write
// 2.0, or of 1.0. An error says that it is neither, or that its compression is not
// snappy's block format. Clients of 1.0 may leave both headers out.
func Negotiate(contentType, contentEncoding string) (second bool, err error) {
	if contentEncoding = strings.TrimSpace(contentEncoding); contentEncoding != "" && !strings.EqualFold(contentEncoding, "snappy") {
		return false, fmt.Errorf("Content-Encoding %q is not supported, send snappy", contentEncoding)
	}
	if strings.TrimSpace(contentType) == "" {
		return false, nil
	}
	media, params, err := mime.ParseMediaType(contentType)
	if err == nil && strings.EqualFold(media, "application/x-protobuf") {
		switch params["proto"] {
		case "", "prometheus.WriteRequest":
			return false, nil
		case "io.prometheus.write.v2.Request":
			return true, nil
		}
	}
	return false, fmt.Errorf("Content-Type %q is not supported, send %s or %s", contentType, MediaWrite, MediaWrite2)
}
