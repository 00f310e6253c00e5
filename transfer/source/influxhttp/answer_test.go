package influxhttp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/tinylib/msgp/msgp"

	"tsdbd/exchange"
	"tsdbd/lineproto"
	"tsdbd/lineproto/wire"
	"tsdbd/model"
	"tsdbd/transfer/mover"
)

// asked are the fields that the answers of these tests have.
func asked() (fields []field) {
	for _, f := range []field{{key: "f", as: model.Float}, {key: "i", as: model.Integer}, {key: "u", as: model.Unsigned}, {key: "s"}, {key: "b"}, {key: "a b", as: model.Float}, {key: "x\ny", as: model.Float, refused: "a line break"}} {
		f.prefix = wire.FieldPrefix(f.key)
		fields = append(fields, f)
	}
	return fields
}

// kept is mover.Lines that keeps what it gets.
type kept struct {
	mover.Lines
	lines, refused string
	reasons        []string
}

func (k *kept) Put(l *mover.Line) error {
	k.lines += string(l.Text) + "\n"
	return nil
}

func (k *kept) Refuse(reason string, l *mover.Line) error {
	k.refused += l.Database + "." + l.Policy + "\n" + string(l.Text) + "\n"
	k.reasons = append(k.reasons, reason)
	return nil
}

// told reads an answer and returns what it passes on.
func told(f form, fields []field) (*kept, error) {
	return toldOf(f, &measurement{place: place{"d", "p"}, name: "m", fields: fields})
}

func toldOf(f form, m *measurement) (*kept, error) {
	to := &kept{}
	l := newLines(to, m, model.AllTime)
	err := readAnswer(f, l)
	if err == nil && l.refused != int64(len(to.reasons)) {
		err = fmt.Errorf("%d rows refused, %d reasons", l.refused, len(to.reasons))
	}
	return to, err
}

// TestJSON reads answers in JSON, as a whole and byte by byte.
func TestJSON(t *testing.T) {
	one := func(series string) string { return `{"results":[{"statement_id":0,"series":[` + series + `]}]}` + "\n" }
	for name, c := range map[string]struct {
		answer, want string
		refused      int
		err          error
		text         string
	}{
		"chunks of 1.x": {
			answer: `{"results":[{"statement_id":0,"series":[{"name":"m","tags":{"h":"a","z":""},"columns":["time","f","i"],"values":[[-5,1,9007199254740993]],"partial":true}],"partial":true}]}` + "\n" +
				`{"results":[{"series":[{"name":"m","tags":{"h":"a","z":""},"columns":["time","f","i"],"values":[[6,-0,null],[7,null,null]]},{"name":"m","tags":{"z":"b c","h":""},"columns":["time","f","i"],"values":[[7,1e-300,-1]]}]}]}`,
			want: "m,h=a f=1,i=9007199254740993i -5\nm,h=a f=-0 6\nm,z=b\\ c f=1e-300,i=-1i 7\n",
		},
		"all types": {
			answer: one(`{"columns":["time","u","s","b","a b"],"values":[[1,18446744073709551615,"say \"x\" \\ \u00e9\ud83d\ude00\n\/\b",true,0.1],[2,null,"",false,null]]}`),
			want:   "m u=18446744073709551615u,s=\"say \\\"x\\\" \\\\ é😀\n/\b\",b=true,a\\ b=0.1 1\nm s=\"\",b=false 2\n",
		},
		"tags as columns, as 3.x may have them": {
			answer: one(`{"name":"m","columns":["time","host","dc","f"],"values":[[1,"a",null,1],[2,"a",null,2],[3,"a","x",3],[4,null,"x",4],[5,null,null,5]]}`),
			want:   "m,host=a f=1 1\nm,host=a f=2 2\nm,dc=x,host=a f=3 3\nm,dc=x f=4 4\nm f=5 5\n",
		},
		"tags of 3.x that are null":   {answer: one(`{"name":"m","tags":{"h":null,"z":"b"},"columns":["time","f"],"values":[[1,1]]}`), want: "m,z=b f=1 1\n"},
		"no rows of 1.x":              {answer: `{"results":[{"statement_id":0}]}`},
		"no rows of 3.x":              {},
		"messages and other members":  {answer: `{"took":[1,{"a":null}],"results":[{"messages":[{"level":"warning","text":"\u12aB"}],"series":null}]}`},
		"a field with a line break":   {answer: one(`{"columns":["time","f","x\ny"],"values":[[1,1,1],[2,2,null]]}`), want: "m f=1 1\nm f=2 2\n", refused: 1},
		"a tag with a line break":     {answer: one(`{"tags":{"h":"a\nb"},"columns":["time","f"],"values":[[1,1],[2,2]]}`), refused: 2},
		"an error in the middle":      {answer: one(`{"columns":["time","f"],"values":[[1,1]]}`) + `{"results":[{"error":"query-timeout limit exceeded"}]}`, want: "m f=1 1\n", text: "query-timeout limit exceeded"},
		"an error as a whole":         {answer: `{"error":"engine is closed"}`, text: "engine is closed"},
		"truncated by max-row-limit":  {answer: `{"results":[{"series":[{"columns":["time","f"],"values":[[1,1]],"partial":true}],"partial":true}]}`, want: "m f=1 1\n", err: errTruncated},
		"cut off in a row":            {answer: `{"results":[{"series":[{"columns":["time","f"],"values":[[1,1],[2`, want: "m f=1 1\n", err: io.ErrUnexpectedEOF},
		"cut off in a string":         {answer: `{"results":[{"series":[{"columns":["time","s"],"values":[[1,"a`, err: io.ErrUnexpectedEOF},
		"a web page":                  {answer: "<html>", err: errForm},
		"values before columns":       {answer: one(`{"values":[[1,1]],"columns":["time","f"]}`), err: errForm},
		"a row with too few values":   {answer: one(`{"columns":["time","f"],"values":[[1]]}`), err: errForm},
		"a row with too many values":  {answer: one(`{"columns":["time","f"],"values":[[1,1,1]]}`), err: errForm},
		"no times":                    {answer: one(`{"columns":["f"],"values":[[1]]}`), err: errForm},
		"times as text":               {answer: one(`{"columns":["time","f"],"values":[["2020-01-01T00:00:00Z",1]]}`), err: errForm},
		"an object as a value":        {answer: one(`{"columns":["time","f"],"values":[[1,{}]]}`), err: errForm},
		"a literal that is none":      {answer: one(`{"columns":["time","f"],"values":[[1,nil]]}`), err: errForm},
		"a number without end":        {answer: one(`{"columns":["time","f"],"values":[[1,` + strings.Repeat("1", 500) + `]]}`), err: errForm},
		"nested without end":          {answer: strings.Repeat(`{"a":`, 1000), err: errForm},
		"an escape that is none":      {answer: `{"error":"\x"}`, err: errForm},
		"half a pair of surrogates":   {answer: one(`{"columns":["time","s"],"values":[[1,"\ud83d"],[2,"\ud83dx"]]}`), want: "m s=\"\uFFFD\" 1\nm s=\"\uFFFDx\" 2\n"},
		"bytes that are not UTF-8":    {answer: one(`{"columns":["time","s"],"values":[[1,"` + "a\xff\xc3" + `"]]}`), want: "m s=\"a\xff\xc3\" 1\n"},
		"numbers where text once was": {answer: one(`{"columns":["time","s","b"],"values":[[1,1,0.5]]}`), want: "m s=1,b=0.5 1\n"},
	} {
		for how, r := range map[string]io.Reader{"whole": strings.NewReader(c.answer), "by bytes": iotest.OneByteReader(strings.NewReader(c.answer))} {
			got, err := told(newJSON(r), asked())
			var q *exchange.QueryError
			switch {
			case got.lines != c.want || len(got.reasons) != c.refused:
				t.Errorf("%s, %s: refused %q, error %v\n%s\nwant\n%s", name, how, got.reasons, err, got.lines, c.want)
			case c.text != "" && (!errors.As(err, &q) || q.Text != c.text), c.text == "" && !errors.Is(err, c.err):
				t.Errorf("%s, %s: error %v, want %v%s", name, how, err, c.err, c.text)
			}
		}
	}
}

// pack appends what WriteIntf knows, and functions that append the rest.
func pack(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch p := p.(type) {
		case func([]byte) []byte:
			b = p(b)
		default:
			b, _ = msgp.AppendIntf(b, p)
		}
	}
	return b
}

func mapOf(n uint32) func([]byte) []byte {
	return func(b []byte) []byte { return msgp.AppendMapHeader(b, n) }
}

func arrayOf(n uint32) func([]byte) []byte {
	return func(b []byte) []byte { return msgp.AppendArrayHeader(b, n) }
}

// TestMsgpack reads answers in MessagePack, whose values say their types: a field may
// have been of another type in another shard.
func TestMsgpack(t *testing.T) {
	document := func(series ...any) []byte {
		return pack(append([]any{mapOf(1), "results", arrayOf(1), mapOf(2), "statement_id", 0, "series", arrayOf(1)}, series...)...)
	}
	rows := document(mapOf(5), "name", "m", "tags", mapOf(2), "h", "a", "z", "", "columns", arrayOf(6), "time", "f", "i", "u", "s", "b",
		"values", arrayOf(3),
		arrayOf(6), int64(math.MinInt64+2), 1.0, int64(math.MaxInt64), uint64(math.MaxUint64), "a\xff\n", true,
		arrayOf(6), int64(2), math.Copysign(0, -1), nil, uint64(3), nil, false,
		arrayOf(6), uint64(3), int64(7), 0.5, nil, nil, nil,
		"partial", true)
	const want = "m,h=a f=1,i=9223372036854775807i,u=18446744073709551615u,s=\"a\xff\n\",b=true -9223372036854775806\nm,h=a f=-0,u=3u,b=false 2\nm,h=a f=7i,i=0.5 3\n"
	last := document(mapOf(2), "columns", arrayOf(2), "time", "f", "values", arrayOf(1), arrayOf(2), int64(9), float32(0.5))
	truncated := pack(mapOf(1), "results", arrayOf(1), mapOf(1), "partial", true)
	for name, c := range map[string]struct {
		answer []byte
		want   string
		err    error
		text   string
	}{
		"documents":             {bytes.Join([][]byte{rows, last, nil}, []byte("\n")), want + "m f=0.5 9\n", nil, ""},
		"nothing":               {nil, "", nil, ""},
		"truncated":             {append(rows[:len(rows):len(rows)], truncated...), want, errTruncated, ""},
		"cut off":               {rows[:len(rows)-18], want[:strings.Index(want, "m,h=a f=7i")], io.ErrUnexpectedEOF, ""},
		"an error":              {pack(mapOf(1), "results", arrayOf(1), mapOf(1), "error", "out of memory"), "", nil, "out of memory"},
		"an error as a whole":   {pack(mapOf(1), "error", "no"), "", nil, "no"},
		"a value that is a map": {document(mapOf(2), "columns", arrayOf(1), "time", "values", arrayOf(1), arrayOf(1), mapOf(0)), "", errForm, ""},
		"a string without end":  {append(pack(mapOf(1)), 0xdb, 0xff, 0xff, 0xff, 0xff), "", errForm, ""},
	} {
		for how, r := range map[string]io.Reader{"whole": bytes.NewReader(c.answer), "by bytes": iotest.OneByteReader(bytes.NewReader(c.answer))} {
			got, err := told(newMsgpack(r), asked())
			var q *exchange.QueryError
			if got.lines != c.want || c.text != "" && (!errors.As(err, &q) || q.Text != c.text) || c.text == "" && !errors.Is(err, c.err) {
				t.Errorf("%s, %s: %v\n%q\nwant\n%q", name, how, err, got.lines, c.want)
			}
		}
	}
}

// TestSeveralTypes: a field that has several types is asked for by each of them that is
// no number, and each row has it once.
func TestSeveralTypes(t *testing.T) {
	fields := []field{{key: "v", as: model.Float, cast: "field"}, {key: "v", as: model.Float, cast: "string"}, {key: "v", as: model.Float, cast: "boolean"}, {key: "w"}}
	for i := range fields {
		fields[i].prefix = wire.FieldPrefix(fields[i].key)
	}
	got, err := told(newJSON(strings.NewReader(`{"results":[{"series":[{"columns":["time","v","v_1","v_2","w"],"values":[[1,1,null,null,null],[2,"a","a",null,true],[3,null,"b",null,null],[4,null,null,false,null]]}]}]}`)), fields)
	if want := "m v=1 1\nm v=\"a\",w=true 2\nm v=\"b\" 3\nm v=false 4\n"; got.lines != want || err != nil {
		t.Errorf("%q, %v", got.lines, err)
	}
	if _, err := told(newJSON(strings.NewReader(`{"results":[{"series":[{"columns":["time","v"],"values":[]}]}]}`)), fields); !errors.Is(err, errForm) {
		t.Errorf("fewer columns than fields: %v", err)
	}
}

// TestUnwritable: a measurement that line protocol cannot have is refused, not sent.
func TestUnwritable(t *testing.T) {
	for name, refused := range map[string]int{"m": 0, "#m": 1, "": 1, "a\nb": 1, "a b": 0, "\ta": 1, "\x00a": 1, " a": 0} {
		got, err := toldOf(newJSON(strings.NewReader(`{"results":[{"series":[{"columns":["time","f"],"values":[[1,1]]}]}]}`)), &measurement{place: place{"d", "p"}, name: name, fields: asked()})
		if err != nil || len(got.reasons) != refused || len(got.lines) > 0 == (refused > 0) {
			t.Errorf("%q: %v, %+v", name, err, got)
		}
	}
}

// TestUnwritableNames: a name that ends in a backslash would have what is in a string read as
// a point. Such rows are refused.
func TestUnwritableNames(t *testing.T) {
	for _, c := range []struct{ tag, field, want string }{
		{`a\\`, "s", "tag \"t\" of \"m\" ends in a backslash"},
		{`a\n`, "s", "tag \"t\" of \"m\" contains a newline"},
		{"a", `s\`, `field "s\\" of "m" ends in a backslash`},
		{"a", "s\n", `field "s\n" of "m" contains a newline`},
	} {
		f := newFake(t, "1.8.10")
		f.extra["SHOW FIELD KEYS FROM \"p\"./.*/"] = table1("m", `fieldKey","fieldType`, fmt.Sprintf(`[%q,"string"]`, c.field))
		all, err := f.connect().measurements(t.Context(), place{"d", "p"})
		if err != nil {
			t.Fatal(err)
		}
		got, err := toldOf(newJSON(strings.NewReader(fmt.Sprintf(`{"results":[{"series":[{"tags":{"t":"%s"},"columns":["time",%q],"values":[[1,"x\nevil v=1 1\n"]]}]}]}`, c.tag, c.field))), all[0])
		if err != nil || got.lines != "" || !strings.Contains(got.refused, "d.p\n# "+c.want+": \"m,t=a") {
			t.Errorf("tag %s, field %q: %v, %+v", c.tag, c.field, err, got)
		}
	}
}

// TestStamps: the newest time of lines is found, however they are cut.
func TestStamps(t *testing.T) {
	const text = "m v=1 5\nm v=\"a 9223372036854775807\nc\" -7\nm v=2i 9223372036854775806\nm v=3 8\n"
	for step := 1; step <= len(text); step++ {
		out := &kept{}
		s := &exported{to: out, of: &measurement{}, copied: copied{newest: model.AllTime.Min}}
		for at := 0; at < len(text); at += step {
			if _, err := io.WriteString(s, text[at:min(at+step, len(text))]); err != nil {
				t.Fatal(err)
			}
		}
		if out.lines != text || s.newest != 9223372036854775806 || s.rows != 4 {
			t.Errorf("by %d bytes: %d, %q", step, s.newest, out.lines)
		}
	}
}

// FuzzAnswer: no answer is a panic, and what is read of one is lines.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"results":[{"series":[{"name":"m","tags":{"h":"a"},"columns":["time","f","s"],"values":[[1,1e5,"\ud83d\ude00"]],"partial":true}]}]}`))
	f.Add(pack(mapOf(1), "results", arrayOf(1), mapOf(1), "series", arrayOf(1), mapOf(2), "columns", arrayOf(1), "time", "values", arrayOf(1), arrayOf(1), int64(1)))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, form := range []form{newJSON(bytes.NewReader(b)), newMsgpack(bytes.NewReader(b))} {
			got, _ := told(form, asked())
			for line := range lineproto.Lines([]byte(got.lines)) {
				if !bytes.HasSuffix(line, []byte("\n")) {
					t.Errorf("half a line: %q", line)
				}
			}
		}
	})
}

// TestCutFields: InfluxDB 3.x may cut the fields of a measurement into several tables.
func TestCutFields(t *testing.T) {
	f := newFake(t, "3.4.0")
	one := func(name, field string) string {
		return fmt.Sprintf(`{"name":%q,"columns":["fieldKey","fieldType"],"values":[[%q,"float"]]}`, name, field)
	}
	f.extra["SHOW FIELD KEYS"] = `{"results":[{"statement_id":0,"series":[` + one("m", "a") + "," + one("m", "b") + "," + one("n", "c") + `]}]}`
	all, err := f.connect().measurements(t.Context(), place{"d", "autogen"})
	if err != nil || len(all) != 2 || len(all[0].fields) != 2 || len(all[1].fields) != 1 {
		t.Errorf("%v, %+v", err, all)
	}
}
