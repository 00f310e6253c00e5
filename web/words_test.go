package web

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"tsdbd/query/engine/function"
	"tsdbd/query/syntax"
)

var update = flag.Bool("update", false, "write the words of InfluxQL into the page's sources")

// TestWords holds the words that the editor colours and completes to the tables of the
// server. After -update the page has to be built: make ui.
func TestWords(t *testing.T) {
	const path = "ui/src/explore/words.ts"
	var text strings.Builder
	text.WriteString("// The words of InfluxQL, from the tables of the server: go test ./web -update.\n")
	list := func(name string, words []string) {
		fmt.Fprintf(&text, "\nexport const %s = [\n", name)
		for _, word := range words {
			fmt.Fprintf(&text, "  %q,\n", word)
		}
		text.WriteString("];\n")
	}
	list("keywords", slices.Concat(syntax.Keywords(), []string{"fill", "time", "tz"}))
	list("functions", function.Names())
	if *update {
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != text.String() {
		t.Errorf("%s differs from the tables (%v): run go test ./web -update and make ui", path, err)
	}
}
