package golden

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestDocsCount holds the numbers in docs/influxql.md to the files.
func TestDocsCount(t *testing.T) {
	b, err := os.ReadFile("../../../docs/influxql.md")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(b)), " ")
	cases, recorded := 0, map[string]bool{}
	for _, th := range Themes(t, nil) {
		cases += len(th.Cases)
		for _, c := range th.Cases {
			recorded[c.Name()] = true
		}
	}
	differences := Differences(t)
	for name := range differences {
		if !recorded[name] {
			t.Errorf("%s differs, but is not recorded", name)
		}
	}
	for _, want := range []string{
		fmt.Sprintf("%d,%03d requests and answers recorded", cases/1000, cases%1000),
		fmt.Sprintf("%d of them are answered otherwise on purpose", len(differences)),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("docs/influxql.md does not say %q", want)
		}
	}
}
