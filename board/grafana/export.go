package grafana

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tsdbd/board"
)

// schema is the version of dashboards that Export writes. Grafana from 10.3 on reads it, and later ones turn it into theirs.
const schema = 39

// The names for the data sources, which Grafana asks for when it imports the dashboard.
var sources = map[string]struct{ input, plugin, label string }{
	"influxql": {"DS_TSDBD_INFLUXQL", "influxdb", "InfluxDB"},
	"promql":   {"DS_TSDBD_PROMQL", "prometheus", "Prometheus"},
}

// members is an object of JSON that is written with sorted names.
type members = map[string]any

// Export returns the JSON of a dashboard of the board, and what of the board is left out or changed.
func Export(title string, doc board.Document) (raw []byte, notes []string, err error) {
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	var names []string
	for _, v := range doc.Variables {
		names = append(names, v.Name)
	}
	used := map[string]bool{}
	source := func(lang string) members {
		used[lang] = true
		return members{"type": sources[lang].plugin, "uid": "${" + sources[lang].input + "}"}
	}
	variables := []members{}
	for _, v := range doc.Variables {
		variables = append(variables, exportedVariable(v, names, source))
	}
	panels := []members{}
	for _, p := range doc.Panels {
		called := fmt.Sprintf("panel %q", p.Title)
		m := exportedPanel(p)
		if m == nil {
			note("%s is left out: its kind is %s", called, p.Kind)
			continue
		}
		targets := []members{}
		for _, q := range p.Queries {
			if strings.TrimSpace(q.Text) == "" || p.Kind == "text" {
				continue
			}
			if _, ok := sources[q.Lang]; !ok {
				note("%s: without a query in %s", called, q.Lang)
				continue
			}
			if q.DB != "" {
				note("%s: a query reads the database %s, Grafana's data source has its own", called, q.DB)
			}
			if q.RP != "" {
				note("%s: a query reads the retention policy %s, Grafana's data source has its own", called, q.RP)
			}
			targets = append(targets, exportedTarget(q, p.Kind, len(targets), names, source))
		}
		if len(targets) > 0 {
			m["targets"], m["datasource"] = targets, targets[0]["datasource"]
			if slices.ContainsFunc(targets, func(t members) bool {
				return t["datasource"].(members)["uid"] != targets[0]["datasource"].(members)["uid"]
			}) {
				m["datasource"] = members{"type": "datasource", "uid": "-- Mixed --"}
			}
		}
		panels = append(panels, m)
	}
	inputs, requires := []members{}, []members{{"type": "grafana", "id": "grafana", "name": "Grafana", "version": "10.3.0"}}
	for _, lang := range []string{"influxql", "promql"} {
		if s := sources[lang]; used[lang] {
			inputs = append(inputs, members{"name": s.input, "label": "tsdbd, as " + s.label, "description": "", "type": "datasource", "pluginId": s.plugin, "pluginName": s.label})
			requires = append(requires, members{"type": "datasource", "id": s.plugin, "name": s.label, "version": "1.0.0"})
		}
	}
	refresh := ""
	if doc.Refresh > 0 {
		refresh = fmt.Sprintf("%ds", doc.Refresh)
	}
	raw, err = json.MarshalIndent(members{
		"__inputs": inputs, "__requires": requires, "title": title, "schemaVersion": schema, "version": 1, "editable": true,
		"time": members{"from": exportedTime(doc.Range.From), "to": exportedTime(doc.Range.To)}, "refresh": refresh, "timezone": "browser",
		"templating": members{"list": variables}, "annotations": members{"list": []members{}}, "panels": panels, "tags": []string{}, "id": nil,
	}, "", "  ")
	return append(raw, '\n'), notes, err
}

var milliseconds = regexp.MustCompile(`^-?\d+$`)

// exportedTime returns an end of a range as Grafana reads it.
func exportedTime(s string) string {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && milliseconds.MatchString(s) {
		return time.UnixMilli(n).UTC().Format(time.RFC3339Nano)
	}
	if strings.HasPrefix(s, "now") {
		return strings.ReplaceAll(s, " ", "")
	}
	return s
}

func exportedVariable(v board.Variable, names []string, source func(string) members) members {
	value, shown := any(v.Value), any(v.Value)
	switch {
	case len(v.Value) == 0 && v.All:
		value, shown = []string{"$__all"}, []string{"All"}
	case len(v.Value) == 0:
		value, shown = "", ""
	case !v.Multi:
		value, shown = v.Value[0], v.Value[0]
	}
	m := members{"name": v.Name, "multi": v.Multi, "includeAll": v.All, "current": members{"selected": false, "text": shown, "value": value}, "hide": 0, "options": []members{}, "regex": ""}
	if v.All {
		m["allValue"] = ".*"
	}
	if strings.TrimSpace(v.Query) == "" {
		values := make([]string, len(v.Value))
		for i, value := range v.Value {
			values[i] = strings.ReplaceAll(value, ",", `\,`)
		}
		m["type"], m["query"] = "custom", strings.Join(values, ",")
		return m
	}
	m["type"], m["query"], m["refresh"], m["sort"], m["datasource"] = "query", exported(board.Query{Lang: v.Lang, Text: v.Query}, names), 2, 3, source(v.Lang)
	m["definition"] = m["query"]
	return m
}

// exportedPanel returns a panel without its targets, or nil for a kind that Grafana does not have.
func exportedPanel(p board.Panel) members {
	x, y := 2*p.Grid.X, scaled(p.Grid.Y, ourRow, theirRow)
	m := members{"id": p.ID, "title": p.Title, "gridPos": members{"x": x, "y": y, "w": 2 * p.Grid.W, "h": scaled(p.Grid.Y+p.Grid.H, ourRow, theirRow) - y}}
	defaults := members{"unit": exportedUnit(p.Options.Unit)}
	switch p.Kind {
	case "plot":
		custom := members{"drawStyle": "line", "lineWidth": 1, "showPoints": "never", "stacking": members{"mode": "none", "group": "A"}, "scaleDistribution": members{"type": "linear"}}
		switch p.Options.Style {
		case "points", "bars":
			custom["drawStyle"] = p.Options.Style
			if p.Options.Style == "bars" {
				custom["fillOpacity"] = 80
			}
		case "stacked":
			custom["stacking"], custom["fillOpacity"] = members{"mode": "normal", "group": "A"}, 40
		}
		if p.Options.Style == "points" {
			custom["showPoints"] = "always"
		}
		if p.Options.Scale == "log" {
			custom["scaleDistribution"] = members{"type": "log", "log": 10}
		}
		defaults["custom"] = custom
		for name, text := range map[string]string{"min": p.Options.Low, "max": p.Options.High} {
			if n, err := strconv.ParseFloat(text, 64); err == nil {
				defaults[name] = n
			}
		}
		m["type"], m["options"] = "timeseries", members{"legend": members{"displayMode": "table", "placement": "bottom", "showLegend": true, "calcs": []string{"lastNotNull", "min", "mean", "max"}}, "tooltip": members{"mode": "multi", "sort": "desc"}}
	case "number":
		by := p.Options.By
		if by == "last" {
			by = "lastNotNull"
		}
		m["type"], m["options"] = "stat", members{"reduceOptions": members{"calcs": []string{by}, "fields": "", "values": false}, "graphMode": "none", "colorMode": "none", "textMode": "auto"}
	case "table":
		m["type"], m["options"] = "table", members{"showHeader": true}
	case "text":
		if p.Text == "" && p.Grid.H == 1 && p.Grid.W == board.Columns {
			m["type"], m["collapsed"], m["panels"] = "row", false, []members{}
			m["gridPos"].(members)["h"] = 1 // that of all rows
			return m
		}
		m["type"], m["options"] = "text", members{"mode": "code", "content": p.Text, "code": members{"language": "plaintext", "showLineNumbers": false}}
		return m
	default:
		return nil
	}
	m["fieldConfig"] = members{"defaults": defaults, "overrides": []members{}}
	return m
}

func exportedTarget(q board.Query, kind string, n int, names []string, source func(string) members) members {
	t := members{"refId": refID(n), "datasource": source(q.Lang)}
	text := exported(q, names)
	if q.Lang == "promql" {
		t["expr"], t["editorMode"], t["legendFormat"], t["range"] = text, "code", "__auto", kind != "table"
		if kind == "table" {
			t["instant"], t["format"] = true, "table"
		}
		return t
	}
	t["query"], t["rawQuery"], t["resultFormat"] = text, true, "time_series"
	if kind == "table" {
		t["resultFormat"] = "table"
	}
	return t
}

// refID returns A to Z, then A1, B1 and so on.
func refID(n int) string {
	id := string(rune('A' + n%26))
	if n >= 26 {
		id += strconv.Itoa(n / 26)
	}
	return id
}
