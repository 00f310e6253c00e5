package mongo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"tsdbd/model/column"
	"tsdbd/transfer/mover"
)

// recorder is a mover.Lines that writes down the lines, with what was refused in brackets.
type recorder struct {
	strings.Builder
	refused []byte // the latest row
}

// Put implements mover.Lines.
func (r *recorder) Put(l *mover.Line) error {
	fmt.Fprintf(r, "%s\n", l.Text)
	return nil
}

// Refuse implements mover.Lines.
func (r *recorder) Refuse(reason string, l *mover.Line) error {
	fmt.Fprintf(r, "[line %d: %s]\n", l.From.Number, reason)
	r.refused = bytes.Clone(l.From.Text)
	return nil
}

// Query implements mover.Lines.
func (*recorder) Query(string) error { return nil }

// read returns the lines of an input, with what was refused and reported in brackets.
func read(t testing.TB, in io.Reader, opt Options) string {
	t.Helper()
	var out recorder
	opt.Report = func(text string) { fmt.Fprintf(&out, "[%s]\n", text) }
	opt.Database = "d"
	if err := Read(in, opt, &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestSamples reads the same documents in all forms of Extended JSON of version 2.
func TestSamples(t *testing.T) {
	const types = `[types from the first 8 documents: -columns 'device:string,hum:integer,max:float,min:float,n:integer,note:string,ok:boolean,old:integer,pos.lat:float,pos.lon:float,price:float,raw:string,ref:string,seen:integer,temp:float,values.0:float,values.1:integer']
[integers and doubles are mixed, all become floats: temp]
[decimals become the floats next to them, with -columns NAME:string they stay texts: price]
`
	const want = types + `weather,id=5578,site.city=Oslo\,\ "north",site.floor=3,type=temperature hum=40i,n=9223372036854775807i,note="line
break é",ok=true,temp=12.5 1620000000000000000
weather,id=5578,type=temperature hum=41i,n=-9223372036854775808i,temp=12 1620000001500000000
weather,active=true,id=1 max=0x7ff0000000000000,min=0xfff0000000000000,pos.lat=59.9,pos.lon=10,temp=0x7ff8000000000001,values.0=1.5,values.1=2i 1620000003000000000
weather device="123e4567-e89b-12d3-a456-426614174000",old=-62135510400000i,price=12.5,raw="YWJj",ref="65010203040506070809090a",seen=1620000000005i 1620000004000000000
[line 5: price: "1E+6000" does not fit the type float, which -columns can name]
[line 6: when: the type $timestamp has no counterpart]
[line 7: ts: "yesterday" is not a date]
weather temp=0 -1500000000
`
	for _, name := range []string{"relaxed.json", "canonical.json", "array.json"} {
		text, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for how, in := range map[string]io.Reader{"whole": strings.NewReader(string(text)), "by bytes": iotest.OneByteReader(strings.NewReader(string(text)))} {
			if got := read(t, in, Options{Time: "ts", Meta: "sensor", Measurement: "weather"}); got != strings.ReplaceAll(want, "0809090a", "08090a09") {
				t.Errorf("%s, %s:\n%s\nwant\n%s", name, how, got, want)
			}
		}
	}
}

// TestDocuments reads single inputs.
func TestDocuments(t *testing.T) {
	f := func(in, want string, types ...string) {
		t.Helper()
		opt := Options{Time: "t", Meta: "m", Measurement: "x", Types: map[string]string{}}
		for _, s := range types {
			name, kind, _ := strings.Cut(s, ":")
			opt.Types[name] = kind
		}
		var out strings.Builder
		for line := range strings.Lines(read(t, strings.NewReader(in), opt)) {
			if !strings.HasPrefix(line, "[types from") {
				out.WriteString(line)
			}
		}
		if got := strings.TrimSuffix(out.String(), "\n"); got != want {
			t.Errorf("%.300s\n got %.500s\nwant %.500s", in, got, want)
		}
	}
	const at = `"t":{"$date":"1970-01-01T00:00:01Z"}`
	f("", "")
	f("[]", "")
	f("\xef\xbb\xbf{\"v\":1,"+at+"}", "x v=1i 1000000000")

	// Forms of values, those of MongoDB 2 among them.
	f(`{"t":{"$date":1000},"v":{"$numberLong":"5"},"w":{"$numberLong":6}}`, "x v=5i,w=6i 1000000000")
	f(`{"t":{"$date":{"$numberLong":"-1"}},"v":{"$binary":"EjRWeBI0EjQSNBI0VniavA==","$type":"04"}}`, `x v="12345678-1234-1234-1234-123456789abc" -1000000`)
	f(`{"t":{"$date":"1970-01-01T01:00:01.5+0100"},"v":{"$uuid":"u"},"u":{"$undefined":true}}`, `x v="u" 1500000000`)
	f(`{"t":"1970-01-01T00:00:01Z","v":"é\u00e9\"\\"}`, `x v="éé\"\\" 1000000000`)
	f(`{`+at+`,"v":1e999}`, "[line 1: v: 1e999 is out of the range of numbers]")
	f(`{`+at+`,"v":{"$numberLong":"x"}}`, `[line 1: v: {"$numberLong":"x"} is not readable]`)
	f(`{`+at+`,"v":9223372036854775808}`, "x v=9.223372036854776e+18 1000000000")

	// Tags.
	f(`{`+at+`,"m":"a b","v":1}`, `x,m=a\ b v=1i 1000000000`)
	f(`{`+at+`,"m":{"a":1.5,"b":[true,{"$date":0}],"c":"","d":null,"e":{}},"v":1}`, `x,a=1.5,b.0=true,b.1=1970-01-01T00:00:00Z v=1i 1000000000`)
	f(`{`+at+`,"m":{"time":1},"v":1}`, `[line 1: invalid tag key: input tag "time" on measurement "x" is invalid]`)
	f(`{`+at+`,"m":{"a.b":1,"a":{"b":2}},"v":1}`, `[line 1: duplicate tag "a.b"]`)
	f(`{`+at+`,"m":{"a":1},"host":"h","v":1}`, `x,a=1,host=h v=1i 1000000000`, "host:tag")

	// Fields.
	f(`{`+at+`,"m":1}`, "[line 1: the document has no field]")
	f(`{`+at+`,"v":1,"v":2}`, "[line 1: the field v is there twice]")
	f(`{`+at+`,"time":1}`, "[line 1: a field cannot have the name time: -columns time:skip leaves it out]")
	f(`{`+at+`,"time":1,"v":1}`, "x v=1i 1000000000", "time:skip")
	f(`{`+at+`,"":1}`, `[line 1: the name of the field "" is empty]`)
	f(`{"v":1}`, "[line 1: the document has no member t with the time]")
	f(`{"t":{"$date":"2300-01-01T00:00:00Z"},"v":1}`, `[line 1: t: {"$date":"2300-01-01T00:00:00Z"} is out of the range of times]`)
	array := strings.Repeat("1,", 100) + "1"
	f(`{`+at+`,"a":{"b":[`+array+`]},"v":1}`, "[line 1: a.b: the array has more than 100 elements]")
	f(`{`+at+`,"a":{"b":[`+array+`]},"v":1}`, "x v=1i 1000000000", "a.b:skip")
	f(`{`+at+`,"a":`+strings.Repeat(`{"a":`, 101)+"1"+strings.Repeat("}", 101)+`}`, "[line 1: "+strings.Repeat("a.", 50)+": documents are nested more than 100 deep]")
	f(`{`+at+`,"s":"`+strings.Repeat("x", column.MaxStringLength+1)+`"}`, fmt.Sprintf("[line 1: s: the string is longer than %d bytes]", column.MaxStringLength))

	// Types.
	f(`{`+at+`,"v":5,"w":5.0,"s":5}`, `x s="5",v=5,w=5i 1000000000`, "v:float", "w:integer", "s:string")
	f(`{`+at+`,"v":5.5}`, `[line 1: v: "5.5" does not fit the type unsigned, which -columns can name]`, "v:unsigned")
	f(`{`+at+`,"v":{"$numberDecimal":"0.10"},"_id":1}`, `x _id=1i,v="0.10" 1000000000`, "v:string", "_id:integer")
	f(`{`+at+`,"v":1.5}{`+at+`,"v":9007199254740993}`, "[integers and doubles are mixed, all become floats: v]\nx v=1.5 1000000000\n[line 1: v: \"9007199254740993\" does not fit the type float, which -columns can name]")
	late := strings.Repeat("{"+at+`,"v":1}`+"\n", sampleDocuments)
	f(late+"{"+at+`,"v":1.5}`+"{"+at+`,"w":1}`+"{"+at+`,"w":"x"}`, strings.Repeat("x v=1i 1000000000\n", sampleDocuments)+
		"[line 1001: v: \"1.5\" does not fit the type integer, which -columns can name]\nx w=1i 1000000000\n[line 1001: w: \"x\" does not fit the type integer, which -columns can name]")

	// What is no document costs its own lines.
	good := "{" + at + `,"v":1}`
	const line = "x v=1i 1000000000"
	f(good+"\nconnected to: localhost\n"+good, line+"\n[line 2: no document begins here]\n"+line)
	f("{\"t\":1,\n"+good, "[line 1: the document has no end]\n"+line)
	f("{\"t\":\"open\n"+good, "[line 1: the document has no end]\n"+line)
	f(good+"\n{\"v\":", line+"\n[line 2: the document has no end]")
	f("{\"v\":1,}\n"+good, "[line 1: the document is not valid JSON]\n"+line)
	f("{\"v\":]\n"+good, "[line 1: the document is not valid JSON]\n"+line)
	f("[\n\t{\n\t\t"+at+",\n\t\t\"v\": 1,\n\t\t\"a\" : [ ] , \"b\":[\n{\"c\" : 2}]\n\t}\n]", "[line 2: the document has no end]\n[line 6: the document has no member t with the time]\n[line 7: no document begins here]")
}

func TestOptions(t *testing.T) {
	for want, opt := range map[string]Options{
		"-time NAME":                {Measurement: "m"},
		"-measurement NAME":         {Time: "t"},
		"cannot have the tags":      {Time: "t", Meta: "t", Measurement: "m"},
		"cannot have the type time": {Time: "t", Measurement: "m", Types: map[string]string{"x": "time"}},
	} {
		if err := Read(nil, opt, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", opt, err)
		}
	}
	if err := Read(iotest.ErrReader(io.ErrClosedPipe), Options{Time: "t", Measurement: "m"}, nil); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("an input that fails: %v", err)
	}
}

// TestBytes: texts keep every byte, and no member hides another, which encoding/json does not do.
func TestBytes(t *testing.T) {
	const doc = "{\"t\":{\"$date\":1},\"s\":\"a\xff\",\"s\":\"b\"}"
	var by map[string]any
	if err := json.Unmarshal([]byte(doc), &by); err != nil || by["s"] != "b" {
		t.Errorf("%v, %v: if encoding/json refuses this, it may take the place of members", by, err)
	}
	opt := Options{Time: "t", Measurement: "m"}
	if got := read(t, strings.NewReader(doc), opt); !strings.HasSuffix(got, "[line 1: the field s is there twice]\n") {
		t.Errorf("two members with one name: %q", got)
	}
	if got := read(t, strings.NewReader(strings.Replace(doc, `,"s":"b"`, "", 1)), opt); !strings.HasSuffix(got, "m s=\"a\xff\" 1000000\n") {
		t.Errorf("a text that is not UTF-8: %q", got)
	}
}

func FuzzReader(f *testing.F) {
	for _, name := range []string{"relaxed.json", "canonical.json", "array.json"} {
		text, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"values":[{"ts":1,"v":1},{"ts":2,"w":{"x":1}}],"sensor":1}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		read(t, strings.NewReader(string(in)), Options{Time: "ts", Meta: "sensor", Measurement: "weather"})
		read(t, strings.NewReader(string(in)), Options{Time: "ts", Meta: "sensor", Points: "values", TimeFormat: "ms", Measurement: "weather"})
	})
}

// TestTimesOfNumbers reads times that are no dates, as TimeFormat says.
func TestTimesOfNumbers(t *testing.T) {
	const in = `{"t":1428780000.5,"v":1}
{"t":{"$numberLong":"1428780001"},"v":1}
{"t":{"$numberDouble":"1.4287800025e9"},"v":1}
{"t":"1428780003","v":1}
{"t":{"$date":"2015-04-11T19:20:04Z"},"v":1}
{"t":"2015-04-11T19:20:05Z","v":1}
{"t":true,"v":1}
{"t":null,"v":1}
{"t":[1],"v":1}
{"t":1e30,"v":1}
`
	opt := Options{Time: "t", Measurement: "x", Types: map[string]string{"v": "float"}, TimeFormat: "s"}
	const types = "[types from the first 10 documents: -columns 'v:float']\n"
	const want = types + `x v=1 1428780000500000000
x v=1 1428780001000000000
x v=1 1428780002500000000
x v=1 1428780003000000000
x v=1 1428780004000000000
x v=1 1428780005000000000
[line 7: t: "true" is not a number]
[line 8: t: "null" is not a number]
[line 9: t: "[1]" is not a number]
[line 10: t: "1e30" is not a number]
`
	if got := read(t, strings.NewReader(in), opt); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	opt.TimeFormat = ""
	const refused = types + `[line 1: t: 1428780000.5 is a number: -time-format s, ms, us or ns says what it counts]
[line 2: t: {"$numberLong":"1428780001"} is a number: -time-format s, ms, us or ns says what it counts]
[line 3: t: {"$numberDouble":"1.4287800025e9"} is a number: -time-format s, ms, us or ns says what it counts]
[line 4: t: "1428780003" is not a date]
x v=1 1428780004000000000
x v=1 1428780005000000000
`
	if got := read(t, strings.NewReader(in), opt); !strings.HasPrefix(got, refused) {
		t.Errorf("without a format: got\n%s\nwant\n%s", got, refused)
	}
	opt.TimeFormat = "02.01.2006 15:04"
	opt.Timezone = "Europe/Berlin"
	if got := read(t, strings.NewReader(`{"t":"11.04.2015 21:20","v":1}`), opt); !strings.HasSuffix(got, "x v=1 1428780000000000000\n") {
		t.Errorf("a layout: %s", got)
	}
	opt.TimeFormat = "soon"
	if err := Read(strings.NewReader(in), opt, nil); err == nil {
		t.Error("a format that is none was taken")
	}
}

// TestPoints makes a document of each element of an array, with the other members.
func TestPoints(t *testing.T) {
	var many strings.Builder
	for i := range 150 {
		fmt.Fprintf(&many, `{"t":{"$date":%d},"v":%d},`, i, i)
	}
	in := `{"m":{"id":1},"n":2,"points":[{"t":{"$date":1},"v":1},{"t":{"$date":2},"v":2.5,"w":{"x":"y"}}],"unit":"C\u00b0"}
{"m":{"id":2},"t":{"$date":3},"v":3}
{"m":{"id":3},"points":[` + many.String()[:many.Len()-1] + `]}
{"m":{"id":4},"points":[]}
{"points":[{"t":{"$date":5},"v":5},7]}
{"points":[{}]}
{"points":{"t":{"$date":6},"v":6}}
{"t":{"$date":7},"points":[{"t":{"$date":7},"v":7}]}
{"points":[{"v":8}]}
{"points":[{"t":{"$date":9},"v":9}`
	got := read(t, strings.NewReader(in), Options{Time: "t", Meta: "m", Points: "points", Measurement: "x"})
	var want strings.Builder
	want.WriteString(`[types from the first 160 documents: -columns 'n:integer,unit:string,v:float,w.x:string']
[integers and doubles are mixed, all become floats: v]
x,id=1 n=2i,unit="C°",v=1 1000000
x,id=1 n=2i,unit="C°",v=2.5,w.x="y" 2000000
x,id=2 v=3 3000000
`)
	for i := range 150 {
		fmt.Fprintf(&want, "x,id=3 v=%d %d\n", i, i*1e6)
	}
	want.WriteString(`[line 4: points has no element]
[line 5: points.1 is no document with members]
[line 6: points.0 is no document with members]
[line 7: points is no array of documents]
[line 8: the member t is there twice]
[line 9: the document has no member t with the time]
[line 10: the document has no end]
`)
	if got != want.String() {
		t.Errorf("got\n%s\nwant\n%s", got, want.String())
	}
	if got := read(t, strings.NewReader(`{"t":{"$date":1},"points":[`+many.String()[:many.Len()-1]+`]}`), Options{Time: "t", Measurement: "x"}); !strings.Contains(got, "points: the array has more than 100 elements: -points points makes a point of each") {
		t.Errorf("without -points: %s", got)
	}
	// What was refused of a document can be read again alone.
	var out recorder
	if err := Read(strings.NewReader(`{"a":1,"points":[{"t":0,"v":1}]}`), Options{Time: "t", Points: "points", Measurement: "x"}, &out); err != nil || string(out.refused) != `{"a":1,"t":0,"v":1}` {
		t.Errorf("refused %s, %v", out.refused, err)
	}
}
