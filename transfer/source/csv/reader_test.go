package csv_test

import (
	"bytes"
	stdcsv "encoding/csv"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"tsdbd/lineproto"
	"tsdbd/model/point"
	"tsdbd/transfer/mover"
	"tsdbd/transfer/source/csv"
)

// recorder is a mover.Lines that writes down the lines, and the refusals as "N: reason".
type recorder struct {
	strings.Builder
	put, refused func(l *mover.Line)
}

// Put implements mover.Lines.
func (r *recorder) Put(l *mover.Line) error {
	fmt.Fprintf(r, "%s\n", l.Text)
	if r.put != nil {
		r.put(l)
	}
	return nil
}

// Refuse implements mover.Lines.
func (r *recorder) Refuse(reason string, l *mover.Line) error {
	fmt.Fprintf(r, "%d: %s\n", l.From.Number, reason)
	if r.refused != nil {
		r.refused(l)
	}
	return nil
}

// Query implements mover.Lines.
func (*recorder) Query(string) error { return nil }

// read returns the lines of a table, the refusals as "N: reason" among them, and what
// was guessed first.
func read(t testing.TB, in string, opt csv.Options) string {
	t.Helper()
	var out recorder
	opt.Database = "d"
	opt.Report = func(s string) { fmt.Fprintf(&out, "%s\n", s) }
	if err := csv.Read(iotest.HalfReader(strings.NewReader(in)), opt, &out); err != nil {
		fmt.Fprintln(&out, err)
	}
	return out.String()
}

// TestBytesOfCells: strings keep every byte, which encoding/csv does not.
func TestBytesOfCells(t *testing.T) {
	const in = "t,s\n1,\"a\r\nb\xff\"\n"
	want := "m s=\"a\r\nb\xff\" 1\n"
	if got := read(t, in, csv.Options{Measurement: "m", Columns: "t:time,s:string", TimeFormat: "ns"}); !strings.HasSuffix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	rows, err := stdcsv.NewReader(strings.NewReader(in)).ReadAll()
	if err != nil || rows[1][1] != "a\nb\xff" {
		t.Errorf("%q, %v: if encoding/csv keeps line breaks, it can take the place of rows", rows, err)
	}
}

func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		opt      csv.Options
		in, want string
	}{
		"annotated, as influx write reads it": {in: `#timezone +0100
#constant measurement,cpu
#constant tag,dc,eu 1
#constant long,core,3
#datatype tag,double,unsignedLong,boolean,string,dateTime:2006-01-02 15:04:05,ignored
host,usage,n,ok,state,at,note
a,1.5,7,true,"say ""hi""",2026-01-05 13:00:00,x
# a comment
b,,,f,,2026-01-05 13:00:01,
`, want: `cpu,dc=eu\ 1,host=a core=3i,usage=1.5,n=7u,ok=true,state="say \"hi\"" 1767614400000000000
cpu,dc=eu\ 1,host=b core=3i,ok=false 1767614401000000000
`},
		"annotated, defaults and times": {in: `#datatype measurement,tag|none,long,dateTime:RFC3339
#default m,,5,
m,host,n,time
,,,2026-01-05T12:00:00Z
cpu,a,6,2026-01-05T13:00:00.25+01:00
`, want: `m,host=none n=5i 1767614400000000000
cpu,host=a n=6i 1767614400250000000
`},
		"a query of 2.x": {
			in: "#group,false,false,true,true,false,false,true,true,true\r\n" +
				"#datatype,string,long,dateTime:RFC3339,dateTime:RFC3339,dateTime:RFC3339,double,string,string,string\r\n" +
				"#default,_result,,,,,,,,\r\n" +
				",result,table,_start,_stop,_time,_value,_field,_measurement,host\r\n" +
				",,0,2026-01-01T00:00:00Z,2026-02-01T00:00:00Z,2026-01-05T12:00:00Z,1.5,usage,cpu,a\r\n" +
				",,1,2026-01-01T00:00:00Z,2026-02-01T00:00:00Z,2026-01-05T12:00:00Z,2e-3,free disk,cpu,b\r\n" +
				"\r\n" +
				"#group,false,false,true,false,false,true,true\r\n" +
				"#datatype,string,long,dateTime:RFC3339,dateTime:RFC3339Nano,string,string,string\r\n" +
				"#default,_result,,,,,,\r\n" +
				",result,table,_start,_time,_value,_field,_measurement\r\n" +
				",,2,2026-01-01T00:00:00Z,2026-01-05T12:00:00.000000001Z,up,state,cpu\r\n",
			want: `cpu,host=a usage=1.5 1767614400000000000
cpu,host=b free\ disk=0.002 1767614400000000000
cpu state="up" 1767614400000000001
`,
		},
		"a query of 2.x, pivoted": {in: `#group,false,false,false,true,true,false,false
#datatype,string,long,dateTime:RFC3339,string,string,double,long
#default,_result,,,,,,
,result,table,_time,_measurement,host,usage,n
,,0,2026-01-05T12:00:00Z,cpu,a,1.5,2
`, want: "cpu,host=a usage=1.5,n=2i 1767614400000000000\n"},
		"a query of 2.x that failed": {
			in:   "#datatype,string,string\n#group,true,true\n#default,,\n,error,reference\n,no such bucket,897\n",
			want: "line 5: the input is the error of a query:  no such bucket 897\n",
		},
		"answers of 1.x": {in: `name,tags,time,usage,n
cpu,"host=a,dc=x,y",1767614400000000000,1.5,2
cpu,,1767614401000000000,,3

name,tags,time,state
log,host=b,1767614400000000000,"two
lines"
`, want: `guessed from the first 2 rows: -columns 'name:measurement,time:time,usage:float,n:integer' -time-format ns
cpu,dc=x\,y,host=a usage=1.5,n=2i 1767614400000000000
cpu n=3i 1767614401000000000
guessed from the first 1 rows: -columns 'name:measurement,time:time,state:string' -time-format ns
log,host=b state="two
lines" 1767614400000000000
`},
		"plain, guessed": {
			in: "\ufeffTime;host;usage;n;big;ok;note\n" +
				"2026-01-05 12:00:00;a;1;1;18446744073709551615;true;" + strings.Repeat("x", 65) + "\n" +
				"2026-01-05T12:00:01Z;a;1.5;2;1;FALSE;y\n" +
				"2026-01-05T12:00:02;b;x;2.5;-1;maybe;z\n",
			want: `guessed from the first 3 rows: -columns 'Time:time,host:tag,usage:tag,n:float,big:float,ok:tag,note:string'
m,host=a,ok=true,usage=1 n=1,big=18446744073709551615,note="` + strings.Repeat("x", 65) + `" 1767614400000000000
m,host=a,ok=FALSE,usage=1.5 n=2,big=1,note="y" 1767614401000000000
m,host=b,ok=maybe,usage=x n=2.5,big=-1,note="z" 1767614402000000000
`, opt: csv.Options{Measurement: "m"},
		},
		"plain, typed": {
			opt: csv.Options{Columns: "time,host:tag,usage:float,state:string,x:skip", Measurement: "m"},
			in:  "host\tusage\tstate\tx\ttime\na\t1e3\t-\t?\t1767614400\n\t.5\t \t\t1767614400.5\n", want: `guessed from the first 2 rows: -columns 'host:tag,usage:float,state:string,x:skip,time:time' -time-format s
m,host=a usage=1000,state="-" 1767614400000000000
m usage=0.5,state=" " 1767614400500000000
`,
		},
		"plain without a header": {
			opt: csv.Options{Columns: "time:time,:skip,m:measurement,n:unsigned", TimeFormat: "ms"},
			in:  "1767614400000,,a,1\n1767614400001,,b,2\n", want: "a n=1u 1767614400000000000\nb n=2u 1767614400001000000\n",
		},
		"plain with a layout": {
			opt: csv.Options{Columns: "at:time,v:float", Measurement: "m", TimeFormat: "02.01.2006 15:04", Timezone: "Europe/Berlin", Separator: "|"},
			in:  "v|at\n1|05.01.2026 13:00\n2|2026-01-05\n", want: "m v=1 1767614400000000000\n3: column at: \"2026-01-05\" is not a time of the layout \"02.01.2006 15:04\"\n",
		},
		"types do not change": {
			opt: csv.Options{Measurement: "m", Unit: "s"},
			in:  "time,v,s\n" + strings.Repeat("1767614400,1,7\n", 1000) + "1767614401,1.5,7\n1767614402,2,x\n1767614403,3,4\n",
			want: "guessed from the first 1000 rows: -columns 'time:time,v:integer,s:integer'\n" + strings.Repeat("m v=1i,s=7i 1767614400000000000\n", 1000) +
				"1002: column v: \"1.5\" is not an integer\n1003: column s: \"x\" is not an integer\nm v=3i,s=4i 1767614403000000000\n",
		},
		"rows that are refused": {
			opt: csv.Options{Columns: "time:time,m:measurement,t:tag,f:float,i:integer,u:unsigned,b:boolean", TimeFormat: "rfc3339"},
			in: `time,m,t,f,i,u,b
2026-01-05T12:00:00Z,m,a,NaN,,,
2026-01-05T12:00:00Z,m,a,1e999,,,
2026-01-05T12:00:00Z,m,a,,9223372036854775808,,
2026-01-05T12:00:00Z,m,a,,,-1,
2026-01-05T12:00:00Z,m,a,,,,yes
2026-01-05T12:00:00Z,m,a,,,,
2026-01-05T12:00:00Z,m,a,1
2026-01-05T12:00:00Z,,a,1,,,
2026-01-05T12:00:00Z,#m,a,1,,,
2026-01-05T12:00:00Z,m,"a
b",1,,,
2026-02-29T12:00:00Z,m,a,1,,,
9999-01-05T12:00:00Z,m,a,1,,,
1767614400,m,a,1,,,
,m,a,1,,,
2026-01-05T12:00:00Z,"m"x,a,1,,,
2026-01-05T12:00:00Z,m,"a,1,,,
time,m,t,f,i,u,b
2026-01-05T12:00:00Z,m,a,1,2,3,T
`, want: `2: column f: "NaN" is not a number
3: column f: "1e999" is not a number
4: column i: "9223372036854775808" is not an integer
5: column u: "-1" is not an unsigned integer
6: column b: "yes" is not true or false
7: the row has no value
8: the row has 4 cells, and the table has 7 columns
9: measurement "" is empty
10: measurement "#m" begins as a comment
11: tag "t" of "m" contains a newline
13: column time: "2026-02-29T12:00:00Z" is not a time of RFC 3339
14: column time: "9999-01-05T12:00:00Z" is out of the range of times
15: column time: "1767614400" is not a time of RFC 3339
16: column time: "" is not a time of RFC 3339
17: text behind the closing quote of cell 2
18: quote without its end
m,t=a f=1,i=2i,u=3u,b=true 1767614400000000000
`,
		},
		"a long row":    {opt: csv.Options{Columns: "time:time,v:float", Measurement: "m", TimeFormat: "s"}, in: "time,v\n1,1\n" + strings.Repeat("x", 5<<20) + "\n2,2\n", want: "m v=1 1000000000\n3: the row is longer than 4194304 bytes\nm v=2 2000000000\n"},
		"nothing":       {},
		"only a header": {in: "time,v\n", opt: csv.Options{Measurement: "m"}, want: "guessed from the first 0 rows: -columns 'time:time,v' -time-format ns\n"},
		"a decimal comma": {
			in: "time;v;n;s;t\n1577836800,5;3,5;1;1,5,5;1.5\n1577836801;-1e3;2;2;2\n1577836802;1.5;3;x;3\n1577836803;1,2,3;3;x;3\n2020-01-01T00:00:00.5Z;4;4;4;4\n", opt: csv.Options{Measurement: "m", Columns: "time,v:float,n,s,t", DecimalComma: true, TimeFormat: "s"},
			want: `guessed from the first 5 rows: -columns 'time:time,v:float,n:integer,s:tag,t:tag'
m,s=1\,5\,5,t=1.5 v=3.5,n=1i 1577836800500000000
m,s=2,t=2 v=-1000,n=2i 1577836801000000000
4: column v: "1.5" is not a number with a decimal comma
5: column v: "1,2,3" is not a number with a decimal comma
6: column time: "2020-01-01T00:00:00.5Z" is not a number
`,
		},
		"a decimal comma, guessed": {
			in: "time;v\n1577836800,5;3,5\n1577836801;2\n", opt: csv.Options{Measurement: "m", DecimalComma: true},
			want: "guessed from the first 2 rows: -columns 'time:time,v:float' -time-format s\nm v=3.5 1577836800500000000\nm v=2 1577836801000000000\n",
		},
		"a decimal comma and dates": {
			in: "time;v\n2026-01-05T12:00:00.5Z;3,5\n2026-01-05T12:00:01,5Z;2\n", opt: csv.Options{Measurement: "m", DecimalComma: true},
			want: "guessed from the first 2 rows: -columns 'time:time,v:float'\nm v=3.5 1767614400500000000\nm v=2 1767614401500000000\n",
		},
		"a decimal comma that nobody names": {
			in: "time;v;w\n1577836800;3,5;1\n1577836801;2;1\n", opt: csv.Options{Measurement: "m"},
			want: "guessed from the first 2 rows: -columns 'time:time,v:tag,w:integer' -time-format s\nnumbers may have a decimal comma, which -decimal-comma reads: v\n" +
				"m,v=3\\,5 w=1i 1577836800000000000\nm,v=2 w=1i 1577836801000000000\n",
		},
		"the shell of 1.x without tags": {
			in: "name,time,host,usage\ncpu,1767614400000000000,a,1.5\ncpu,1767614401000000000,b,2.5\n\nname,time,n\nmem,1767614400000000000,7\n",
			want: `guessed from the first 2 rows: -columns 'name:measurement,time:time,host:tag,usage:float' -time-format ns
cpu,host=a usage=1.5 1767614400000000000
cpu,host=b usage=2.5 1767614401000000000
guessed from the first 1 rows: -columns 'name:measurement,time:time,n:integer' -time-format ns
mem n=7i 1767614400000000000
`,
		},
		"a table with a name and a time": {
			in: "name,time,v\na,1767614400,1\n", opt: csv.Options{Measurement: "m"},
			want: "guessed from the first 1 rows: -columns 'name:tag,time:time,v:integer' -time-format s\nm,name=a v=1i 1767614400000000000\n",
		},
		"columns without values at first": {
			in: "time,v,f,b,s,never\n" + strings.Repeat("1767614400,1,,,,\n", 1000) + "1767614401,1,5,,,\n1767614402,1,5.5,TRUE,,\n1767614403,1,x,1,y,\n1767614404,1,,,2,\n", opt: csv.Options{Measurement: "m"},
			want: "guessed from the first 1000 rows: -columns 'time:time,v:integer,f,b,s,never' -time-format s\n" + strings.Repeat("m v=1i 1767614400000000000\n", 1000) +
				"guessed from line 1002: column f has the type float\nm v=1i,f=5 1767614401000000000\n" +
				"guessed from line 1003: column b has the type boolean\nm v=1i,f=5.5,b=true 1767614402000000000\n" +
				"guessed from line 1004: column s has the type string\n1004: column f: \"x\" is not a number\nm v=1i,s=\"2\" 1767614404000000000\n",
		},
		"no measurement":    {in: "time,v\n1,2\n", want: "guessed from the first 1 rows: -columns 'time:time,v:integer' -time-format s\nline 1: no column has the measurement: name it with -measurement NAME or -columns COLUMN:measurement\n"},
		"no time":           {in: "v\n2\n", opt: csv.Options{Measurement: "m"}, want: "guessed from the first 1 rows: -columns 'v:integer'\nline 1: no column has the time: name it with -columns COLUMN:time\n"},
		"no field":          {in: "time,t\n2,x\n", opt: csv.Options{Measurement: "m", Columns: "t:tag"}, want: "guessed from the first 1 rows: -columns 'time:time,t:tag' -time-format s\nline 1: no column is a field: name one with -columns, for example COLUMN:float or COLUMN:string\n"},
		"no such column":    {in: "time,v\n", opt: csv.Options{Columns: "time,w:float"}, want: "line 1: the header \"time,v\" has no column \"w\"\n"},
		"no such number":    {in: "1,v\n", opt: csv.Options{Columns: "time,w:float,x"}, want: "line 1: the row has 2 cells, and 3 columns are named\n"},
		"twice":             {in: "time,v,v\n1,2,3\n", opt: csv.Options{Measurement: "m", Columns: "time:time,v:float", TimeFormat: "s"}, want: "line 1: two columns have the name \"v\"\n"},
		"two times":         {in: "a,b,v\n", opt: csv.Options{Measurement: "m", Columns: "a:time,b:time,v:float", TimeFormat: "s"}, want: "line 1: two columns have the time\n"},
		"concat":            {in: "#concat,string,a,b\n", want: "line 1: the annotation #concat is not supported\n"},
		"unknown datatype":  {in: "#datatype tag,duration,dateTime:RFC3339\na,b,c\n", want: "line 2: column \"b\": the type \"duration\" is not supported\n"},
		"datatype and head": {in: "#datatype tag,double\na,b,c\n", want: "line 2: the header has 3 cells, and #datatype has 2\n"},
		"type":              {opt: csv.Options{Columns: "a:flot"}, want: "column \"a\" has the type \"flot\", which is none of float, integer, unsigned, boolean, string, tag, time, measurement, skip\n"},
		"format":            {opt: csv.Options{TimeFormat: "rfc1123"}, want: "time format \"rfc1123\" is none of rfc3339, ns, us, ms, s, m, h, and no layout such as \"2006-01-02 15:04:05\"\n"},
		"zone":              {opt: csv.Options{Timezone: "Mars/Base"}, want: "time zone \"Mars/Base\": unknown time zone Mars/Base\n"},
		"separator":         {opt: csv.Options{Separator: ";;"}, want: "separator \";;\" is not one byte and not tab\n"},
		"two measurements":  {opt: csv.Options{Measurement: "m", Columns: "a:measurement"}, want: "the measurement is \"m\" and in the column \"a\"\n"},
		"header's quote":    {in: "a,\"b\n1,2\n", want: "line 1: the header: quote without its end\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := read(t, c.in, c.opt); got != c.want {
				t.Errorf("got\n%.3000s\nwant\n%.3000s", got, c.want)
			}
		})
	}
}

// TestTimesOfNumbers guesses the unit of times by their size, however they are written.
func TestTimesOfNumbers(t *testing.T) {
	for _, c := range []struct{ times, format, want string }{
		{"1577836800.5 1577836801", "s", "1577836800500000000 1577836801000000000"},
		{"1577836800.5123456 1577836800.25", "s", "1577836800512345600 1577836800250000000"},
		{"0.0 1577836800.5", "s", "0 1577836800500000000"},
		{"-1577836800.5 -1", "s", "-1577836800500000000 -1000000000"},
		{"1577836800 1577836801.5", "s", "1577836800000000000 1577836801500000000"},
		{"1577836800500 1577836800500.25", "ms", "1577836800500000000 1577836800500250000"},
		{"1577836800500.5 1577836800501", "ms", "1577836800500500000 1577836800501000000"},
		{"1577836800500000.5 -1577836800500000", "us", "1577836800500000500 -1577836800500000000"},
		{"1577836800500000001 -1577836800500000001", "ns", "1577836800500000001 -1577836800500000001"},
		{"1.5778368005e9 1.577836801E+09", "s", "1577836800500000000 1577836801000000000"},
		{"1.5778368005e12 15778368005e2", "ms", "1577836800500000000 1577836800500000000"},
		{"1.577836800500000001e+18 1577836800500000001.0", "ns", "1577836800500000001 1577836800500000001"},
		{"15778368005e-1 -15778368005000e-4", "s", "1577836800500000000 -1577836800500000000"},
		{"0 0.0", "ns", "0 0"},
	} {
		in, want := "time,v\n", "guessed from the first 2 rows: -columns 'time:time,v:integer' -time-format "+c.format+"\n"
		for _, at := range strings.Fields(c.times) {
			in += at + ",1\n"
		}
		for _, at := range strings.Fields(c.want) {
			want += "m v=1i " + at + "\n"
		}
		if got := read(t, in, csv.Options{Measurement: "m"}); got != want {
			t.Errorf("times %s: got\n%s\nwant\n%s", c.times, got, want)
		}
	}
	for _, at := range []string{"e9", "-e9", ".e9", "1e", "1e9e9", "1e31", "1e-31", "1e999999999", "--1e9", "0x1e9", "1_0", "1.5.5", "1e1.5", "inf", "nan", "9e18", "1e19"} {
		if got := read(t, "time,v\n"+at+",1\n", csv.Options{Measurement: "m", Columns: "time:time,v:float", TimeFormat: "s"}); !strings.HasPrefix(got, "2: column time: ") {
			t.Errorf("time %s: got %s", at, got)
		}
	}
}

// FuzzRead: no input makes the reader panic, and a row that it accepts is one line of one
// point that can be stored.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		"time,host,v\n1767614400,a,1.5\n", "#datatype measurement,tag,double,dateTime:RFC3339\nm,t,v,time\ncpu,a,1,2026-01-05T12:00:00Z\n",
		"#datatype,string,long,dateTime:RFC3339,double,string,string\n,result,table,_time,_value,_field,_measurement\n,,0,2026-01-05T12:00:00Z,1,f,m\n",
		"name,tags,time,v\ncpu,\"a=b,c=d\",1,2\n\nname,tags,time,w\nm,,1,\"x\n\"\"y\"\n", "#constant measurement,m\n#timezone -0500\n#datatype dateTime:2006-01-02,boolean\nd,b\n2026-01-05,t\n",
	} {
		f.Add([]byte(s), "")
		f.Add([]byte(s), "time,v:string")
	}
	f.Fuzz(func(t *testing.T, in []byte, columns string) {
		last := 0
		whole := func(l *mover.Line) {
			if l.From.Number <= last || !bytes.Contains(in, l.From.Text) {
				t.Fatalf("row %q of line %d after line %d", l.From.Text, l.From.Number, last)
			}
			last = l.From.Number
		}
		_ = csv.Read(bytes.NewReader(in), csv.Options{Columns: columns, Measurement: "m", Database: "d"}, &recorder{refused: whole, put: func(l *mover.Line) {
			whole(l)
			var p lineproto.Parser
			var b point.Batch
			if _, err := p.Parse(&b, point.NewTable(1), slices.Clone(l.Text), lineproto.Options{}); err != nil || len(b.Rows) != 1 {
				t.Fatalf("row %q became %q: %d rows, %v", l.From.Text, l.Text, len(b.Rows), err)
			}
		}}) // the input need not be a table
	})
}

// sink is a mover.Lines that drops what it gets.
type sink struct{}

func (sink) Put(*mover.Line) error            { return nil }
func (sink) Refuse(string, *mover.Line) error { return nil }
func (sink) Query(string) error               { return nil }

func BenchmarkRead(b *testing.B) {
	var in strings.Builder
	in.WriteString("time,host,region,usage,idle,count,state\n")
	for i := range 10_000 {
		fmt.Fprintf(&in, "2026-01-05T12:%02d:%02dZ,host%d,eu-central-1,%d.25,0.1234567,%d,ok\n", i/60%60, i%60, i%100, i, i)
	}
	for _, c := range []struct{ name, columns, format string }{
		{"typed", "time:time,host:tag,region:tag,usage:float,idle:float,count:integer,state:string", "rfc3339"},
		{"guessed", "", ""},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(in.Len()))
			for b.Loop() {
				if err := csv.Read(strings.NewReader(in.String()), csv.Options{Columns: c.columns, Measurement: "cpu", TimeFormat: c.format, Database: "d"}, sink{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*10_000/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
