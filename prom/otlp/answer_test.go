package otlp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestAnswers holds the bytes of answers.
func TestAnswers(t *testing.T) {
	f := func(got []byte, want string) {
		t.Helper()
		if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	var r Result
	f(r.Response(MediaProtobuf), "")
	f(r.Response(MediaJSON), "{}")
	r.warn("m", "odd")
	f(r.Response(MediaProtobuf), "\x0a\x11\x12\x0fmetric \"m\": odd")
	f(r.Response(MediaJSON), `{"partialSuccess":{"errorMessage":"metric \"m\": odd"}}`)
	r.Points = 3
	r.Lost(5, "too old")
	f(r.Response(MediaProtobuf), "\x0a\x37\x08\x03\x12\x33metric \"m\": odd; 5 samples: too old (3 data points)")
	f(r.Response(MediaJSON), `{"partialSuccess":{"rejectedDataPoints":"3","errorMessage":"metric \"m\": odd; 5 samples: too old (3 data points)"}}`)
	f(Status(MediaProtobuf, 400, "bad"), "\x08\x03\x12\x03bad")
	f(Status(MediaJSON, 503, "full\xff"), `{"code":14,"message":"full`+"\uFFFD"+`"}`)
	f(Status(MediaJSON, 404, ""), `{"code":5,"message":""}`)

	r = Result{}
	for range 100 {
		r.refuse("\xff"+strings.Repeat("é", 1000), strings.Repeat("é", 1000)+fmt.Sprint(r.Rejected))
	}
	var answer struct {
		PartialSuccess struct{ RejectedDataPoints, ErrorMessage string }
	}
	if err := json.Unmarshal(r.Response(MediaJSON), &answer); err != nil || answer.PartialSuccess.RejectedDataPoints != "100" || len(answer.PartialSuccess.ErrorMessage) > 3000 {
		t.Errorf("%v %+v", err, answer)
	}
}
