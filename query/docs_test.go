package query

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/influxdata/influxql"

	"tsdbd/model/scan/scantest"
)

// TestDocsFunctions: every function that docs/influxql.md names compiles, and
// it names all that the compiler knows.
func TestDocsFunctions(t *testing.T) {
	b, err := os.ReadFile("../docs/influxql.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(b), "## Functions")
	section, _, _ = strings.Cut(section, "\n## ")
	named := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| [^|]+ \| ([a-z0-9_, ]+) \|$`).FindAllStringSubmatch(section, -1) {
		for _, name := range strings.Split(row[1], ", ") {
			named[name] = true
		}
	}
	delete(named, "functions") // the head of the table
	if len(named) < 50 {
		t.Fatalf("only %d functions are named", len(named))
	}
	for name := range named {
		stmt, err := influxql.ParseStatement("SELECT " + name + "(v, 5, 5, 5, 5) FROM m")
		if err != nil {
			t.Fatal(err)
		}
		m := scantest.New()
		m.Create("d", "autogen")
		_, err = collectSelect(t.Context(), m, stmt.String(), SelectOptions{Database: "d", DefaultRP: defaultPolicy(m)})
		if err != nil && strings.Contains(err.Error(), "undefined function") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, file := range []string{"compile_call.go", "expr_math.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^\s*case ("[a-z0-9_]+"(?:,\s*"[a-z0-9_]+")*):`).FindAllStringSubmatch(string(source), -1) {
			for _, name := range regexp.MustCompile(`[a-z0-9_]+`).FindAllString(m[1], -1) {
				if !named[name] {
					t.Errorf("%s knows %s, the document does not", file, name)
				}
			}
		}
	}
}
