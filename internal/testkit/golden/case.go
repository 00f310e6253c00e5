package golden

import (
	"bytes"
	"embed"
	"encoding/json"
	"path"
	"strings"
	"testing"
)

//go:embed testdata/*.json
var files embed.FS

// Theme is statements and writes that set up, then cases in order.
type Theme struct {
	Theme     string
	Databases []string
	Setup     []struct {
		Statement string
		Write     *Write
	}
	Cases []*Case
}

// Write is lines to write and how.
type Write struct {
	DB, RP, Precision, Path, Lines string
	Params                         map[string]string
	Base64, Gzip                   bool // Lines is base64; the body is sent compressed
}

// Case is one request and its answer: one document (Body), several (Lines), or
// bytes (Text).
type Case struct {
	ID         string
	Sequence   string // cases of one sequence depend on one another
	Method     string // default POST
	Path       string // default /query
	Params     map[string]string
	Q          string
	Form       bool // the parameters go into the form as well
	Write      *Write
	ReqBody    string            `json:"req_body"`
	ReqHeaders map[string]string `json:"req_headers"`

	Status  int
	Headers map[string]string
	Body    any
	Also    []any // other bodies that InfluxDB itself gives
	Lines   []any
	Text    *string

	Unordered  bool        // the order of series and rows does not count
	Mask       []string    // columns whose values do not count
	MaskRE     [][2]string `json:"mask_re"`     // replacements in all strings of an answer
	OnlySeries string      `json:"only_series"` // other tables do not count
	OnlyRows   string      `json:"only_rows"`   // rows with another prefix do not count
	Shape      bool        // only names and columns of tables count, as a set
	Tolerance  float64     // relative; 0: 1e-12 for numbers with a point

	theme string
}

// Name returns theme/id.
func (c *Case) Name() string { return c.theme + "/" + c.ID }

// Difference is a case that we answer otherwise than InfluxDB on purpose.
type Difference struct {
	Theme  string `json:"theme"`
	ID     string `json:"id"`
	Reason string `json:"reason"`
	Ties   bool   `json:"ties,omitempty"`  // only the order of rows of equal time differs
	More   bool   `json:"more,omitempty"`  // our answer has the recorded rows, then others
	Body   any    `json:"body,omitempty"`  // our answer
	Lines  []any  `json:"lines,omitempty"` // ours, where it is several documents
	Text   string `json:"text,omitempty"`
	Status int    `json:"status,omitempty"` // ours, where that differs too
}

func read(t testing.TB, name string, v any) {
	t.Helper()
	b, err := files.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := Decode(b, v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// Decode decodes JSON and keeps the text of numbers.
func Decode(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	return d.Decode(v)
}

// Themes returns the themes whose names want accepts, all if it is nil.
func Themes(t testing.TB, want func(name string) bool) []*Theme {
	t.Helper()
	names, err := files.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	var out []*Theme
	for _, e := range names {
		name := strings.TrimSuffix(path.Base(e.Name()), ".json")
		if name == "differences" || name == "siblings" || want != nil && !want(name) {
			continue
		}
		th := &Theme{}
		read(t, e.Name(), th)
		for _, c := range th.Cases {
			c.theme = th.Theme
		}
		out = append(out, th)
	}
	if len(out) == 0 {
		t.Fatal("no themes")
	}
	return out
}

// Siblings returns cases by theme that stand beside those of the recording. Their
// answers are InfluxDB 1.6.7's, over the theme's data.
func Siblings(t testing.TB) map[string][]*Case {
	t.Helper()
	out := map[string][]*Case{}
	read(t, "siblings.json", &out)
	for theme, cases := range out {
		for _, c := range cases {
			c.theme = theme
		}
	}
	return out
}

// Differences returns the intended differences by Case.Name.
func Differences(t testing.TB) map[string]*Difference {
	t.Helper()
	var list []*Difference
	read(t, "differences.json", &list)
	out := map[string]*Difference{}
	for _, d := range list {
		if d.Reason == "" || out[d.Theme+"/"+d.ID] != nil {
			t.Errorf("difference %s/%s has no reason or occurs twice", d.Theme, d.ID)
		}
		out[d.Theme+"/"+d.ID] = d
	}
	return out
}
