package tsi

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var exampleRegex = regexp.MustCompile(`(?s)<!-- example (\S+) -->\n.*?<!-- end -->`)

// TestDocsExamples keeps the hex examples of the format pages equal to the
// golden files; -update writes them.
func TestDocsExamples(t *testing.T) {
	for _, page := range []string{"series.md", "tsi.md"} {
		file := filepath.Join("..", "docs", "formats", page)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		got := exampleRegex.ReplaceAllStringFunc(string(text), func(m string) string {
			found++
			name := exampleRegex.FindStringSubmatch(m)[1]
			b, err := os.ReadFile(filepath.Join("testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprintf("<!-- example %s -->\n```\n%s```\n<!-- end -->", name, dump(b))
		})
		if found == 0 {
			t.Fatalf("%s has no example", page)
		}
		if got == string(text) {
			continue
		}
		if !*update {
			t.Fatalf("%s: examples differ from the golden files; run with -update", page)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// dump is hex.Dump with runs of equal lines left out.
func dump(b []byte) string {
	var out strings.Builder
	previous, skipping := "", false
	for _, line := range strings.SplitAfter(hex.Dump(b), "\n") {
		if len(line) > 10 && line[10:] == previous {
			if !skipping {
				out.WriteString("*\n")
			}
			skipping = true
			continue
		}
		skipping = false
		if len(line) > 10 {
			previous = line[10:]
		}
		out.WriteString(line)
	}
	return out.String()
}
