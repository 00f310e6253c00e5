package shell

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestFailure: the error of an answer is found wherever the parts of the answer end, and
// a name or a value that looks like one is none.
func TestFailure(t *testing.T) {
	for _, c := range []struct {
		media, text string
		want        bool
	}{
		{"application/json", `{"results":[{"statement_id":0}]}`, false},
		{"application/json", `{"error":"error parsing query"}`, true},
		{"application/json", "{\n    \"error\" : \"x\"\n}", true},
		{"application/json", `{"results":[{"statement_id":0},{"statement_id":1,"error":"database not found: x"}]}`, true},
		{"application/json", `{"results":[{"statement_id":0,"series":[{"name":"m","tags":{"error":"none"},"columns":["time","error"],"values":[[0,"error"]]}]}]}`, false},
		{"application/json", `{"results":[{"statement_id":0,"series":[{"name":"\"error\":","columns":["time"]}]}]}`, false},
		{"application/json", `{"results":[{"statement_id":0,"series":[{"name":"a\\","columns":["}]"],"values":[["{"]]}],"error":"x"}]}`, true},
		{"application/csv", "error\ndatabase not found: x\n", true},
		{"application/csv", "name,tags,time,error\nm,,1,\"a\n\nerror\n\"\n", false},
		{"application/csv", "", false},
	} {
		for _, part := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.HalfReader} {
			var f failure
			if _, err := io.Copy(&f, part(struct{ io.Reader }{strings.NewReader(c.text)})); err != nil {
				t.Fatal(err)
			}
			if f.found(c.media) != c.want {
				t.Errorf("%s: found %v", c.text, !c.want)
			}
		}
	}
}
