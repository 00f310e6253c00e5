package grafana

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"tsdbd/board"
)

var update = flag.Bool("update", false, "write the golden files")

// compare holds what v is as JSON against a golden file.
func compare(t *testing.T, path string, v any) {
	t.Helper()
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || string(want) != b.String() {
		t.Errorf("%s (%v): got\n%s", path, err, b.String())
	}
}

type converted struct {
	Notes []string `json:"notes"`
	Name  string   `json:"name"`
	Board any      `json:"board"`
}

// TestImport holds what becomes of dashboards of three versions, and of the one that the package ships.
// Then it exports the board, and imports it again: that loses nothing.
func TestImport(t *testing.T) {
	files, err := filepath.Glob("testdata/*.in.json")
	if err != nil || len(files) != 3 {
		t.Fatal(files, err)
	}
	for _, file := range append(files, "../../packaging/grafana/tsdbd.json") {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !Is(raw) {
			t.Errorf("%s is no dashboard", file)
		}
		title, doc, notes, err := Import(raw)
		if err != nil {
			t.Fatal(file, err)
		}
		golden := filepath.Join("testdata", strings.TrimSuffix(strings.TrimSuffix(filepath.Base(file), ".json"), ".in"))
		compare(t, golden+".board.json", converted{notes, title, doc})
		content, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		if Is(content) {
			t.Errorf("the board of %s is taken for a dashboard", file)
		}
		parsed, err := board.Parse(content)
		if err != nil || !reflect.DeepEqual(parsed, doc) {
			t.Errorf("%s: the board is read in another way (%v)", file, err)
		}
		out, notes, err := Export(title, doc)
		if err != nil || len(notes) > 0 {
			t.Errorf("%s: %v %v", file, err, notes)
		}
		title2, again, notes, err := Import(out)
		if err != nil || title2 != title || !reflect.DeepEqual(again, doc) {
			got, _ := json.Marshal(again)
			t.Errorf("%s: %v, a way out and back makes\n%s\nof\n%s", file, err, got, content)
		}
		for _, n := range notes {
			if !strings.Contains(n, "the form of its text") && !strings.Contains(n, "$__interval_ms") {
				t.Errorf("%s: on the way back: %s", file, n)
			}
		}
	}
}

// TestExport holds the dashboard of a board with all that a board can have.
func TestExport(t *testing.T) {
	raw, err := os.ReadFile("testdata/board.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := board.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	out, notes, err := Export("All", doc)
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "testdata/board.out.json", converted{notes, "All", json.RawMessage(out)})
	// What Grafana's import asks for: a data source for each name, once.
	var d struct {
		Inputs []struct{ Name, Type, PluginID string } `json:"__inputs"`
	}
	if err := json.Unmarshal(out, &d); err != nil || len(d.Inputs) != 2 {
		t.Fatalf("%v, inputs %v", err, d.Inputs)
	}
	for _, in := range d.Inputs {
		if in.Type != "datasource" || !strings.Contains(string(out), `"uid": "${`+in.Name+`}"`) {
			t.Errorf("the input %v stands nowhere", in)
		}
	}
}

// TestOthers refuses what is no dashboard that can be read, and never fails on strange values.
func TestOthers(t *testing.T) {
	for _, raw := range []string{"", "[]", "1", `{"apiVersion":"dashboard.grafana.app/v2beta1","spec":{"elements":{}}}`} {
		if _, _, _, err := Import([]byte(raw)); err == nil {
			t.Errorf("%s is imported", raw)
		}
	}
	for _, raw := range []string{"{}", "null", `{"panels":7,"rows":[1,{"panels":[{"span":"x","type":"graph","targets":[[],{"expr":{}}]}]}],"templating":{"list":[{},{"name":"a","type":"query","query":[]}]},"time":3,"refresh":{}}`} {
		if _, doc, _, err := Import([]byte(raw)); err != nil || doc.Version != 1 {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

// FuzzImport: what Import makes of any JSON is a board, and Export takes it.
func FuzzImport(f *testing.F) {
	for _, file := range []string{"hosts", "node", "old"} {
		raw, err := os.ReadFile("testdata/" + file + ".in.json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		title, doc, _, err := Import(raw)
		if err != nil {
			return
		}
		content, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := board.Check(content); err != nil && len(content) < 200_000 {
			t.Fatal(err)
		}
		if _, _, err := Export(title, doc); err != nil {
			t.Fatal(err)
		}
	})
}
