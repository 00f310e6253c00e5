package function

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tsdbd/query/expr"
)

// TestDocsFunctions: docs/influxql.md names every function, and no other.
func TestDocsFunctions(t *testing.T) {
	b, err := os.ReadFile("../../../docs/influxql.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(b), "## Functions")
	section, _, _ = strings.Cut(section, "\n## ")
	var named []string
	for _, row := range regexp.MustCompile(`(?m)^\| [^|]+ \| ([a-z0-9_, ]+) \|$`).FindAllStringSubmatch(section, -1) {
		if row[1] != "functions" { // the head of the table
			named = append(named, strings.Split(row[1], ", ")...)
		}
	}
	slices.Sort(named)
	if all := Names(); !slices.Equal(named, all) {
		t.Errorf("the document names\n%q\nthe tables have\n%q", named, all)
	}
}

// TestFunctionRows: a row says how its function runs, in one way. A selector may run over
// rows only if other columns of them are shown.
func TestFunctionRows(t *testing.T) {
	for name, f := range Functions {
		ways := 0
		for _, is := range []bool{f.Partial != nil, f.Rows != nil && !(f.Selector && f.Partial != nil), f.series != nil} {
			if is {
				ways++
			}
		}
		if f.Check == nil || ways != 1 {
			t.Errorf("%s: check is missing: %v, ways to run it: %d", name, f.Check == nil, ways)
		}
		if expr.MathArgs(name) > 0 {
			t.Errorf("%s is in both tables", name)
		}
	}
}

// TestFunctionsHaveOneHome: the name of a function stands in one file, that of
// its row. So adding one touches no other.
func TestFunctionsHaveOneHome(t *testing.T) {
	homes := map[string][]string{}
	var files []string
	for _, dir := range []string{".", "..", "../partial", "../../expr"} {
		list, err := filepath.Glob(dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, list...)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if name, err := strconv.Unquote(lit.Value); err == nil && !slices.Contains(homes[name], file) {
					homes[name] = append(homes[name], file)
				}
			}
			return true
		})
	}
	for _, name := range Names() {
		switch name {
		case "count", "distinct": // count(distinct(f))
		case "top", "bottom": // columns that carry tags
		case "sum", "min", "max", "first", "last", "increase", "percentile": // columns of downsamples, in partial.Kinds
		case "elapsed": // InfluxDB's name for holt_winters in an error
		default:
			if len(homes[name]) != 1 {
				t.Errorf("%s stands in %q", name, homes[name])
			}
		}
	}
}
