package grafana

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tsdbd/board"
)

// What dashboards hold that a board leaves out without a word: the book-keeping of Grafana, and looks.
const (
	dashboardLooks = "__inputs __requires __elements annotations description editable fiscalYearStartMonth gnetId graphTooltip hideControls id iteration live liveNow panels preload refresh revision rows schemaVersion sharedCrosshair style tags templating time timepicker title uid version weekStart"
	panelLooks     = "aliasColors bars cacheTimeout collapse collapsed colorBackground colorPostfix colorPrefix colorValue colors columns content dashLength dashes datasource decimals editable error fieldConfig fill fillGradient fontSize format gauge grid gridPos height hiddenSeries id legend lines linewidth mode nullPointMode nullText options pageSize panels percentage pluginVersion pointradius points postfix postfixFontSize prefix prefixFontSize pluginId renderer showHeader sort span spaceLength sparkline stack steppedLine styles targets title tooltip transform transparent type valueFontSize valueName xaxis yaxes yaxis x-axis y-axis titleSize showTitle scroll"
	customLooks    = "axisBorderShow axisCenteredZero axisColorMode axisGridShow axisLabel axisPlacement barAlignment barWidthFactor cellOptions align displayMode drawStyle fillOpacity gradientMode hideFrom inspect insertNulls lineInterpolation lineStyle lineWidth pointSize scaleDistribution showPoints showValues spanNulls stacking thresholdsStyle axisSoftMin axisSoftMax filterable minWidth width"
	defaultsLooks  = "color custom decimals max min unit displayName noValue"
	targetLooks    = "datasource editorMode exemplar expr format groupBy groupByTags hide instant interval intervalFactor legendFormat limit measurement orderByTime policy query range rawQuery refId resultFormat select slimit step tags tz metric useBackend fullMetaSearch includeNullMetadata disableTextWrap key dsType rawSql queryType fields"
	variableLooks  = "allFormat allValue auto auto_count auto_min current datasource definition description hide includeAll label multi name options query refresh regex skipUrlSync sort tagValuesQuery tagsQuery type useTags tags error allowCustomValue"
)

// kinds are the kinds of panels that both have.
var kinds = map[string]string{
	"timeseries": "plot", "graph": "plot", "stat": "number", "singlestat": "number", "gauge": "number", "bargauge": "number",
	"table": "table", "table-old": "table", "text": "text", "row": "row",
}

// Is reports whether JSON is a dashboard of Grafana, by its members.
func Is(raw []byte) bool {
	o, err := read(raw)
	if err != nil {
		return false
	}
	for _, name := range []string{"schemaVersion", "rows", "templating", "dashboard", "spec", "timepicker"} {
		if o[name] != nil {
			return true
		}
	}
	return false
}

func read(raw []byte) (o object, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	err = d.Decode(&o)
	return o, err
}

// importer makes a board of a dashboard.
type importer struct {
	doc    board.Document
	plugin map[string]string // kinds of data sources by the name that stands for one
	span   string            // of the dashboard
	own    []string          // variables whose place the page's own $interval takes
	notes  []string
}

// Import returns the name and the board of a dashboard, and what of it is left out or changed.
func Import(raw []byte) (title string, doc board.Document, notes []string, err error) {
	o, err := read(raw)
	if err != nil {
		return "", doc, nil, fmt.Errorf("it is no JSON object: %w", err)
	}
	if o["dashboard"] != nil { // as the API answers
		o = o.child("dashboard")
	}
	if o["spec"] != nil || o["elements"] != nil {
		return "", doc, nil, errors.New("it has the schema v2 of Grafana: export the dashboard in the classic schema")
	}
	x := importer{plugin: map[string]string{}, doc: board.Document{Version: board.Version, Variables: []board.Variable{}, Panels: []board.Panel{}}}
	for _, in := range o.list("__inputs") {
		x.plugin[in.text("name")] = in.text("pluginId")
	}
	for _, name := range o.others(dashboardLooks) {
		if name != "timezone" || (o.text(name) != "browser" && o.text(name) != "") {
			x.note("the dashboard's %s is left out", name)
		}
	}
	for _, a := range o.child("annotations").list("list") {
		if a["builtIn"] == nil {
			x.note("the annotation %q is left out", a.text("name"))
		}
	}
	x.time(o)
	for _, v := range o.child("templating").list("list") {
		x.variable(v)
	}
	x.rows(o.list("rows"))
	x.panels(o.list("panels"))
	for i := range x.doc.Panels {
		x.doc.Panels[i].ID = i + 1
	}
	if title = o.text("title"); title == "" {
		title = "Dashboard"
	}
	return title, x.doc, x.notes, nil
}

func (x *importer) note(format string, args ...any) {
	x.notes = append(x.notes, fmt.Sprintf(format, args...))
}

var relative = regexp.MustCompile(`^now(?:[-+]\d+(?:ms|[smhdw]))?$`)

// time sets the range and the refresh.
func (x *importer) time(o object) {
	from, to := o.child("time").text("from"), o.child("time").text("to")
	known := func(s string) bool {
		_, err := time.Parse(time.RFC3339Nano, s)
		return err == nil || relative.MatchString(s)
	}
	x.doc.Range = board.Range{From: from, To: to}
	if !known(from) || !known(to) {
		x.doc.Range = board.Range{From: "now-6h", To: "now"}
		if from+to != "" {
			x.note("the range %s to %s is now-6h to now", from, to)
		}
	}
	x.span = "6h"
	if ago, ok := strings.CutPrefix(x.doc.Range.From, "now-"); ok && x.doc.Range.To == "now" {
		x.span = ago
	} else if from, err := time.Parse(time.RFC3339Nano, x.doc.Range.From); err == nil {
		if to, err := time.Parse(time.RFC3339Nano, x.doc.Range.To); err == nil {
			x.span = fmt.Sprintf("%ds", max(1, int(to.Sub(from).Seconds())))
		}
	}
	refresh := o.text("refresh")
	if refresh == "" {
		return
	}
	seconds := 0
	if days, err := strconv.Atoi(strings.TrimSuffix(refresh, "d")); err == nil {
		seconds = days * 86400
	} else if d, err := time.ParseDuration(refresh); err == nil {
		seconds = int(d.Seconds())
	}
	x.doc.Refresh = max(0, min(seconds, 3600))
	if seconds != x.doc.Refresh || seconds == 0 {
		x.note("the refresh %s is %d s", refresh, x.doc.Refresh)
	}
}

var variableName = regexp.MustCompile(`^[A-Za-z_]\w*$`)

// variable adds a variable.
func (x *importer) variable(o object) {
	v := board.Variable{Name: o.text("name"), Lang: "influxql", Multi: o.is("multi"), All: o.is("includeAll"), Value: []string{}}
	kind := o.text("type")
	say := func(format string, args ...any) {
		x.note("variable %s: without %s", v.Name, fmt.Sprintf(format, args...))
	}
	switch {
	case v.Name == "interval" || v.Name == "timeFilter":
		x.own = append(x.own, v.Name)
		x.note("variable %s is left out: $%s is the page's own", v.Name, v.Name)
		return
	case !variableName.MatchString(v.Name) || strings.HasPrefix(v.Name, "__"):
		x.note("variable %q is left out: the page has no such names", v.Name)
		return
	case kind == "datasource":
		x.plugin[v.Name] = o.text("query")
		x.note("variable %s is left out: a board reads the database that is chosen", v.Name)
		return
	case slices.ContainsFunc(x.doc.Variables, func(w board.Variable) bool { return w.Name == v.Name }):
		x.note("variable %s is left out: there are two", v.Name)
		return
	}
	for _, value := range o.child("current").texts("value") {
		if value == "$__all" || value == "" {
			v.Value = []string{}
			break
		}
		v.Value = append(v.Value, value)
	}
	switch kind {
	case "query":
		query := o.text("query")
		if query == "" {
			query = o.child("query").text("query")
		}
		if query == "" { // the form for PromQL keeps what it was made of
			query = o.text("definition")
		}
		v.Query = imported(query, x.span, say)
		switch {
		case strings.HasPrefix(strings.TrimSpace(query), "label_values("):
			v.Lang = "promql"
		case !strings.HasPrefix(strings.ToUpper(strings.TrimSpace(query)), "SHOW ") && !strings.HasPrefix(strings.ToUpper(strings.TrimSpace(query)), "SELECT "):
			v.Query = ""
			say("its look-up %q, it has the chosen values only", query)
		}
	case "custom", "interval", "constant", "textbox":
		v.All = v.All && len(v.Value) == 0
		if len(v.Value) == 0 && !v.All {
			first, _, _ := strings.Cut(o.text("query"), ",")
			v.Value = append(v.Value, strings.TrimSpace(first))
		}
		if all := o.text("query"); kind != "constant" && kind != "textbox" && all != strings.Join(v.Value, ",") {
			say("the other values of %q: the page looks values up", all)
		}
	default:
		x.note("variable %s is left out: its kind is %s", v.Name, kind)
		return
	}
	if r := o.text("regex"); r != "" {
		say("the regular expression %s for its values", r)
	}
	if all := o.text("allValue"); all != "" && all != ".*" {
		say("%q for all values", all)
	}
	for _, name := range o.others(variableLooks) {
		say("%s", name)
	}
	x.doc.Variables = append(x.doc.Variables, v)
}

// rows adds the panels of a dashboard of before Grafana 5. Its rows have 12 columns.
func (x *importer) rows(rows []object) {
	y := 0
	for _, row := range rows {
		if row.is("showTitle") || row.is("collapse") {
			x.add(board.Panel{Title: row.text("title"), Kind: "text", Grid: board.Grid{Y: y, W: board.Columns, H: 1}})
			y++
		}
		height := rowsOf(row.whole("height", 250))
		at := 0
		for _, p := range row.list("panels") {
			w := min(max(p.whole("span", board.Columns), 1), board.Columns)
			if at+w > board.Columns {
				at, y = 0, y+height
			}
			x.panel(p, board.Grid{X: at, Y: y, W: w, H: height})
			at += w
		}
		y += height
	}
}

// A row of Grafana is 30 px high and 8 px before the next one, a row of a board 68 px with its gap.
const (
	theirRow = 38
	ourRow   = 68
)

func rowsOf(px int) int { return min(max((px+ourRow/2)/ourRow, 1), 50) }

func scaled(n, from, to int) int { return int(math.Round(float64(n) * float64(from) / float64(to))) }

// panels adds panels on Grafana's grid, which has 24 columns. Those of a collapsed row stand below it.
func (x *importer) panels(panels []object) {
	for _, p := range panels {
		pos := p.child("gridPos")
		left, top := max(pos.whole("x", 0), 0), max(pos.whole("y", 0), 0)
		right, bottom := left+pos.whole("w", 12), top+pos.whole("h", 8)
		g := board.Grid{X: min(left/2, board.Columns-1), Y: min(scaled(top, theirRow, ourRow), 9000)}
		g.W = min(max(right/2-g.X, 1), board.Columns-g.X)
		g.H = min(max(scaled(bottom, theirRow, ourRow)-g.Y, 1), 50)
		x.panel(p, g)
		x.panels(p.list("panels"))
	}
}

func (x *importer) add(p board.Panel) {
	if p.Queries == nil {
		p.Queries = []board.Query{}
	}
	if p.Options == (board.Options{}) {
		p.Options = board.Usual
	}
	x.doc.Panels = append(x.doc.Panels, p)
}

// panel adds a panel at a place.
func (x *importer) panel(o object, at board.Grid) {
	p := board.Panel{Title: o.text("title"), Kind: kinds[o.text("type")], Grid: at, Queries: []board.Query{}, Options: board.Usual}
	called := fmt.Sprintf("panel %q", p.Title)
	var lost []string
	say := func(format string, args ...any) { lost = append(lost, fmt.Sprintf(format, args...)) }
	switch p.Kind {
	case "":
		what := "its kind is " + o.text("type")
		if o["libraryPanel"] != nil {
			what = "it is a panel of the library"
		}
		x.note("%s is left out: %s", called, what)
		return
	case "row":
		p.Kind, p.Grid = "text", board.Grid{Y: at.Y, W: board.Columns, H: 1}
		if o.text("repeat") != "" {
			x.note("%s: without repeat", called)
		}
		x.add(p)
		return
	case "text":
		p.Text = o.child("options").text("content")
		if p.Text == "" {
			p.Text = o.text("content")
		}
		if mode := o.child("options").text("mode") + o.text("mode"); mode == "html" || mode == "markdown" {
			say("the form of its text, which is %s", mode)
		}
	default:
		x.options(o, &p, say)
		for _, t := range o.list("targets") {
			x.query(t, o, &p, say)
		}
		if o["targets"] == nil && o["libraryPanel"] != nil {
			say("what the library has of it")
		}
	}
	for _, name := range o.others(panelLooks) {
		say("%s", name)
	}
	if len(lost) > 0 {
		slices.Sort(lost)
		x.note("%s: without %s", called, strings.Join(slices.Compact(lost), ", "))
	}
	x.add(p)
}

// options sets how a panel is drawn.
func (x *importer) options(o object, p *board.Panel, say func(format string, args ...any)) {
	defaults := o.child("fieldConfig", "defaults")
	custom := defaults.child("custom")
	axis := defaults
	unit := defaults.text("unit")
	if axes := o.list("yaxes"); len(axes) > 0 { // a graph of before Grafana 8
		axis = axes[0]
		unit = axis.text("format")
		if axis.text("logBase") > "1" {
			p.Options.Scale = "log"
		}
	}
	if unit == "" {
		unit = o.text("format")
	}
	same := true
	if p.Options.Unit, same = importedUnit(unit); !same {
		say("the unit %s, which is %s now", unit, p.Options.Unit)
	}
	if custom.child("scaleDistribution").text("type") == "log" {
		p.Options.Scale = "log"
	}
	if p.Kind == "plot" {
		p.Options.Low, p.Options.High = axis.text("min"), axis.text("max")
	}
	stacking := custom.child("stacking").text("mode")
	switch {
	case o.is("stack"), stacking == "normal", stacking == "percent":
		p.Options.Style = "stacked"
		if o.is("percentage") || stacking == "percent" {
			say("stacking to 100 %%")
		}
	case o.is("bars"), custom.text("drawStyle") == "bars":
		p.Options.Style = "bars"
	case custom.text("drawStyle") == "points", o.is("points") && o["lines"] == false:
		p.Options.Style = "points"
	}
	if p.Kind == "number" {
		p.Options.By = "last"
		calcs := o.child("options", "reduceOptions").texts("calcs")
		if old := o.text("valueName"); old != "" {
			calcs = []string{old}
		}
		if len(calcs) > 0 {
			by := map[string]string{"last": "last", "lastNotNull": "last", "current": "last", "mean": "mean", "avg": "mean", "min": "min", "max": "max"}[calcs[0]]
			if by == "" {
				by = "last"
				say("%s of the values, which is last now", calcs[0])
			}
			p.Options.By = by
		}
		if len(calcs) > 1 {
			say("the figures after %s", calcs[0])
		}
	}
	for _, name := range defaults.others(defaultsLooks) {
		if steps := defaults.child("thresholds").list("steps"); name != "thresholds" || len(steps) > 1 {
			say("%s", name)
		}
	}
	for _, name := range custom.others(customLooks) {
		say("%s", name)
	}
	for _, name := range o.child("fieldConfig").others("defaults") {
		say("%s", name)
	}
}

// query adds the query of a target.
func (x *importer) query(t, o object, p *board.Panel, say func(format string, args ...any)) {
	called := "query " + t.text("refId")
	if t.is("hide") {
		say("the hidden %s", called)
		return
	}
	q := board.Query{Lang: "influxql", Text: t.text("query")}
	kind := x.source(t)
	if kind == "" {
		kind = x.source(o)
	}
	switch {
	case kind == "__expr__":
		say("%s, an expression of Grafana", called)
		return
	case kind != "" && kind != "influxdb" && kind != "prometheus" && kind != "mixed" && kind != "grafana":
		say("%s of a data source of the kind %s", called, kind)
		return
	case t.text("expr") != "":
		q.Lang, q.Text = "promql", t.text("expr")
	case q.Text == "" || (t["rawQuery"] == false && t["select"] != nil):
		if t.text("measurement") == "" {
			say("the empty %s", called)
			return
		}
		q.Text = t.statement()
	case strings.Contains(q.Text, "|>"):
		say("%s in Flux", called)
		return
	}
	for _, name := range t.others(targetLooks) {
		say("%s of %s", name, called)
	}
	if legend := t.text("legendFormat"); legend != "" && legend != "__auto" {
		say("legendFormat of %s", called)
	}
	if t.text("interval") != "" {
		say("interval of %s", called)
	}
	q.Text = imported(q.Text, x.span, say)
	p.Queries = append(p.Queries, q)
}

// source returns the kind of the data source that an object names, or "" if nothing says it.
func (x *importer) source(o object) string {
	source := o.child("datasource")
	kind := source.text("type")
	name := source.text("uid")
	if kind == "" && name == "" {
		name = o.text("datasource")
	}
	if kind == "datasource" || name == "-- Mixed --" {
		return strings.ToLower(strings.Trim(name, "- "))
	}
	if kind == "" {
		kind = x.plugin[nameOf(name)]
	}
	return kind
}
