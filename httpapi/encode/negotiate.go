package encode

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// The media types of answers.
const (
	MediaJSON    = "application/json"
	MediaCSV     = "application/csv"
	mediaTextCSV = "text/csv"
	MediaMsgpack = "application/x-msgpack"
	MediaLine    = "application/line-protocol"
)

// offers are the media types in the order in which a wildcard chooses them.
var offers = []string{MediaJSON, MediaCSV, mediaTextCSV, MediaMsgpack, MediaLine}

// Negotiate chooses the media type of an answer by the Accept headers: the
// entry with the highest q that matches an offer, the first of equals, JSON if
// none does.
func Negotiate(accept []string) string {
	type entry struct {
		media string
		q     float64
	}
	var entries []entry
	for _, line := range accept {
		for part := range strings.SplitSeq(line, ",") {
			media, params, _ := strings.Cut(part, ";")
			e := entry{media: strings.ToLower(strings.TrimSpace(media)), q: 1}
			for p := range strings.SplitSeq(params, ";") {
				if k, v, ok := strings.Cut(strings.TrimSpace(p), "="); ok && strings.EqualFold(k, "q") {
					if q, err := strconv.ParseFloat(v, 64); err == nil {
						e.q = q
					}
				}
			}
			entries = append(entries, e)
		}
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(b.q, a.q) })
	for _, e := range entries {
		prefix, wild := strings.CutSuffix(e.media, "*")
		for _, o := range offers {
			if e.media == o || e.media == "*/*" || (wild && strings.HasSuffix(prefix, "/") && strings.HasPrefix(o, prefix)) {
				return o
			}
		}
	}
	return MediaJSON
}

// AcceptsGzip reports whether the client takes gzip.
func AcceptsGzip(header []string) bool {
	for _, line := range header {
		for part := range strings.SplitSeq(line, ",") {
			coding, params, _ := strings.Cut(part, ";")
			if !strings.EqualFold(strings.TrimSpace(coding), "gzip") {
				continue
			}
			_, q, weighted := strings.Cut(params, "=")
			v, err := strconv.ParseFloat(strings.TrimSpace(q), 64)
			return !weighted || err != nil || v > 0
		}
	}
	return false
}
