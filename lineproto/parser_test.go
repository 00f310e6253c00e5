package lineproto

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/proc"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
)

// render writes a batch as text: a line a point, "key|field:type=value ... @time".
func render(b *point.Batch) string {
	var out strings.Builder
	for _, r := range b.Rows {
		fmt.Fprintf(&out, "%s|", r.Series.Key())
		for i, f := range r.Layout.Fields {
			fmt.Fprintf(&out, "%s:%s=%q ", f.Key, f.Type, valueText(f.Type, b.Values[int(r.First)+i], b.Strings))
		}
		fmt.Fprintf(&out, "@%d\n", r.Time)
	}
	return out.String()
}

// parseAll parses body with an empty table, again with the table and parser of
// the first time, with a new parser, and by the slow path alone. All must give
// the same.
func parseAll(t *testing.T, body string, opt Options) (string, *Errors) {
	t.Helper()
	table := point.NewTable(1)
	var p, q, slow Parser
	var want string
	var wantErr *Errors
	for i := range 4 {
		var b point.Batch
		var n int
		var err error
		buf := []byte(body)
		switch i {
		case 0, 1:
			n, err = p.Parse(&b, table, buf, opt)
		case 2:
			n, err = q.Parse(&b, table, buf, opt)
		case 3:
			var e *Errors
			if n, e = slow.parseSlow(&b, point.NewTable(1), buf, opt); e != nil {
				err = e
			}
		}
		clear(buf) // nothing of it may be in use
		errs, _ := err.(*Errors)
		if n != len(b.Rows) {
			t.Fatalf("%.500q: %d points, %d rows", body, n, len(b.Rows))
		}
		checkBatch(t, body, &b)
		got := render(&b)
		if i == 0 {
			want, wantErr = got, errs
			continue
		}
		if got != want || fmt.Sprint(errs) != fmt.Sprint(wantErr) || errs != nil && (errs.BadLines != wantErr.BadLines || errs.Refused != wantErr.Refused) {
			t.Fatalf("%.500q: reading %d differs\n%.500s%.500v\nfirst\n%.500s%.500v", body, i, got, errs, want, wantErr)
		}
	}
	return want, wantErr
}

// checkBatch checks what every batch promises.
func checkBatch(t *testing.T, body string, b *point.Batch) {
	t.Helper()
	end := 0
	for _, r := range b.Rows {
		if int(r.First) != end {
			t.Fatalf("%.500q: row begins at value %d, want %d", body, r.First, end)
		}
		end += len(r.Layout.Fields)
		seen := map[string]bool{}
		for _, f := range r.Layout.Fields {
			if seen[f.Key] || f.Key == "" || !f.Type.Valid() {
				t.Fatalf("%.500q: layout %+v", body, r.Layout)
			}
			seen[f.Key] = true
		}
		if r.Time < model.MinTime || r.Time > model.MaxTime {
			t.Fatalf("%.500q: time %d", body, r.Time)
		}
		name, tags := model.ParseSeriesKey(r.Series.Key(), nil)
		if key := string(model.AppendSeriesKey(nil, name, tags)); key != r.Series.Key() || name != r.Layout.Measurement {
			t.Fatalf("%.500q: series key %q reads as %q, layout of %q", body, r.Series.Key(), key, r.Layout.Measurement)
		}
		for i := 1; i < len(tags); i++ {
			if tags[i-1].Key >= tags[i].Key {
				t.Fatalf("%.500q: tags of %q are not sorted", body, r.Series.Key())
			}
		}
	}
	if end != len(b.Values) {
		t.Fatalf("%.500q: %d values, rows have %d", body, len(b.Values), end)
	}
}

func TestAccept(t *testing.T) {
	second := Options{Unit: int64(time.Second), Now: 1_500_000_000_123_456_789}
	for _, c := range []struct {
		body string
		opt  Options
		want string
	}{
		{"", Options{}, ""},
		{"\n\n  \n\t\n\x00\n", Options{}, ""},
		{"# c\n  # d\n\t#e", Options{}, ""},
		{"# a=\"\nm v=1 1\n", Options{}, `m|v:float="1" @1`},
		{"m v=1 1", Options{}, `m|v:float="1" @1`},
		{"m v=0x7ff0000000000002,w=-1 1\nm v=0x7ff0000000000000 1", Options{}, "m|v:float=\"NaN\" w:float=\"-1\" @1\nm|v:float=\"+Inf\" @1"},
		{"m v=1 1\n", Options{}, `m|v:float="1" @1`},
		{" \t\x00m v=1 1 \n", Options{}, `m|v:float="1" @1`},
		{"m   v=1   1   ", Options{}, `m|v:float="1" @1`},
		{"m \tv=1 \t1", Options{}, `m|v:float="1" @1`},
		{"m v=1", Options{Now: 5}, `m|v:float="1" @5`},
		{"m v=1 \nm v=2\n", Options{Now: 5}, `m|v:float="1" @5` + "\n" + `m|v:float="2" @5`},
		{"m v=1", second, `m|v:float="1" @1500000000000000000`},
		{"m v=1 1500000000", second, `m|v:float="1" @1500000000000000000`},
		{"m v=1 -1", second, `m|v:float="1" @-1000000000`},
		{"m v=1", Options{Unit: int64(time.Minute), Now: -1}, `m|v:float="1" @-60000000000`},
		{"m v=1 9223372036854775806\nm v=1 -9223372036854775806", Options{}, `m|v:float="1" @9223372036854775806` + "\n" + `m|v:float="1" @-9223372036854775806`},
		{"m v=1 153722867", Options{Unit: int64(time.Minute)}, `m|v:float="1" @9223372020000000000`},
		{"m v=1 000000000000000000000000000005", Options{}, `m|v:float="1" @5`},

		{
			"m a=1i,b=-1i,c=0i,d=-0i,e=9223372036854775807i,f=-9223372036854775808i,g=000000000000000000000001i 1",
			Options{},
			`m|a:integer="1" b:integer="-1" c:integer="0" d:integer="0" e:integer="9223372036854775807" f:integer="-9223372036854775808" g:integer="1" @1`,
		},
		{"m a=12345678i,b=123456789012345678i,c=1234567890123456789i 1", Options{}, `m|a:integer="12345678" b:integer="123456789012345678" c:integer="1234567890123456789" @1`},
		{"m a=1u,b=0u,c=18446744073709551615u,d=9223372036854775808u 1", Options{}, `m|a:unsigned="1" b:unsigned="0" c:unsigned="18446744073709551615" d:unsigned="9223372036854775808" @1`},
		{
			"m a=t,b=T,c=true,d=True,e=TRUE,f=f,g=F,h=false,i=False,j=FALSE 1",
			Options{},
			`m|a:boolean="true" b:boolean="true" c:boolean="true" d:boolean="true" e:boolean="true" f:boolean="false" g:boolean="false" h:boolean="false" i:boolean="false" j:boolean="false" @1`,
		},
		{
			"m a=1.,b=.5,c=-.5,d=-0,e=1e3,f=1E-3,g=1e+3,h=0.1234567890123456789 1",
			Options{},
			`m|a:float="1" b:float="0.5" c:float="-0.5" d:float="-0" e:float="1000" f:float="0.001" g:float="1000" h:float="0.12345678901234568" @1`,
		},
		{"m a=1e-400,b=123456789012345678901234567890 1", Options{}, `m|a:float="0" b:float="1.2345678901234568e+29" @1`},

		{`m s="" 1`, Options{}, `m|s:string="" @1`},
		{`m s="a b,c=d",t="x" 1`, Options{}, `m|s:string="a b,c=d" t:string="x" @1`},
		{"m s=\"two\nlines\",v=1 1\nm s=\"x\",v=2 2", Options{}, `m|s:string="two\nlines" v:float="1" @1` + "\n" + `m|s:string="x" v:float="2" @2`},
		{`m s="a\"b\\c\nd\\\"" 1`, Options{}, `m|s:string="a\"b\\c\\nd\\\"" @1`},
		{`m s="abc"d 1`, Options{}, `m|s:string="abc\"" @1`},
		{"m s=\"a\"\r", Options{}, `m|s:string="a\"" @0`},
		{`m s="é"` + "\xff 1", Options{}, `m|s:string="é\"" @1`},
		{`m s="#",t="# no comment" 1`, Options{}, `m|s:string="#" t:string="# no comment" @1`},

		{`m\ 1,t\,1=v\=1,k\=2=\ x f\ 1=1,f\,2=2,f\=3=3 1`, Options{}, `m\ 1,k\=2=\ x,t\,1=v\=1|f 1:float="1" f,2:float="2" f=3:float="3" @1`},
		{`m\=1\"2=3,t=a f\"g=1 1`, Options{}, `m=1"2=3,t=a|f"g:float="1" @1`},
		{`m,b=2,a=1 v=1 1` + "\n" + `m,a=1,b=2 v=2 2`, Options{}, `m,a=1,b=2|v:float="1" @1` + "\n" + `m,a=1,b=2|v:float="2" @2`},
		{`m,t="q" v=1 1`, Options{}, `m,t="q"|v:float="1" @1`},
		{`m,t==x v=1 1` + "\n" + `m,t=\=x v=2 2`, Options{}, `m,t=\=x|v:float="1" @1` + "\n" + `m,t=\=x|v:float="2" @2`},
		{`m,t=a\b,u=c\\d v=1 1`, Options{}, `m,t=a\b,u=c\\d|v:float="1" @1`},
		{"m\t,t\x01=\x7f\tx v\t=1 1", Options{}, "m\t,t\x01=\x7f\tx|v\t:float=\"1\" @1"},
		{"m\xff\xfe,\x00h=a\r\x00 v\r=1 5\nm\xff\xfe,\x00h=a\r\x00 v\r=2 6", Options{}, "m\xff\xfe,\x00h=a\r\x00|v\r:float=\"1\" @5\nm\xff\xfe,\x00h=a\r\x00|v\r:float=\"2\" @6"},
		{"m,g=é,h=a\xc3 v\x80=1,w\x00=1 5", Options{}, "m,g=é,h=a\xc3|v\x80:float=\"1\" w\x00:float=\"1\" @5"},
		{"m\\\nx,h=a\\\nb a=1,v\\\n=2 5", Options{}, "m\\\nx,h=a\\\nb|a:float=\"1\" v\\\n:float=\"2\" @5"},
		{`m,a-=1,a=2 v=1 1`, Options{}, `m,a=2,a-=1|v:float="1" @1`},
		{`m,a\ b=1,a!=2 v=1 1`, Options{}, `m,a\ b=1,a!=2|v:float="1" @1`},

		{"m v=1,v=2 1", Options{}, `m|v:float="2" @1`},
		{"m v=1,w=5i,v=2,w=6i 1", Options{}, `m|v:float="2" w:integer="6" @1`},
		{"m time=1,v=2 1", Options{}, `m|time:float="1" v:float="2" @1`},
		{"m,time=x v=2 1", Options{}, `m,time=x|v:float="2" @1`},
		{
			"m v=1 1\nm w=1 2\nm v=1 3\nm v=1i 4\nm v=1,w=1 5",
			Options{},
			`m|v:float="1" @1` + "\n" + `m|w:float="1" @2` + "\n" + `m|v:float="1" @3` + "\n" + `m|v:integer="1" @4` + "\n" + `m|v:float="1" w:float="1" @5`,
		},
	} {
		want := c.want
		if want != "" {
			want += "\n"
		}
		want = strings.ReplaceAll(want, " @", " @")
		if got, errs := parseAll(t, c.body, c.opt); got != want || errs != nil {
			t.Errorf("%q:\n%s%v\nwant\n%s", c.body, got, errs, want)
		}
	}
}

func TestReject(t *testing.T) {
	long := strings.Repeat("k", 65_536)
	for _, c := range []struct{ line, reason string }{
		{"x v", "invalid field format"},
		{"x v=", "missing field value"},
		{"x ", "invalid field format"},
		{"\r", "missing fields"},
		{"x v=1 abc", "bad timestamp"},
		{"x v=1i2", "invalid number"},
		{"x,a= v=1", "missing tag value"},
		{"x,a v=1", "missing tag value"},
		{"x, v=1", "missing tag key"},
		{"x,a=b=c v=1", "invalid tag format"},
		{`x,t=a\ v=1`, "invalid tag format"},
		{"x v=tru", "invalid boolean"},
		{"x v=trueX", "invalid boolean"},
		{"x v=True1 1", "invalid boolean"},
		{"x v=1\r", "invalid number"},
		{"x v=t\r", "invalid boolean"},
		{"x v=1 1\r", "bad timestamp"},
		{"x v=1 1\t", "bad timestamp"},
		{"x v=1 1 \t", "point is invalid"},
		{"x v=1\t1", "invalid number"},
		{"x\tv=1", "missing fields"},
		{"x v=1 -", `strconv.ParseInt: parsing "-": invalid syntax`},
		{"x v=1 1 2", "point is invalid"},
		{"x v=NaN", "invalid boolean"}, // replaced below
		{"x v=1_0", "invalid number"},
		{"x v=-1u", "invalid number"},
		{"x v=0x7fefffffffffffff", "invalid number"}, // finite
		{"x v=0x7ff000000000000", "invalid number"},
		{"x v=0x7ff00000000000002", "invalid number"},
		{"x v=-0x7ff0000000000002", "invalid number"},
		{"x v=0X7ff0000000000002", "invalid number"},
		{"x v=0x7ff_000000000002", "invalid number"},
		{"x v=0x+ff0000000000002", "invalid number"},
		{"x v=18446744073709551616u", `unable to parse unsigned 18446744073709551616: strconv.ParseUint: parsing "18446744073709551616": value out of range`},
		{"x v=9223372036854775808i", `unable to parse integer 9223372036854775808: strconv.ParseInt: parsing "9223372036854775808": value out of range`},
		{"x v=-9223372036854775809i", `unable to parse integer -9223372036854775809: strconv.ParseInt: parsing "-9223372036854775809": value out of range`},
		{"x v=1e400", "invalid float"},
		{"x v=1.5.5", "invalid number"},
		{"x v=--1", "invalid number"},
		{"x v=1ii", "invalid number"},
		{"x v=1iu", "invalid number"},
		{"x v=1e5i", "invalid number"},
		{"x v=1,", "invalid field format"},
		{"x v=1,w", "invalid field format"},
		{"x v=1,,w=2", "invalid field format"},
		{`x v="a`, "unbalanced quotes"},
		{`x v="a\"`, "unbalanced quotes"},
		{`x v="a" b`, "bad timestamp"},
		{`x v="a"b=1`, "invalid field format"},
		{`x v="a"b=1,c`, "invalid field format"},
		{`x a\\=1`, "invalid field format"},
		{"x \t=1", "missing field key"},
		{"x,b=1,a=2,b=3 v=1", "duplicate tags"},
		{"x v=1 9223372036854775807", "time outside range -9223372036854775806 - 9223372036854775806"},
		{"x v=1 -9223372036854775807", "time outside range -9223372036854775806 - 9223372036854775806"},
		{"x v=1 9223372036854775808", `strconv.ParseInt: parsing "9223372036854775808": value out of range`},
		{long + " v=1 1", "max key length exceeded: 65536 > 65535"},
		{"x,h=" + long + " v=1 1", "max key length exceeded: 65540 > 65535"},
		{"x " + long + "=1 1", "max key length exceeded: 65541 > 65535"},
		{"x,h==" + long[:65530] + " v=1 1", "max key length exceeded: 65540 > 65535"},
	} {
		if c.line == "x v=NaN" {
			c.reason = "invalid number"
		}
		want := "unable to parse '" + c.line + "': " + c.reason
		// Alone, and among good lines that are met again.
		got, errs := parseAll(t, c.line, Options{})
		if got != "" || errs == nil || errs.Error() != want {
			t.Errorf("%.100q: %s %.300v", c.line, got, errs)
		}
		if strings.Contains(c.reason, "quotes") {
			continue
		}
		got, errs = parseAll(t, "x v=1 1\n"+c.line+"\nx v=1 1", Options{})
		if errs == nil || errs.Error() != want || got != "x|v:float=\"1\" @1\nx|v:float=\"1\" @1\n" {
			t.Errorf("%.100q: %s %.300v", c.line, got, errs)
		}
	}
}

// TestColumnKeyLength: a series and a field that are known each may still be
// too long together.
func TestColumnKeyLength(t *testing.T) {
	series, field := "m,t="+strings.Repeat("s", 40_000), strings.Repeat("f", 30_000)
	body := series + " v=1 1\nm " + field + "=1 1\n" + series + " " + field + "=1 1\n"
	got, errs := parseAll(t, body, Options{})
	if errs == nil || errs.BadLines != 1 || errs.Bad[0].Reason != "max key length exceeded: 70008 > 65535" || strings.Count(got, "\n") != 2 {
		t.Errorf("%.200v", errs)
	}
}

func TestTimeRangeByUnit(t *testing.T) {
	for _, c := range []struct {
		precision string
		most      int64
	}{{"n", 9223372036854775806}, {"u", 9223372036854775}, {"ms", 9223372036854}, {"s", 9223372036}, {"m", 153722867}, {"h", 2562047}} {
		unit, err := Unit(c.precision, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, sign := range []int64{1, -1} {
			got, errs := parseAll(t, fmt.Sprintf("m v=1 %d", sign*c.most), Options{Unit: unit})
			if want := fmt.Sprintf("m|v:float=\"1\" @%d\n", sign*c.most*unit); got != want || errs != nil {
				t.Errorf("%s: %s %v, want %s", c.precision, got, errs, want)
			}
			_, errs = parseAll(t, fmt.Sprintf("m v=1 %d", sign*(c.most+1)), Options{Unit: unit})
			if errs == nil || !strings.HasSuffix(errs.Error(), "time outside range -9223372036854775806 - 9223372036854775806") {
				t.Errorf("%s: %v", c.precision, errs)
			}
		}
	}
}

func TestUnit(t *testing.T) {
	for _, c := range []struct {
		precision string
		v2        bool
		unit      int64
		err       string
	}{
		{"", false, 1, ""},
		{"n", false, 1, ""},
		{"ns", false, 1, ""},
		{"u", false, 1e3, ""},
		{"ms", false, 1e6, ""},
		{"s", false, 1e9, ""},
		{"m", false, 60e9, ""},
		{"h", false, 3600e9, ""},
		{"us", false, 0, `invalid precision "us" (use n, u, ms, s, m or h)`},
		{"d", false, 0, `invalid precision "d" (use n, u, ms, s, m or h)`},
		{"", true, 1, ""},
		{"ns", true, 1, ""},
		{"us", true, 1e3, ""},
		{"ms", true, 1e6, ""},
		{"s", true, 1e9, ""},
		{"n", true, 0, `invalid precision "n" (use ns, us, ms or s)`},
		{"h", true, 0, `invalid precision "h" (use ns, us, ms or s)`},
	} {
		unit, err := Unit(c.precision, c.v2)
		if unit != c.unit || err == nil && c.err != "" || err != nil && err.Error() != c.err {
			t.Errorf("Unit(%q, %v) = %d, %v", c.precision, c.v2, unit, err)
		}
	}
}

func TestRefused(t *testing.T) {
	tooLong := "m a=1,s=\"" + strings.Repeat("x", 1<<24) + "\" 1"
	for _, c := range []struct{ line, reason string }{
		{"m v=1,w=2,v=2i 1", `field type conflict: input field "v" on measurement "m" is type integer, already exists as type float`},
		{tooLong, `input field "s" on measurement "m" is too long, 16777216 > 1048576`},
		{"m v=1,\tw=1 5", `field "\tw" of "m" begins with a tab or a zero byte`},
		{"m v=1,\x00w=1 5", `field "\x00w" of "m" begins with a tab or a zero byte`},
	} {
		got, errs := parseAll(t, "m v=1 1\n"+c.line+"\nm v=3 3", Options{})
		if got != "m|v:float=\"1\" @1\nm|v:float=\"3\" @3\n" || errs == nil || errs.Refused != 1 || errs.BadLines != 0 || errs.Error() != c.reason {
			t.Errorf("%.50q: %.300s %.300v", c.line, got, errs)
		}
	}
	// Bad lines and refused points together: both are told.
	_, errs := parseAll(t, "m v=1,v=2i 1\nm v=\nm v=t,v=1 1", Options{})
	if errs == nil || errs.Refused != 2 || errs.BadLines != 1 || errs.Error() != "unable to parse 'm v=': missing field value" ||
		!strings.HasPrefix(errs.RefusedReason, "field type conflict: input field \"v\" on measurement \"m\" is type integer") {
		t.Errorf("%+v", errs)
	}
}

// TestLongStrings: what a word can hold goes through.
func TestLongStrings(t *testing.T) {
	for _, n := range []int{1 << 20, 1<<24 - 1} {
		for _, plain := range []bool{true, false} {
			s := strings.Repeat("x", n)
			text := s
			if !plain {
				s = s[1:] + `"`
				text = s[:n-1] + `\"`
			}
			var p Parser
			var b point.Batch
			table := point.NewTable(1)
			for range 2 {
				b.Reset()
				if k, err := p.Parse(&b, table, []byte("m s=\""+text+"\" 1\n"), Options{}); k != 1 || err != nil {
					t.Fatalf("%d: %d %.200v", n, k, err)
				}
				if string(column.StringAt(b.Values[0], b.Strings)) != s {
					t.Fatalf("%d: string differs", n)
				}
			}
		}
	}
}

// TestErrorsBounded: a body of bad lines does not become an error text many
// times its size.
func TestErrorsBounded(t *testing.T) {
	var p Parser
	var b point.Batch
	_, err := p.Parse(&b, point.NewTable(1), []byte(strings.Repeat("x\n", 1_000_000)), Options{})
	errs := err.(*Errors)
	if errs.BadLines != 1_000_000 || len(errs.Bad) < 1000 || len(errs.Error()) > 3<<20 {
		t.Errorf("%d bad lines, %d kept, text of %d bytes", errs.BadLines, len(errs.Bad), len(errs.Error()))
	}
	if want := fmt.Sprintf("and %d more lines", errs.BadLines-len(errs.Bad)); !strings.HasSuffix(errs.Error(), want) {
		t.Errorf("text does not end with %q", want)
	}
	long := strings.Repeat("y", 3<<20)
	_, err = p.Parse(&b, point.NewTable(1), []byte(long), Options{})
	if errs := err.(*Errors); len(errs.Bad) != 1 || errs.Bad[0].Line != long {
		t.Error("first bad line is cut")
	}
}

// TestLinearTime feeds bodies that would take quadratic time if a search for a
// byte were begun anew at every line.
func TestLinearTime(t *testing.T) {
	const n = 4 << 20
	for name, body := range map[string]string{
		"no spaces":       strings.Repeat("x\n", n/2),
		"far space":       strings.Repeat(strings.Repeat("x\n", 30_000)+" ", n/60_000),
		"escaped spaces":  "m" + strings.Repeat("\\ ", n/2),
		"no quotes":       strings.Repeat("m s=\"\n", n/6),
		"blank lines":     strings.Repeat("\n", n),
		"blanks":          strings.Repeat(" ", n),
		"comments":        strings.Repeat("#\n", n/2),
		"many fields":     "m " + strings.Repeat("a=1,", n/8) + "b=1 1",
		"distinct fields": "m " + distinct("f%d=1,", n/16) + "b=1 1",
		"many tags":       "m" + distinct(",t%d=1", 5000) + " v=1 1",
	} {
		start := proc.CPUTime()
		var p Parser
		var b point.Batch
		table := point.NewTable(1)
		for range 2 {
			p.Parse(&b, table, []byte(body), Options{})
		}
		if d := proc.CPUTime() - start; d > 10*time.Second {
			t.Errorf("%s: %v", name, d)
		}
	}
}

func distinct(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// TestNoAllocations: known series cost no allocation, neither on the predicted
// path nor with other fields than last time.
func TestNoAllocations(t *testing.T) {
	bodies := [][]byte{
		dataSets[0].bodies(50, 1, 500)[0], dataSets[1].bodies(50, 1, 500)[0],
		[]byte("m,a=b s=\"text\",b=true,u=5u 1\nm,a=c s=\"text\",b=true 2\n"),
	}
	table := point.NewTable(1)
	var p Parser
	var b point.Batch
	run := func() {
		for _, body := range bodies {
			b.Reset()
			if _, err := p.Parse(&b, table, body, Options{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	run()
	if n := testing.AllocsPerRun(10, run); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
