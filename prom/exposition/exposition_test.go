package exposition

import (
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/prom"
)

// read describes what Read makes of a text.
func read(text string, opt *Options) string {
	batch := &point.Batch{}
	rows := prom.Rows{Builder: point.NewBuilder(point.NewTable(1), batch)}
	entries, left, err := Read([]byte(text), opt, &rows)
	var out []string
	for _, row := range batch.Rows {
		key := strings.Replace(string(row.Series.Key()), "__name__", "_", 1)
		out = append(out, fmt.Sprintf("%s %s @%d", key, strconv.FormatFloat(math.Float64frombits(batch.Values[row.First]), 'g', -1, 64), prom.Milliseconds(row.Time)))
	}
	for _, e := range entries {
		out = append(out, fmt.Sprintf("%s is %s, help %q, unit %q", e.Metric, e.Type, e.Help, e.Unit))
	}
	if rows.Refused > 0 {
		out = append(out, fmt.Sprintf("refused %d: %s", rows.Refused, rows.Reason))
	}
	if left.First != nil {
		out = append(out, fmt.Sprintf("%d bad, %v", left.Count, left.First))
	}
	if err != nil {
		out = append(out, err.Error())
	}
	return strings.Join(out, "\n")
}

// TestRead reads texts, right and wrong ones.
func TestRead(t *testing.T) {
	f := func(text string, want ...string) {
		t.Helper()
		if got := read(text, &Options{Now: 7}); got != strings.Join(want, "\n") {
			t.Errorf("%s\n got %s\nwant %s", text, got, strings.Join(want, "\n"))
		}
	}
	f("")
	f("\n# a comment\n#\n# EOF\n \t\r\n")
	f("up 1", "up,_=up 1 @7")
	f("up 1 1000\nup\t2\t-5 \r\nup{} 3 1\n", "up,_=up 1 @1000", "up,_=up 2 @-5", "up,_=up 3 @1")
	f(`a:b_total{x="1" , y = "2",} 0x10`, `1 bad, line 1: "0x10" is no value`)
	f(`a:b_total{x="1" , y = "2",} 1e3 5`, "a:b_total,_=a:b_total,x=1,y=2 1000 @5")
	f("a NaN 1\na +Inf 2\na -Inf 3\na Inf 4\na nan 5", "a,_=a NaN @1", "a,_=a +Inf @2", "a,_=a -Inf @3", "a,_=a +Inf @4", "a,_=a NaN @5")
	f(`a{x="\"q\" {,} = # 0",y="a\\n"} 1`, `a,_=a,x="q"\ {\,}\ \=\ #\ 0,y=a\n 1 @7`)
	f(`a{x="one\ntwo"} 1`, `refused 1: tag "x" of "a" contains a newline`) // line protocol cannot express it
	f(`{"my.metric","the label"="x",b="y"} 1`, `my.metric,_=my.metric,b=y,the\ label=x 1 @7`)
	f(`{a="x","m"} 1`, "m,_=m,a=x 1 @7")
	f(`h_bucket{le="1"} 3 9 # {trace="a"} 0.5 8`, "h_bucket,_=h_bucket,le=1 3 @9")
	f(`h_bucket{le="1"} 3 # {trace="a"} 0.5`, "h_bucket,_=h_bucket,le=1 3 @7")
	f("# HELP up Is it\\nup \\\\ or \"not\"?\n# TYPE up gauge\n# UNIT up seconds\n#TYPE x untyped\n# TYPE \"my.metric\" counter\n# HELP up\n# NOTE up x\nup 1",
		"up,_=up 1 @7", `up is gauge, help "Is it\nup \\ or \"not\"?", unit "seconds"`, `x is unknown, help "", unit ""`, `my.metric is counter, help "", unit ""`)
	// Wrong lines leave the others.
	for text, why := range map[string]string{
		"up":                  "there is no value",
		"up{":                 "the labels do not end in }",
		`up{a="1"`:            "the labels do not end in }",
		`up{a="1} 1`:          "a text does not end in a quote",
		`up{a=1} 1`:           `a label is not of the form name="value"`,
		`up{a} 1`:             `a label is not of the form name="value"`,
		`up{="x"} 1`:          `a label is not of the form name="value"`,
		`up{a="1" b="2"} 1`:   "there is no comma between two labels",
		`up{"down"} 1`:        "the metric has two names",
		`{a="1"} 1`:           "the line does not begin with the name of a metric",
		`"up" 1`:              `the line does not begin with the name of a metric`,
		`up"x 1`:              "the line does not begin with the name of a metric",
		"up x":                `"x" is no value`,
		"up 1_0":              `"1_0" is no value`,
		"up 1e999":            `"1e999" is no value`,
		"up 1 x":              `"x" is no time in milliseconds`,
		"up 1 1.5":            `"1.5" is no time in milliseconds`,
		"up 1 5 6":            "something follows the time",
		"up 1 99999999999999": "",
	} {
		want := "a,_=a 1 @7\nb,_=b 2 @7\n1 bad, line 2: " + why
		got := read("a 1\n"+text+"\nb 2\n", &Options{Now: 7})
		switch text {
		case "up 1 99999999999999":
			if !strings.Contains(got, "refused 1: ") {
				t.Errorf("%s: %s", text, got)
			}
		case `"up" 1`: // is the name of a metric
			if got != "a,_=a 1 @7\nup,_=up 1 @7\nb,_=b 2 @7" {
				t.Errorf("%s: %s", text, got)
			}
		default:
			if got != want {
				t.Errorf("%s\n got %s\nwant %s", text, got, want)
			}
		}
	}
	f(`up{a="1",a="2"} 1`, `refused 1: duplicate tag "a"`)
	opt := &Options{Now: 1, Seconds: true, Extra: model.Tags{{Key: "job", Value: "j"}, {Key: "__name__", Value: "renamed"}, {Key: "job", Value: "k"}}}
	if got := read("up{job=\"x\"} 1 1.5\nup 2 3\nup 3\nup 4 1e99", opt); got != "renamed,_=renamed,job=k 1 @1500\nrenamed,_=renamed,job=k 2 @3000\nrenamed,_=renamed,job=k 3 @1\n1 bad, line 4: \"1e99\" is no time in seconds" {
		t.Error(got)
	}
}

// TestCharge has short lines take more memory than the request.
func TestCharge(t *testing.T) {
	charged := 0
	rows := prom.Rows{Builder: point.NewBuilder(point.NewTable(1), &point.Batch{}), Charge: func(n int) error {
		if charged += n; charged > 1<<20 {
			return fmt.Errorf("no memory")
		}
		return nil
	}}
	opt := &Options{Extra: model.Tags{{Key: "x", Value: strings.Repeat("x", 10_000)}}}
	if _, _, err := Read([]byte(strings.Repeat("m 1\n", 1000)), opt, &rows); err == nil || charged > 2<<20 {
		t.Errorf("%d bytes are charged: %v", charged, err)
	}
}

func TestParseOptions(t *testing.T) {
	f := func(path, query, contentType, want string) {
		t.Helper()
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		opt, err := ParseOptions(path, q, contentType)
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprintf("%d %t %s", opt.Now, opt.Seconds, opt.Extra)
		}
		if got != want {
			t.Errorf("%s %s %s:\n got %s\nwant %s", path, query, contentType, got, want)
		}
	}
	none := fmt.Sprint(int64(math.MinInt64))
	f("", "timestamp="+none, "", fmt.Sprintf("timestamp must be milliseconds since 1970, not %q", none))
	f("", "", "", none+" false []")
	f("/", "timestamp=-5", "text/plain; version=0.0.4", "-5 false []")
	f("/metrics", "", "application/openmetrics-text; version=1.0.0; charset=utf-8", none+" true []")
	f("/metrics/job/a/host/b", "", "", none+" false [{job a} {host b}]")
	f("/metrics/job@base64/YS9i/empty@base64/=", "", "", none+" false [{job a/b} {empty }]")
	const wrong = "the path must be metrics/job/JOB and more pairs of a label and its value"
	f("/job/a", "", "", wrong)
	f("/metrics/job", "", "", wrong)
	f("/metrics/job//x/y", "", "", "a label in the path has no name or no value")
	f("/metrics/job@base64/!", "", "", "the value of the label job in the path is not base64")
	f("", "timestamp=1.5", "", `timestamp must be milliseconds since 1970, not "1.5"`)
}

func FuzzRead(f *testing.F) {
	f.Add("# HELP up Is\\n it?\nup{a=\"b\\\"\",\"c d\"=\"e\",} 1e3 5 # {x=\"y\"} 1\n{\"m\"} NaN\nup{ 1\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, seconds := range []bool{false, true} {
			batch := &point.Batch{}
			rows := prom.Rows{Builder: point.NewBuilder(point.NewTable(1), batch)}
			_, left, err := Read([]byte(text), &Options{Seconds: seconds}, &rows)
			if err != nil || (left.Count > 0) != (left.First != nil) || len(batch.Rows)+rows.Refused+left.Count > strings.Count(text, "\n")+1 {
				t.Errorf("%+v, %d rows, %d refused, %v", left, len(batch.Rows), rows.Refused, err)
			}
		}
	})
}
