package transfer_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	pq "github.com/parquet-go/parquet-go"

	"tsdbd/exchange"
	"tsdbd/exchange/rows"
	"tsdbd/internal/vfs"
	"tsdbd/meta"
	"tsdbd/model/scan/scantest"
	"tsdbd/transfer/mover"
	sinkcsv "tsdbd/transfer/sink/csv"
	"tsdbd/transfer/sink/parquet"
	"tsdbd/transfer/sink/samples"
	"tsdbd/transfer/sink/server"
	"tsdbd/transfer/source/csv"
	"tsdbd/transfer/source/lines"
)

// awkward has every type at its bounds and names with every character that some format
// treats as its own.
func awkward(t *testing.T) *scantest.Store {
	s := scantest.New()
	s.Create("a,\"b", "auto # gen")
	s.Create("a,\"b", "other")
	lines := []string{
		"cpu,host=a\\ b,x=é f=1.5,i=-9223372036854775808i,u=18446744073709551615u,b=true,s=\"q\\\"uo,te\n#line\r\n\" 1500000000000000001",
		"cpu,host=#c f=0x7ff0000000000002,s=\"\" 1500000000000000002",
		"cpu f=0x7ff8000000000001,host=\"a field\",i=9223372036854775807i,b=false 1500000000000000003",
		"cpu f=0x7fff000000000009 1500000000000000004",
		"cpu,host=a\\ b f=0xfff0000000000000 1400000000000000000",
		"cpu,host=a\\ b f=0x7ff0000000000000,s=\" x \" 1400000000000000001",
		"we\\,ird\\ \\=m\\ ,\\ t\\ =v\\ ,_field=x,_value=\"y \"f\"=-0,\\ f\\ =1e300,_time=5e-324 -9223372036854775806",
		"we\\,ird\\ \\=m\\ ,measurement=m \"f\"=7,_field=3i,measurement=\"\" 9223372036854775806",
		"../..%\\ ☃ v=1 0",
		"NaN,inf=NaN nan=\"NaN\",true=\"true\" 0",
	}
	s.Write(t, "a,\"b", "auto # gen", "ns", strings.Join(lines, "\n"))
	s.Write(t, "a,\"b", "other", "ns", "cpu v=1i 5\nchanged v=1i 0")
	s.Write(t, "a,\"b", "other", "ns", "changed v=1.5 1500000000000000000")
	return s
}

// points returns the lines of an export, sorted.
func points(t *testing.T, s exchange.Source) []string {
	t.Helper()
	var text strings.Builder
	if _, err := exchange.Export(t.Context(), s, &text, exchange.ExportOptions{}); err != nil {
		t.Fatal(err)
	}
	var out []string
	place := ""
	for _, line := range strings.SplitAfter(strings.ReplaceAll(text.String(), "\n#line\r\n", "<line>"), "\n") {
		if strings.HasPrefix(line, "# CONTEXT") {
			place += line
			if strings.HasPrefix(line, "# CONTEXT-DATABASE") {
				place = line
			}
		} else if line != "" && line[0] != '#' {
			out = append(out, place+line)
		}
	}
	slices.Sort(out)
	return out
}

// TestCSVRoundTrip imports an export as CSV.
func TestCSVRoundTrip(t *testing.T) {
	from := awkward(t)
	var text bytes.Buffer
	n, err := exchange.ExportRows(t.Context(), from, sinkcsv.NewWriter(&text, false), exchange.Filter{}, nil)
	if err != nil || n != 13 {
		t.Fatalf("%d rows, %v", n, err)
	}
	to := scantest.New()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/query" {
			q := r.FormValue("q")
			switch {
			case strings.HasPrefix(q, `CREATE DATABASE "a,\"b" WITH DURATION INF `) && strings.HasSuffix(q, `NAME "auto # gen"`):
				to.Create("a,\"b", "auto # gen")
			case strings.HasPrefix(q, `CREATE RETENTION POLICY "other" ON "a,\"b" DURATION INF `):
				to.Create("a,\"b", "other")
			default:
				t.Errorf("statement %s", q)
			}
			_, _ = io.WriteString(w, `{"results":[{}]}`)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		to.Write(t, r.URL.Query().Get("db"), r.URL.Query().Get("rp"), "ns", string(body))
		w.WriteHeader(http.StatusNoContent)
	}))
	defer web.Close()
	part := lines.Part("f", &text, func(r *bufio.Reader, to mover.Lines) error { return csv.Read(r, csv.Options{}, to) })
	stats, err := mover.Run(t.Context(), &mover.List{Items: []*mover.Part{part}}, server.New(&exchange.Client{URL: web.URL}, server.Options{Workers: 1}), mover.Options{})
	if err != nil || stats.Written != n || stats.Refused != 0 || stats.Statements != 2 {
		t.Fatalf("%+v, %v", stats, err)
	}
	if got, want := points(t, to), points(t, from); !reflect.DeepEqual(got, want) {
		t.Errorf("imported\n%s\nwant\n%s", strings.Join(got, ""), strings.Join(want, ""))
	}
}

// TestBareCSV shows a table as other programs get it.
func TestBareCSV(t *testing.T) {
	s := scantest.New()
	s.Create("d", "autogen")
	s.Write(t, "d", "", "s", "cpu,host=a usage=1.5 10\ncpu,host=b,zone=x idle=2i 604810\nmem,host=a used=1u 10")
	for measurement, want := range map[string]string{
		"cpu": `#datatype measurement,tag,tag,dateTime:RFC3339Nano,long,double
measurement,host,zone,time,idle,usage
cpu,a,,1970-01-01T00:00:10.000000000Z,,1.5
cpu,b,x,1970-01-08T00:00:10.000000000Z,2,
`,
		"m*": `#datatype measurement,tag,dateTime:RFC3339Nano,unsignedLong
measurement,host,time,used
mem,a,1970-01-01T00:00:10.000000000Z,1
`,
		"none": "",
	} {
		var text strings.Builder
		_, err := exchange.ExportRows(t.Context(), s, sinkcsv.NewWriter(&text, true), exchange.Filter{Measurements: []string{measurement}}, nil)
		if err != nil || text.String() != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", measurement, err, text.String(), want)
		}
	}
}

// parquetColumn is a column of a file, with nil, a number, a boolean, or a text for each row.
type parquetColumn struct {
	kind   string
	values []any
}

// readParquet returns the columns of a file by their names.
func readParquet(t *testing.T, path string) map[string]parquetColumn {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := pq.OpenFile(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	out := map[string]parquetColumn{}
	fields := file.Schema().Fields()
	columns := make([]parquetColumn, len(fields))
	for i, f := range fields {
		columns[i].kind = fmt.Sprint(f.Type(), " ", f.Required())
	}
	rows := pq.NewReader(file)
	defer rows.Close()
	for one := make([]pq.Row, 1); ; {
		n, err := rows.ReadRows(one)
		for i, v := range one[0][:n*len(one[0])] {
			columns[i].values = append(columns[i].values, parquetValue(v, columns[i].kind))
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	for i, f := range fields {
		out[f.Name()] = columns[i]
	}
	return out
}

func parquetValue(v pq.Value, kind string) any {
	switch {
	case v.IsNull():
		return nil
	case v.Kind() == pq.Double:
		return v.Double()
	case v.Kind() == pq.Boolean:
		return v.Boolean()
	case v.Kind() == pq.ByteArray:
		return string(v.ByteArray())
	case strings.HasPrefix(kind, "INT(64,false)"):
		return v.Uint64()
	}
	return v.Int64()
}

// TestParquetDirectory reads the files of an export back.
func TestParquetDirectory(t *testing.T) {
	s, dir := awkward(t), t.TempDir()
	files := parquet.New(vfs.OS, dir)
	n, err := exchange.ExportRows(t.Context(), s, files, exchange.Filter{}, nil)
	if err != nil || n != 13 {
		t.Fatalf("%d rows, %v", n, err)
	}
	var names []string
	values := 0
	tables := map[string]map[string]parquetColumn{}
	err = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		names = append(names, filepath.ToSlash(name))
		tables[names[len(names)-1]] = readParquet(t, path)
		for _, c := range tables[names[len(names)-1]] {
			for _, v := range c.values {
				if v != nil {
					values++
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	const gen, other = "a%2C%22b/auto%20%23%20gen/", "a%2C%22b/other/"
	want := []string{
		gen + "%2E.%2F..%25%20%E2%98%83/19691229T000000Z.parquet",
		gen + "NaN/19691229T000000Z.parquet",
		gen + "cpu/20140512T000000Z.parquet",
		gen + "cpu/20170710T000000Z.parquet",
		gen + "we%2Cird%20%3Dm%20/16770921T001243Z.parquet",
		gen + "we%2Cird%20%3Dm%20/22620407T000000Z.parquet",
		other + "changed/19691229T000000Z.parquet",
		other + "changed/20170710T000000Z.parquet",
		other + "cpu/19691229T000000Z.parquet",
	}
	slices.Sort(names)
	if !reflect.DeepEqual(names, want) || files.Files() != len(names) {
		t.Errorf("files\n%s\nwant\n%s", strings.Join(names, "\n"), strings.Join(want, "\n"))
	}
	cpu := tables[gen+"cpu/20170710T000000Z.parquet"]
	types := ""
	for _, name := range []string{"time", "host", "host_tag", "x", "b", "f", "i", "s", "u"} {
		types += name + " " + cpu[name].kind + "\n"
	}
	if wantTypes := "time TIMESTAMP(isAdjustedToUTC=true,unit=NANOS) true\nhost STRING false\nhost_tag STRING false\nx STRING false\nb BOOLEAN false\nf DOUBLE false\ni INT(64,true) false\ns STRING false\nu INT(64,false) false\n"; types != wantTypes || len(cpu) != 9 {
		t.Errorf("columns\n%s\nwant\n%s", types, wantTypes)
	}
	if first := tables[gen+"cpu/20140512T000000Z.parquet"]; len(first) != len(cpu) || first["host"].kind != "STRING false" || first["host_tag"].values[0] != "a b" {
		t.Error("the files of a measurement have other columns")
	}
	if a, b := tables[want[6]]["v"].values[0], tables[want[7]]["v"].values[0]; a != int64(1) || b != 1.5 {
		t.Errorf("values of a field that changed its type: %v, %v", a, b)
	}
	// Each time, tag, and field of the lines is a value.
	if values != 50 {
		t.Errorf("%d values", values)
	}

	n, err = exchange.ExportRows(t.Context(), s, parquet.New(vfs.OS, dir), exchange.Filter{}, nil)
	if err == nil || !strings.Contains(err.Error(), "exists: remove it or choose another directory") || n != 0 {
		t.Errorf("an export over files: %d rows, %v", n, err)
	}
}

// TestParquetLeavesNothingHalf ends an export with an error behind some rows.
func TestParquetLeavesNothingHalf(t *testing.T) {
	s, dir := awkward(t), t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n, err := exchange.ExportRows(ctx, s, &stopping{Directory: parquet.New(vfs.OS, dir), after: 3}, exchange.Filter{}, nil)
	if !errors.Is(err, errStopped) {
		t.Fatalf("%d rows, %v", n, err)
	}
	err = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		readParquet(t, path)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

var errStopped = errors.New("stopped")

// stopping is a directory that fails at a later run.
type stopping struct {
	*parquet.Directory
	after int
}

func (s *stopping) Run(r *rows.Run) error {
	if s.after--; s.after < 0 {
		return errStopped
	}
	return s.Directory.Run(r)
}

// TestSamples shows series in both forms.
func TestSamples(t *testing.T) {
	s := scantest.New()
	s.Create("d", "autogen")
	s.Write(t, "d", "", "ns", strings.Join([]string{
		`up,__name__=up,job=a value=1 1500000000000000000`,
		`up,__name__=up,job=a value=2 1500000000000600000`, // in the same millisecond
		`up,__name__=up,job=a value=0x7ff0000000000002 1500000001000000000`,
		`up,__name__=up,job=a value=0x7ff0000000000000 1500000002123000000`,
		`cpu\ x,a\ b=say\ "x"\n busy=5i,on=true,note="text" -1500000000`,
		`__metadata__,family=up type="gauge" 0`,
	}, "\n"))
	for _, c := range []struct {
		name string
		new  func(io.Writer) *samples.Writer
		want string
	}{
		{"OpenMetrics", samples.NewOpenMetrics, `{"cpu x_busy","a b"="say \"x\"\\n"} 5 -1.500
{"cpu x_on","a b"="say \"x\"\\n"} 1 -1.500
up{job="a"} 2 1500000000.000
up{job="a"} +Inf 1500000002.123
# EOF
`},
		{"lines", samples.NewLines, `{"metric":{"__name__":"cpu x_busy","a b":"say \"x\"\\n"},"values":[5],"timestamps":[-1500]}
{"metric":{"__name__":"cpu x_on","a b":"say \"x\"\\n"},"values":[1],"timestamps":[-1500]}
{"metric":{"__name__":"up","job":"a"},"values":[2],"timestamps":[1500000000000]}
{"metric":{"__name__":"up","job":"a"},"values":[null,"Infinity"],"timestamps":[1500000001000,1500000002123]}
`},
	} {
		var text strings.Builder
		w := c.new(&text)
		if _, err := exchange.ExportRows(t.Context(), s, w, exchange.Filter{}, nil); err != nil || text.String() != c.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", c.name, err, text.String(), c.want)
		}
	}
}

// TestExportRowsOfServer checks that rows come from a server as from a directory, and that
// a client recognizes an answer that is none or is cut.
func TestExportRowsOfServer(t *testing.T) {
	s := awkward(t)
	answer := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", exchange.TrailerPoints+", "+exchange.TrailerError)
		w.Header().Set("Content-Type", rows.StreamType)
		f, err := exchange.ParseFilter(r.URL.Query())
		if err != nil {
			t.Error(err)
		}
		n, err := exchange.ExportRows(r.Context(), s, rows.NewEncoder(w), f, nil)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set(exchange.TrailerPoints, fmt.Sprint(n))
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, r) }))
	defer web.Close()
	c := &exchange.Client{URL: web.URL}
	f := exchange.Filter{Database: "a,\"b", RetentionPolicy: "auto # gen"}
	var want, got strings.Builder
	if _, err := exchange.ExportRows(t.Context(), s, sinkcsv.NewWriter(&want, false), f, nil); err != nil {
		t.Fatal(err)
	}
	told := int64(0)
	n, err := c.ExportRows(t.Context(), sinkcsv.NewWriter(&got, false), f, func(n int64) { told = n })
	if err != nil || n != 10 || told != n || got.String() != want.String() {
		t.Errorf("%d rows, %d told, %v\n%s\nwant\n%s", n, told, err, got.String(), want.String())
	}
	for want, other := range map[string]http.HandlerFunc{
		"use the tsdbd of the version that the server has": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "text/plain") },
		"unexpected EOF": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", rows.StreamType) },
		"disk on fire": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", exchange.TrailerError)
			w.Header().Set("Content-Type", rows.StreamType)
			w.WriteHeader(http.StatusOK)
			w.Header().Set(exchange.TrailerError, "disk on fire")
		},
		"no end": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", rows.StreamType)
			_ = rows.NewEncoder(w).Close()
		},
	} {
		answer = other
		if _, err := c.ExportRows(t.Context(), sinkcsv.NewWriter(io.Discard, false), f, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	if _, err := exchange.ExportRows(t.Context(), s, sinkcsv.NewWriter(io.Discard, false), exchange.Filter{Database: "none"}, nil); !errors.Is(err, meta.ErrDatabaseNotFound) {
		t.Errorf("an export of no database: %v", err)
	}
}
