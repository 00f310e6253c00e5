package meta

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"
)

// The example in the format page is made from the golden file.
func TestFormatPageExample(t *testing.T) {
	golden, err := os.ReadFile("testdata/catalog-v9.golden")
	if err != nil {
		t.Fatal(err)
	}
	const page, begin, end = "../docs/formats/meta.md", "<!-- example:begin -->\n", "<!-- example:end -->"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	have, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no example marks", page)
	}
	var b strings.Builder
	b.WriteString("```\n" + hex.Dump(golden[:headerLength]) + "```\n\n```json\n")
	base := soundCopy(golden, new(Data)).base
	payload := string(golden[headerLength:base])
	for len(payload) > 100 { // cut long lines after a comma
		i := 80 + strings.IndexByte(payload[80:]+",", ',')
		b.WriteString(payload[:min(i+1, len(payload))] + "\n")
		payload = payload[min(i+1, len(payload)):]
	}
	b.WriteString(payload + "\n```\n\n```\n" + hex.Dump(golden[base:]) + "```\n")
	if *update {
		if err := os.WriteFile(page, []byte(head+begin+b.String()+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if have != b.String() {
		t.Errorf("%s: the example is not that of the golden file; run with -update", page)
	}
}
