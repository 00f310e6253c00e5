package golden

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Judge compares the documents of an answer with those recorded, or with ours
// where d is a difference, and returns what is wrong.
func (c *Case) Judge(d *Difference, got []any) []string {
	recorded := func(ties, more bool) []string {
		if c.Lines != nil {
			return c.Diff(c.Lines, got, ties)
		}
		var first []string
		for i, body := range append([]any{c.Body}, c.Also...) {
			var docs []any
			if body != nil {
				docs = []any{body}
			}
			have := got
			if more {
				have = cutRows(docs, got)
			}
			bad := c.Diff(docs, have, ties)
			if len(bad) == 0 {
				return nil
			}
			if i == 0 {
				first = bad
			}
		}
		return first
	}
	if d == nil {
		return recorded(false, false)
	}
	if len(recorded(false, false)) == 0 {
		return []string{"no longer differs: take it out of differences.json"}
	}
	switch {
	case d.Lines != nil:
		return c.Diff(d.Lines, got, false)
	case d.Body != nil:
		return c.Diff([]any{d.Body}, got, false)
	case d.Ties, d.More:
		return recorded(d.Ties, d.More)
	}
	return nil // our answer may be any other
}

// cutRows returns documents whose tables end with the row with which those of want
// end.
func cutRows(want, got []any) []any {
	var out []any
	for i := range got {
		text, err := json.Marshal(got[i])
		var doc any
		if err != nil || Decode(text, &doc) != nil {
			return got
		}
		if i < len(want) {
			theirs := tables(want[i])
			for k, table := range tables(doc) {
				rows, _ := table["values"].([]any)
				if k < len(theirs) {
					recorded, _ := theirs[k]["values"].([]any)
					table["values"] = rows[:min(len(rows), len(recorded))]
				}
			}
		}
		out = append(out, doc)
	}
	return out
}

// tables returns the series of all results of a document.
func tables(doc any) (list []map[string]any) {
	root, _ := doc.(map[string]any)
	results, _ := root["results"].([]any)
	for _, r := range results {
		res, _ := r.(map[string]any)
		series, _ := res["series"].([]any)
		for _, s := range series {
			if table, ok := s.(map[string]any); ok {
				list = append(list, table)
			}
		}
	}
	return list
}

// Diff compares two lists of documents. With ties, rows of equal time may stand
// in any order.
func (c *Case) Diff(want, got []any, ties bool) []string {
	if len(want) != len(got) {
		return []string{fmt.Sprintf("%d documents, want %d", len(got), len(want))}
	}
	var bad []string
	for i := range want {
		w, g := c.canon(want[i], ties), c.canon(got[i], ties)
		bad = diff(bad, "", w, g, c.Tolerance)
	}
	return bad
}

// canon returns a copy of a document with what does not count left out.
func (c *Case) canon(doc any, ties bool) any {
	text, err := json.Marshal(doc)
	if err != nil {
		return err.Error()
	}
	var v any
	if err := Decode(text, &v); err != nil {
		return err.Error()
	}
	v = c.mask(v)
	root, _ := v.(map[string]any)
	results, _ := root["results"].([]any)
	for _, r := range results {
		res, _ := r.(map[string]any)
		series, _ := res["series"].([]any)
		var kept []any
		for _, s := range series {
			if table := c.table(s, ties); table != nil && !(c.Shape && slices.ContainsFunc(kept, func(k any) bool { return reflect.DeepEqual(k, any(table)) })) {
				kept = append(kept, table)
			}
		}
		if c.Unordered || c.Shape {
			sort.SliceStable(kept, func(i, j int) bool { return show(kept[i]) < show(kept[j]) })
		}
		if kept == nil {
			delete(res, "series")
		} else {
			res["series"] = kept
		}
	}
	return v
}

func (c *Case) table(s any, ties bool) map[string]any {
	table, _ := s.(map[string]any)
	name, _ := table["name"].(string)
	if !strings.HasPrefix(name, c.OnlySeries) {
		return nil
	}
	columns, _ := table["columns"].([]any)
	rows, _ := table["values"].([]any)
	if c.Shape {
		return map[string]any{"name": name, "columns": columns}
	}
	if c.OnlyRows != "" {
		rows = slices.DeleteFunc(rows, func(row any) bool {
			cells, _ := row.([]any)
			return len(cells) == 0 || !strings.HasPrefix(fmt.Sprint(cells[0]), c.OnlyRows)
		})
		table["values"] = rows
	}
	for i, col := range columns {
		if text, _ := col.(string); slices.Contains(c.Mask, text) {
			for _, row := range rows {
				if cells, _ := row.([]any); i < len(cells) {
					cells[i] = "*"
				}
			}
		}
	}
	if c.Unordered || ties {
		first := func(row any) string {
			if cells, _ := row.([]any); len(cells) > 0 {
				return show(cells[0])
			}
			return ""
		}
		for lo := 0; lo < len(rows); {
			hi := lo + 1
			for hi < len(rows) && (c.Unordered || first(rows[hi]) == first(rows[lo])) {
				hi++
			}
			part := rows[lo:hi]
			sort.SliceStable(part, func(i, j int) bool { return show(part[i]) < show(part[j]) })
			lo = hi
		}
	}
	return table
}

// mask does the case's replacements in every string of v.
func (c *Case) mask(v any) any {
	switch v := v.(type) {
	case string:
		for _, m := range c.MaskRE {
			v = regexp.MustCompile(m[0]).ReplaceAllString(v, m[1])
		}
		return v
	case []any:
		for i := range v {
			v[i] = c.mask(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = c.mask(v[k])
		}
	}
	return v
}

func show(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func clip(v any) string {
	if s := show(v); len(s) <= 700 {
		return s
	} else {
		return s[:700] + "…"
	}
}

func diff(bad []string, path string, want, got any, tolerance float64) []string {
	report := func() []string {
		return append(bad, fmt.Sprintf("%s: want %s got %s", path, clip(want), clip(got)))
	}
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return report()
		}
		keys := map[string]bool{}
		for k := range w {
			keys[k] = true
		}
		for k := range g {
			keys[k] = true
		}
		for k := range keys {
			_, a := w[k]
			_, b := g[k]
			if a != b {
				bad = append(bad, fmt.Sprintf("%s.%s: want %s got %s", path, k, clip(w[k]), clip(g[k])))
			} else {
				bad = diff(bad, path+"."+k, w[k], g[k], tolerance)
			}
		}
		return bad
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return report()
		}
		for i := range w {
			bad = diff(bad, fmt.Sprintf("%s[%d]", path, i), w[i], g[i], tolerance)
		}
		return bad
	case json.Number:
		g, ok := got.(json.Number)
		if !ok || !SameNumber(string(w), string(g), tolerance) {
			return report()
		}
		return bad
	}
	if !reflect.DeepEqual(want, got) {
		return report()
	}
	return bad
}

// SameNumber compares the texts of numbers: integers exactly unless there is a
// tolerance, others within it, by default a relative 1e-12.
func SameNumber(w, g string, tolerance float64) bool {
	if w == g {
		return true
	}
	wi, wok := new(big.Int).SetString(w, 10)
	gi, gok := new(big.Int).SetString(g, 10)
	if wok && gok && tolerance == 0 {
		return wi.Cmp(gi) == 0
	}
	wf, err1 := strconv.ParseFloat(w, 64)
	gf, err2 := strconv.ParseFloat(g, 64)
	if err1 != nil || err2 != nil {
		return false
	}
	if tolerance == 0 {
		tolerance = 1e-12
	}
	return wf == gf || math.Abs(wf-gf) <= tolerance*math.Max(math.Abs(wf), math.Abs(gf))
}
