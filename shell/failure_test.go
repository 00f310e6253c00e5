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
		want        string
	}{
		{"application/json", `{"results":[{"statement_id":0}]}`, ""},
		{"application/json", `{"error":"error parsing query"}`, "error parsing query"},
		{"application/json", "{\n    \"error\" : \"x\"\n}", "x"},
		{"application/json", `{"results":[{"statement_id":0},{"statement_id":1,"error":"no \"x\" \u003cthere\u003e"},{"statement_id":2,"error":"not executed"}]}`, `no "x" <there>`},
		{"application/json", `{"results":[{"statement_id":0,"series":[{"name":"m","tags":{"error":"none"},"columns":["time","error"],"values":[[0,"error"]]}]}]}`, ""},
		{"application/json", `{"results":[{"statement_id":0,"series":[{"name":"\"error\":","columns":["time"]}]}]}`, ""},
		{"application/json", `{"results":[{"statement_id":0,"series":[{"name":"a\\","columns":["}]"],"values":[["{"]]}],"error":"x"}]}`, "x"},
		{"application/csv", "error\ndatabase not found: x\n", "database not found: x"},
		{"application/csv", "name,tags,time,error\nm,,1,\"a\n\nerror\n\"\n", ""},
		{"application/csv", "", ""},
	} {
		for _, part := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.HalfReader} {
			var f failure
			if _, err := io.Copy(&f, part(struct{ io.Reader }{strings.NewReader(c.text)})); err != nil {
				t.Fatal(err)
			}
			if text, found := f.found(c.media); text != c.want || found != (c.want != "") {
				t.Errorf("%s: found %v, %q, want %q", c.text, found, text, c.want)
			}
		}
	}
}
