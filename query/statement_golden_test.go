package query

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/influxdata/influxql"
)

// goldenTheme is a file of answers recorded from InfluxDB 1.12.
type goldenTheme struct {
	Theme string
	Setup []struct {
		Statement string
		Write     *goldenWrite
	}
	Cases []goldenCase
}

type goldenWrite struct{ DB, RP, Precision, Lines string }

type goldenCase struct {
	ID, Q      string
	Method     string
	Params     map[string]string
	Write      *goldenWrite
	Status     int
	Body       any
	Also       []any
	Mask       []string
	MaskRE     [][2]string `json:"mask_re"`
	OnlySeries string      `json:"only_series"`
	OnlyRows   string      `json:"only_rows"`
	Shape      bool
}

func TestGoldenStatements(t *testing.T) {
	files, err := filepath.Glob("testdata/golden/statements/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		mustOK(t, err)
		var theme goldenTheme
		if err := json.Unmarshal(b, &theme); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Run(theme.Theme, func(t *testing.T) { runGolden(t, &theme) })
	}
}

func runGolden(t *testing.T, theme *goldenTheme) {
	store := newFakeStore()
	e := New(Options{Storage: store, Admin: store})
	for _, step := range theme.Setup {
		if step.Write != nil {
			store.write(t, step.Write.DB, step.Write.RP, step.Write.Precision, step.Write.Lines)
		} else if got := answer(e, &goldenCase{Q: step.Statement}); strings.Contains(got, "error") {
			t.Fatalf("%s: %s", step.Statement, got)
		}
	}
	for i := range theme.Cases {
		c := &theme.Cases[i]
		if c.Write != nil {
			store.write(t, c.Write.DB, c.Write.RP, c.Write.Precision, c.Write.Lines)
			continue
		}
		got := answer(e, c)
		var have any
		mustOK(t, json.Unmarshal([]byte(got), &have))
		have = relevant(c, have)
		var wants []any
		for _, want := range append([]any{c.Body}, c.Also...) {
			wants = append(wants, relevant(c, want))
		}
		if !slices.ContainsFunc(wants, func(want any) bool { return reflect.DeepEqual(have, want) }) {
			want, _ := json.Marshal(wants[0])
			mine, _ := json.Marshal(have)
			t.Errorf("%s %s\n got %s\nwant %s", c.ID, c.Q, mine, want)
		}
	}
	if store.views != 0 {
		t.Errorf("%d views were not released", store.views)
	}
}

// answer runs a request and renders it as the HTTP API would.
func answer(e *Executor, c *goldenCase) string {
	render := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			return err.Error()
		}
		return string(b)
	}
	p := influxql.NewParser(strings.NewReader(strings.TrimSpace(c.Q)))
	if text := c.Params["params"]; text != "" {
		params := map[string]any{}
		if err := json.Unmarshal([]byte(text), &params); err != nil {
			return err.Error()
		}
		p.SetParams(params)
	}
	q, err := p.ParseQuery()
	if err != nil {
		return render(map[string]string{"error": "error parsing query: " + err.Error()})
	}
	results := []any{}
	opt := ExecuteOptions{Database: c.Params["db"], RetentionPolicy: c.Params["rp"], ReadOnly: c.Method == "GET"}
	err = e.Execute(context.Background(), q, opt, func(r *Result) error {
		results = append(results, jsonResult(r))
		return nil
	})
	if err != nil {
		return err.Error()
	}
	return render(map[string]any{"results": results})
}

func jsonResult(r *Result) any {
	out := map[string]any{"statement_id": r.StatementID}
	if r.Err != nil {
		out["error"] = r.Err.Error()
	}
	var messages []any
	for _, m := range r.Messages {
		messages = append(messages, map[string]any{"level": m.Level, "text": m.Text})
	}
	if messages != nil {
		out["messages"] = messages
	}
	var series []any
	for _, s := range r.Series {
		table := map[string]any{"columns": s.Columns}
		if s.Name != "" {
			table["name"] = s.Name
		}
		if s.Tags != nil {
			tags := map[string]string{}
			for _, tag := range s.Tags {
				tags[tag.Key] = tag.Value
			}
			table["tags"] = tags
		}
		var rows []any
		for i := range s.Rows {
			var row []any
			for c := range s.Values {
				row = append(row, fakeCell(&s.Values[c], i))
			}
			rows = append(rows, row)
		}
		if rows != nil {
			table["values"] = rows
		}
		series = append(series, table)
	}
	if series != nil {
		out["series"] = series
	}
	return out
}

// relevant leaves of an answer what a case compares.
func relevant(c *goldenCase, body any) any {
	root, ok := body.(map[string]any)
	if !ok {
		return body
	}
	results, _ := root["results"].([]any)
	for _, r := range results {
		result := r.(map[string]any)
		if text, ok := result["error"].(string); ok {
			for _, m := range c.MaskRE {
				text = regexp.MustCompile(m[0]).ReplaceAllString(text, m[1])
			}
			result["error"] = text
		}
		var kept []any
		series, _ := result["series"].([]any)
		for _, s := range series {
			table := s.(map[string]any)
			if name, _ := table["name"].(string); c.OnlySeries != "" && !strings.HasPrefix(name, c.OnlySeries) {
				continue
			}
			dropWriteLimits(table)
			if table["name"] == "" {
				delete(table, "name")
			}
			columns, _ := table["columns"].([]any)
			rows, _ := table["values"].([]any)
			var keptRows []any
			for _, row := range rows {
				cells := row.([]any)
				if c.OnlyRows != "" && !strings.HasPrefix(fmt.Sprint(cells[0]), c.OnlyRows) {
					continue
				}
				for i, name := range columns {
					if slices.Contains(c.Mask, name.(string)) {
						cells[i] = "*"
					}
				}
				keptRows = append(keptRows, cells)
			}
			delete(table, "values")
			if keptRows != nil && !c.Shape {
				table["values"] = keptRows
			}
			if c.Shape { // each shape of table once
				delete(table, "tags")
				if slices.ContainsFunc(kept, func(have any) bool { return reflect.DeepEqual(have, any(table)) }) {
					continue
				}
			}
			kept = append(kept, table)
		}
		if series != nil {
			result["series"] = kept
		}
	}
	return body
}

// dropWriteLimits takes the columns of write limits out of a recorded SHOW
// RETENTION POLICIES where no policy has any: we show them only then.
func dropWriteLimits(table map[string]any) {
	columns, _ := table["columns"].([]any)
	rows, _ := table["values"].([]any)
	if len(columns) != 7 || columns[4] != "futureWriteLimit" {
		return
	}
	for _, row := range rows {
		if cells := row.([]any); cells[4] != "0s" || cells[5] != "0s" {
			return
		}
	}
	table["columns"] = slices.Delete(columns, 4, 6)
	for i, row := range rows {
		rows[i] = slices.Delete(row.([]any), 4, 6)
	}
}
