package codec

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestFormsPage: the format page lists the forms, and the types that use each.
func TestFormsPage(t *testing.T) {
	page, err := os.ReadFile(formatPage)
	if err != nil {
		t.Fatal(err)
	}
	cell := func(used bool) string {
		if used {
			return " x"
		}
		return ""
	}
	for i, f := range forms {
		row := fmt.Sprintf("\n| %d | %s |%s |%s |%s |%s |\n", i, f.name, cell(f.words != nil), cell(f.floats != nil), cell(f.booleans != nil), cell(f.strings != nil))
		if !strings.Contains(string(page), row) {
			t.Errorf("%s lacks%s", formatPage, row)
		}
	}
}
