package graphite

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tsdbd/services/input"
)

func show(p input.Point) string {
	p.Tags.Sort()
	s := p.Measurement
	for _, t := range p.Tags {
		s += "," + t.Key + "=" + t.Value
	}
	return fmt.Sprintf("%s %s=%v %d", s, p.Fields[0].Key, p.Fields[0].Value, p.Time)
}

var testNow = time.Unix(1000, 5)

func newParser(t testing.TB, separator string, tags []string, templates ...string) *parser {
	t.Helper()
	p, err := (&Options{Templates: templates, Separator: separator, Tags: tags}).parser()
	if err != nil {
		t.Fatal(err)
	}
	return &p
}

func TestTemplates(t *testing.T) {
	var p *parser
	f := func(path, want string) {
		t.Helper()
		got, err := p.parse(path+" 1 2", testNow)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return
		}
		if s := show(got); s != want+" 2000000000" {
			t.Errorf("%s: %s, want %s", path, s, want)
		}
	}
	p = newParser(t, "", nil)
	f("a.b.c", "a.b.c value=1")
	f("a", "a value=1")
	p = newParser(t, "", nil, "measurement.host..region.field")
	f("cpu.h1.x.eu.load", "cpu,host=h1,region=eu load=1")
	f("cpu.h1", "cpu,host=h1 value=1")
	f("cpu.h1.x.eu.load.more", "cpu,host=h1,region=eu load=1")
	p = newParser(t, "_", nil, "host.measurement*")
	f("h1.cpu.load.avg", "cpu_load_avg,host=h1 value=1")
	f("h1", "h1,host=h1 value=1") // no measurement is left: the path
	p = newParser(t, "_", nil, "measurement.host.host.field*")
	f("cpu.a.b.c.d", "cpu,host=a_b c_d=1")
	f("cpu.a", "cpu,host=a value=1")
	p = newParser(t, "_", nil, "measurement.x.measurement.x.measurement")
	f("a.1.b.2.c", "a_b_c,x=1_2 value=1")
	p = newParser(t, "", []string{"dc=one", "host=none"}, "measurement.host dc=two,y=z")
	f("cpu.a", "cpu,dc=two,host=a,y=z value=1")
	f("cpu", "cpu,dc=two,host=none,y=z value=1")
	p = newParser(t, "", nil, "servers.* .host.measurement*", "servers.localhost .host.field.measurement x=y", "servers.*.cpu .a.b.measurement", "stats.*.* measurement.x.field", "measurement.rest*")
	f("servers.h.mem", "mem,host=h value=1")
	f("servers.localhost.mem.used", "used,host=localhost,x=y mem=1")
	f("servers.h.cpu.used", "used,a=h,b=cpu value=1")
	f("servers.localhost.cpu.used", "used,host=localhost,x=y cpu=1") // the exact part goes first
	f("stats.a.b", "stats,x=a b=1")
	f("other.a.b", "other,rest*=a value=1")
	f("stats.a", "stats,rest*=a value=1")
	p = newParser(t, "", nil, "a.*.c measurement.x", "a.b.d measurement.y", "measurement*")
	f("a.b.c", "a.b.c value=1") // no way back from b
	f("a.z.c", "a,x=z value=1")
	p = newParser(t, "", nil)
	f("cpu.load;host=a;dc=b", "cpu.load,dc=b,host=a value=1")
}

func TestLines(t *testing.T) {
	p := newParser(t, "", nil)
	f := func(line, want string) {
		t.Helper()
		got, err := p.parse(line, testNow)
		if err != nil {
			if want == "" || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", line, err, want)
			}
			return
		}
		if s := show(got); s != want {
			t.Errorf("%s: %s, want %s", line, s, want)
		}
	}
	f("a 1 2", "a value=1 2000000000")
	f("a\t1  2", "a value=1 2000000000")
	f("a -1.5e3 2.25", "a value=-1500 2250000000")
	f("a 1", "a value=1 1000000000005")
	f("a 1 -1", "a value=1 1000000000005")
	f("a 1 -1.0", "a value=1 1000000000005")
	f("a 1 N", "a value=1 1000000000005")
	f("a 1 -1.5", "a value=1 -1500000000")
	f("a 1 2147472000", "a value=1 2147472000000000000")
	f("a 1 2147472001", "1901 and 2038")
	f("a 1 1500000000000", "1901 and 2038")
	f("a 1 -99999999999", "1901 and 2038")
	f("a 1 NaN", "1901 and 2038")
	f("a 1 x", "1901 and 2038")
	f("a x 1", "value is no number")
	f("a 1e999 1", "a value=+Inf 1000000000") // refused by the batcher
	f("a NaN 1", "a value=NaN 1000000000")
	f("a", "not path, value")
	f("a 1 2 3", "not path, value")
	f("a;b 1 2", "tag is not")
	f("a;=b 1 2", "tag is not")
	f("a;b= 1 2", "tag is not")
}

func TestBadTemplates(t *testing.T) {
	f := func(want string, templates ...string) {
		t.Helper()
		if err := (&Options{Templates: templates}).Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", templates, err, want)
		}
	}
	f("want [filter]", "")
	f("want [filter]", "a b c d")
	f("no measurement", "a.b")
	f("field occurs twice", "measurement.field.field")
	f("both measurement* and field*", "measurement*.field*")
	f("is empty or has a *", "a..b measurement")
	f("is empty or has a *", "a*.b measurement")
	f(`filter "a" occurs twice`, "a measurement", "a measurement.host")
	f(`filter "" occurs twice`, "measurement", "measurement.host")
	f(`tag "x" is not`, "a measurement x")
	f(`tag "x=y=z" is not`, "measurement x=y=z")
	f(`tag "x" occurs twice`, "measurement x=y,x=z")
	for _, o := range []Options{{Protocol: "sctp"}, {Tags: []string{"x"}}} {
		if o.Check() == nil {
			t.Errorf("%+v passes", o)
		}
	}
}

// FuzzParse holds that no line makes a parser panic and that what it makes of
// one has all that a point needs.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"a.b.c 1 2", "servers.h.cpu 1.5 N", "a;b=c;d=e -1 1e9", "..;= NaN -1", "\xff. 0x1p-2 1_000"} {
		f.Add(s)
	}
	p := newParser(f, "_", []string{"dc=one"}, "servers.* .host.measurement*", "a.* measurement.x.field*", "*.* ..measurement.y.y")
	f.Fuzz(func(t *testing.T, line string) {
		point, err := p.parse(line, testNow)
		if err == nil && (point.Measurement == "" && !strings.HasPrefix(strings.TrimSpace(line), ";") || len(point.Fields) != 1 || point.Fields[0].Key == "") {
			t.Errorf("%q: %+v", line, point)
		}
	})
}
