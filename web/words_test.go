package web

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/influxdata/influxql"
	"github.com/prometheus/prometheus/promql/parser"

	"tsdbd/model"
	"tsdbd/query/engine/function"
	"tsdbd/query/syntax"
)

var update = flag.Bool("update", false, "write the words of InfluxQL into the page's sources")

// TestWords holds the words that the editor colours and completes to the tables of the
// server. After -update the page has to be built: make ui.
func TestWords(t *testing.T) {
	const path = "ui/src/explore/words.ts"
	var text strings.Builder
	text.WriteString("// The words of InfluxQL and what the builder offers, from the tables of the server: go test ./web -update.\n")
	list := func(name string, words []string) {
		fmt.Fprintf(&text, "\nexport const %s = [\n", name)
		for _, word := range words {
			fmt.Fprintf(&text, "  %q,\n", word)
		}
		text.WriteString("];\n")
	}
	list("keywords", slices.Concat(syntax.Keywords(), []string{"fill", "time", "tz"}))
	list("functions", function.Names())
	text.WriteString(builderTable(t))
	if *update {
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != text.String() {
		t.Errorf("%s differs from the tables (%v): run go test ./web -update and make ui", path, err)
	}
}

// builderTable returns the functions that the builder offers: those that take one field, and
// at most one more argument.
func builderTable(t *testing.T) string {
	accepted := func(name, call string) bool {
		e, err := influxql.ParseExpr(call)
		if err != nil {
			t.Fatal(err)
		}
		return function.Functions[name].Check(&function.Checker{Call: func(*influxql.Call) error { return nil }}, e.(*influxql.Call)) == nil
	}
	var text strings.Builder
	text.WriteString(`
/** A function that the builder offers. */
export interface Offered {
  name: string;
  kind: "aggregate" | "selector" | "transformation" | "indicator";
  takes: string[]; // types of fields
  argument: "" | "number"; // what it needs after the field
  filled: boolean; // fill() applies to it
}

export const offered: Offered[] = [
`)
	for _, name := range function.Names() {
		f, kind := function.Functions[name], function.Kind(name)
		if kind == "math" || kind == "forecast" {
			continue
		}
		argument := ""
		switch {
		case accepted(name, name+"(v)"):
		case accepted(name, name+"(v, 5)"):
			argument = "number"
		default:
			continue
		}
		var takes []string
		for _, typ := range []model.FieldType{model.Float, model.Integer, model.Unsigned, model.String, model.Boolean} {
			if f.Accepts(typ) {
				takes = append(takes, strconv.Quote(typ.String()))
			}
		}
		fmt.Fprintf(&text, "  { name: %q, kind: %q, takes: [%s], argument: %q, filled: %t },\n", name, kind, strings.Join(takes, ", "), argument, f.Filled)
	}
	text.WriteString("];\n\n/** The functions of PromQL that take a range of samples and nothing else. */\nexport const overRanges = [\n")
	for _, name := range slices.Sorted(maps.Keys(parser.Functions)) {
		if f := parser.Functions[name]; !f.Experimental && slices.Equal(f.ArgTypes, []parser.ValueType{parser.ValueTypeMatrix}) {
			fmt.Fprintf(&text, "  %q,\n", name)
		}
	}
	text.WriteString("];\n")
	return text.String()
}
