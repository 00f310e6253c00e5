package board

import (
	"encoding/json"
	"fmt"
)

// Columns is the width of the grid of a board.
const Columns = 12

// A Document is a board of version 1, with all that the page reads of it.
type Document struct {
	Version   int        `json:"version"`
	Range     Range      `json:"range"`
	Refresh   int        `json:"refresh"` // s; 0: none
	Variables []Variable `json:"variables"`
	Panels    []Panel    `json:"panels"`
}

// Range is a range of time, such as now-1h to now.
type Range struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Variable is a name that queries use, and the look-up of its values.
type Variable struct {
	Name  string   `json:"name"`
	Lang  string   `json:"lang"`
	Query string   `json:"query"`
	Multi bool     `json:"multi"`
	All   bool     `json:"all"`
	Value []string `json:"value"` // what is chosen; none: all, or else the first one
}

// Panel is a part of the page.
type Panel struct {
	ID      int     `json:"id"`
	Title   string  `json:"title"`
	Kind    string  `json:"kind"` // plot, number, table or text
	Grid    Grid    `json:"grid"`
	Queries []Query `json:"queries"`
	Text    string  `json:"text"` // of the kind text
	Options Options `json:"options"`
}

// Grid is a place, in columns and rows.
type Grid struct {
	X int `json:"x"`
	Y int `json:"y"`
	W int `json:"w"`
	H int `json:"h"`
}

// Query is a query of a panel. An empty DB is that of the board, an empty RP the default policy.
type Query struct {
	Lang string `json:"lang"` // influxql or promql
	DB   string `json:"db"`
	RP   string `json:"rp"`
	Text string `json:"text"`
}

// Options say how a plot is drawn.
type Options struct {
	Style string `json:"style"` // lines, points, bars or stacked
	By    string `json:"by"`    // last, min, mean or max: what chooses series, or what a number is
	Unit  string `json:"unit"`
	Scale string `json:"scale"` // linear or log
	Low   string `json:"low"`   // bounds of the axis; "": those of the data
	High  string `json:"high"`
}

// Usual is how a panel is drawn that says nothing.
var Usual = Options{Style: "lines", By: "max", Unit: "auto", Scale: "linear"}

// UnmarshalJSON reads a panel. What it does not say is as usual.
func (p *Panel) UnmarshalJSON(b []byte) error {
	type plain Panel
	q := plain{Kind: "plot", Grid: Grid{W: 6, H: 5}, Options: Usual}
	err := json.Unmarshal(b, &q)
	*p = Panel(q)
	return err
}

// UnmarshalJSON reads a query. What it does not say is as usual.
func (q *Query) UnmarshalJSON(b []byte) error {
	type plain Query
	p := plain{Lang: "influxql"}
	err := json.Unmarshal(b, &p)
	*q = Query(p)
	return err
}

// UnmarshalJSON reads a variable. What it does not say is as usual.
func (v *Variable) UnmarshalJSON(b []byte) error {
	type plain Variable
	p := plain{Lang: "influxql"}
	err := json.Unmarshal(b, &p)
	*v = Variable(p)
	return err
}

// Parse reads a document.
func Parse(document []byte) (Document, error) {
	content, err := Check(document)
	if err != nil {
		return Document{}, err
	}
	d := Document{Range: Range{"now-1h", "now"}}
	if err := json.Unmarshal(content, &d); err != nil {
		return d, fmt.Errorf("the board has a form that this program does not read: %w", err)
	}
	return d, nil
}
