package otlp

import (
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// Result is what became of the data points of a request.
type Result struct {
	Points    int // data points of the request
	Rejected  int // those that were not stored, or not completely
	Exemplars int // exemplars of the request; those that can be stored are in Exemplars of Rows

	reasons []reason
	others  int // rejected data points with other reasons
}

// reason is why data points were rejected.
type reason struct {
	metric, text string // metric: the name of the first
	points       int
}

// maxReasons bounds the reasons that an answer has, and maxReason the bytes of each.
const (
	maxReasons = 8
	maxReason  = 512
)

// refuse counts a data point that was not stored.
func (r *Result) refuse(metric, why string) {
	r.Rejected++
	r.note(metric, why, 1)
}

// warn notes something that is not a data point and was not stored.
func (r *Result) warn(metric, why string) { r.note(metric, why, 0) }

func (r *Result) note(metric, why string, points int) {
	why = clip(why)
	for i := range r.reasons {
		if r.reasons[i].text == why {
			r.reasons[i].points += points
			return
		}
	}
	if len(r.reasons) == maxReasons {
		r.others += points
		return
	}
	r.reasons = append(r.reasons, reason{metric: clip(metric), text: why, points: points})
}

// clip returns a copy of a text that is short and valid.
func clip(s string) string {
	return strings.ToValidUTF8(strings.Clone(s[:min(len(s), maxReason)]), "\uFFFD")
}

// Lost counts data points that were translated and then not stored. rows is how many
// rows were not. A row is a sample; a histogram has several. Without rows why
// is about something else, such as metadata.
func (r *Result) Lost(rows int, why string) {
	if rows == 0 {
		r.note("", why, 0)
		return
	}
	points := min(rows, r.Points-r.Rejected)
	r.Rejected += points
	r.note("", fmt.Sprintf("%d samples: %s", rows, why), points)
}

// Message returns what was rejected and why, or "".
func (r *Result) Message() string {
	var b strings.Builder
	for i, x := range r.reasons {
		if i > 0 {
			b.WriteString("; ")
		}
		if x.metric != "" {
			fmt.Fprintf(&b, "metric %q: ", x.metric)
		}
		b.WriteString(x.text)
		if x.points > 1 {
			fmt.Fprintf(&b, " (%d data points)", x.points)
		}
	}
	if r.others > 0 {
		fmt.Fprintf(&b, "; other reasons (%d data points)", r.others)
	}
	return b.String()
}

// The media types of requests and answers.
const (
	MediaProtobuf = "application/x-protobuf"
	MediaJSON     = "application/json"
)

// Response returns an ExportMetricsServiceResponse.
func (r *Result) Response(media string) []byte {
	message := r.Message()
	if media == MediaJSON {
		type partial struct {
			Rejected int    `json:"rejectedDataPoints,string,omitempty"`
			Message  string `json:"errorMessage"`
		}
		var answer struct {
			Partial *partial `json:"partialSuccess,omitempty"`
		}
		if message != "" {
			answer.Partial = &partial{r.Rejected, message}
		}
		b, _ := json.Marshal(answer) // texts and numbers
		return b
	}
	if message == "" {
		return nil
	}
	partial := appendNumber(nil, 1, r.Rejected)
	return appendText(nil, 1, string(appendText(partial, 2, message)))
}

// The codes of a Status.
const (
	codeInvalidArgument  = 3
	codeNotFound         = 5
	codePermissionDenied = 7
	codeExhausted        = 8
	codeUnavailable      = 14
	codeUnauthenticated  = 16
)

// Status returns a google.rpc.Status for a status of HTTP.
func Status(media string, status int, message string) []byte {
	code, ok := map[int]int{
		401: codeUnauthenticated, 403: codePermissionDenied, 404: codeNotFound, 413: codeExhausted, 503: codeUnavailable,
	}[status]
	if !ok {
		code = codeInvalidArgument
	}
	message = strings.ToValidUTF8(message, "\uFFFD")
	if media == MediaJSON {
		b, _ := json.Marshal(struct { // texts and numbers
			Code    int    `json:"code"`
			Message string `json:"message"`
		}{code, message})
		return b
	}
	return appendText(appendNumber(nil, 1, code), 2, message)
}

func appendNumber(dst []byte, field protowire.Number, v int) []byte {
	if v == 0 {
		return dst
	}
	return protowire.AppendVarint(protowire.AppendTag(dst, field, protowire.VarintType), uint64(v))
}

func appendText(dst []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(dst, field, protowire.BytesType), s)
}
