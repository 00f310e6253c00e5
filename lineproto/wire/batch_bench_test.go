package wire_test

import (
	"fmt"
	"strings"
	"testing"

	"tsdbd/lineproto"
	"tsdbd/lineproto/wire"
	"tsdbd/model/point"
)

// BenchmarkEncode writes what subscribers get, for rows of four kinds.
func BenchmarkEncode(b *testing.B) {
	for _, c := range []struct{ name, fields string }{
		{"floats", "a=%[1]d.25,b=0.1234567890123,c=1e21,d=17,e=99.5"},
		{"integers", "a=%[1]di,b=0i,c=-5i,d=123456789i,e=9223372036854775807i"},
		{"strings", `a="state %[1]d",b="",c="a \"quoted\" text of some length, as logs have it",d="ok"`},
		{"newlines", `a="line %[1]d` + "\n" + `second line of a text of some length"`},
	} {
		b.Run(c.name, func(b *testing.B) {
			var lines strings.Builder
			for i := range 1000 {
				fmt.Fprintf(&lines, "cpu,host=host%d,region=eu-central-1,os=Ubuntu\\ 15.10 "+c.fields+" %[1]d\n", i)
			}
			var p lineproto.Parser
			var batch point.Batch
			if _, err := p.Parse(&batch, point.NewTable(1), []byte(lines.String()), lineproto.Options{}); err != nil {
				b.Fatal(err)
			}
			var out []byte
			b.SetBytes(int64(lines.Len()))
			for b.Loop() {
				var e wire.Encoder
				out = out[:0]
				for i := range batch.Rows {
					out = e.AppendRow(out, &batch, &batch.Rows[i])
				}
			}
		})
	}
}
