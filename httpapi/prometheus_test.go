package httpapi_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/golang/snappy"
	"google.golang.org/protobuf/encoding/protowire"

	"tsdbd/httpapi"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/prom"
	"tsdbd/prom/remote"
	"tsdbd/query/admission"
)

// member wraps a message as member n of another.
func member(n protowire.Number, b []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), b)
}

func TestRemoteWrite(t *testing.T) {
	store := newFakeStore()
	store.create("db")
	_, base := start(t, store, httpapi.Options{})
	series := remote.AppendSample(remote.AppendLabel(remote.AppendLabel(nil, "__name__", "up"), "job", "a"), prom.Sample{Value: 1.5, Time: 1000})
	bad := remote.AppendSample(remote.AppendLabel(remote.AppendLabel(nil, "__name__", "up"), "time", "a"), prom.Sample{Value: 1})
	f := func(params string, message []byte, status int, want string, header ...string) {
		t.Helper()
		a := do(t, "POST", base+"/api/v1/prom/write"+params, string(message), header...)
		if a.status != status || !strings.Contains(a.body, want) {
			t.Errorf("%s: %d %s, want %d %s", params, a.status, a.body, status, want)
		}
	}
	f("?db=db", snappy.Encode(nil, member(1, series)), 204, "")
	if got := store.fingerprint(); !strings.Contains(got, "up,__name__=up,job=a value 1000000000") {
		t.Errorf("stored %s", got)
	}
	f("?db=db", snappy.Encode(nil, append(member(1, bad), member(1, series)...)), 400, `partial write: invalid tag key: input tag \"time\" on measurement \"up\" is invalid dropped=1`)
	f("", nil, 400, "database is required")
	f("?db=nosuch", nil, 404, "database not found")
	f("?db=db", []byte("x"), 400, "snappy: corrupt input")
	f("?db=db", snappy.Encode(nil, []byte("\xff\xff")), 400, "proto: cannot parse")
	f("?db=db", nil, 415, "Content-Type", "Content-Type", "application/x-protobuf;proto=io.prometheus.write.v3.Request")
	f("?db=db", nil, 415, "Content-Encoding", "Content-Encoding", "gzip")
	f("?db=db", snappy.Encode(nil, nil), 204, "")
}

// request2 is a message of remote write 2.0: the series up with labels job=JOB, and
// a sample or a histogram each.
func request2(series ...string) []byte {
	symbols := []string{"", "__name__", "up", "job", "Help."}
	var all []byte
	for _, s := range series {
		kind, job, _ := strings.Cut(s, " ")
		refs := []byte{1, 2, 3, byte(len(symbols))}
		if kind == "nameless" {
			refs = refs[2:]
		}
		symbols = append(symbols, job)
		value := protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.VarintType), 1000)
		number := protowire.Number(2)
		if kind == "histogram" {
			value, number = protowire.AppendVarint(protowire.AppendTag(nil, 15, protowire.VarintType), 2000), 3
		}
		one := append(member(1, refs), member(number, value)...)
		if kind == "described" {
			one = append(one, member(5, []byte{8, 2, 24, 4})...)
		}
		all = append(all, member(5, append(one, member(4, nil)...))...)
	}
	var message []byte
	for _, s := range symbols {
		message = append(message, member(4, []byte(s))...)
	}
	return append(message, all...)
}

func TestRemoteWrite2(t *testing.T) {
	users, _, opt := withUsers(t)
	store := newFakeStore()
	_, base := start(t, store, opt)
	f := func(path string, message []byte, status int, want, written string) {
		t.Helper()
		a := do(t, "POST", base+path, string(snappy.Encode(nil, message)), "Content-Type", remote.MediaWrite2, "Content-Encoding", "snappy")
		var got []string
		for _, name := range []string{"Samples", "Histograms", "Exemplars"} {
			got = append(got, a.header.Get("X-Prometheus-Remote-Write-"+name+"-Written"))
		}
		if a.status != status || !strings.Contains(a.body, want) || strings.Join(got, " ") != written {
			t.Errorf("%s: %d %s %q, want %d %s %q", path, a.status, a.body, got, status, want, written)
		}
	}
	const ann, root, stranger = "u=ann&p=annpw", "u=root&p=rootpw", "u=bob&p=bobpw"
	users.apply(t, meta.CreateUser{Name: "bob", Hash: "#bobpw"})
	one := request2("sample a")
	f("/api/v1/write?"+ann, one, 403, "not authorized to write to database", "0 0 0")
	f("/api/v1/write?"+stranger, one, 403, "not authorized to write to database", "0 0 0")
	if len(store.databases) != 0 {
		t.Errorf("who may not write has created %v", store.databases)
	}
	f("/api/v1/write?"+root+"&db=other", one, 404, "database not found", "0 0 0")
	f("/api/v1/write?"+root, one, 204, "", "1 0 1")
	users.apply(t, meta.CreateDatabase{Name: "prometheus"})
	users.apply(t, meta.SetPrivilege{Name: "ann", Database: "prometheus", Privilege: meta.WritePrivilege})
	f("/api/v1/write?"+ann, one, 204, "", "1 0 1")
	f("/api/v1/write?"+ann, request2("sample a", "histogram b", "sample c"), 204, "", "2 1 3")
	f("/api/v1/write?"+ann, request2("sample a", "nameless b", "histogram c"), 400, `partial write: series 2: there is no label __name__ dropped=1 for database: prometheus`, "1 1 2")
	f("/api/v1/write?"+ann, []byte("\xff"), 400, "proto: cannot parse", "0 0 0")
	f("/api/v1/write?"+ann, nil, 204, "", "0 0 0")
	f("/api/v1/write?"+ann, member(1, nil), 400, "is one of remote write 1.0", "0 0 0")
	if got := store.fingerprint(); !strings.Contains(got, "up,__name__=up,job=a value 1000000000") || !strings.Contains(got, "up,__name__=up,job=b __histogram__ 2000000000") {
		t.Errorf("stored %s", got)
	}
	store.create("db")
	f("/prometheus/db/api/v1/write?"+ann, one, 204, "", "1 0 1")
	f("/prometheus/db/autogen/api/v1/write?"+ann, one, 204, "", "1 0 1")
	f("/prometheus/db/nosuch/api/v1/write?"+ann, one, 404, "retention policy not found: nosuch", "0 0 0")
	f("/prometheus/none/api/v1/write?"+root, one, 404, `database not found: "none"`, "0 0 0")
	f("/prometheus/%64b/api/v1/write?db=none&"+ann, one, 204, "", "1 0 1")
	f("/prometheus/db/api/v1/prom/write?"+ann, one, 204, "", "1 0 1")
	f("/prometheus/api/v1/write?"+ann, one, 204, "", "1 0 1") // the default
	f("/prometheus//api/v1/write?"+ann, one, 404, "404 page not found", "  ")
	f("/prometheus/a/b/c/api/v1/write?"+ann, one, 404, "404 page not found", "  ")
	f("/prometheus/db/write?"+ann, one, 404, "404 page not found", "  ")
	if got := do(t, "GET", base+"/prometheus/db/api/v1/write?"+ann, ""); got.status != 405 {
		t.Errorf("GET: %d", got.status)
	}
	// The store drops a row of another type: the headers count what is left.
	f("/api/v1/write?"+ann, request2("described d"), 204, "", "1 0 1")
	if got := store.fingerprint(); strings.Count(got, "__metadata__,metric=up") != 3 {
		t.Errorf("stored %s", got)
	}
	before := store.fingerprint()
	f("/api/v1/write?"+ann, request2("described d"), 204, "", "1 0 1")
	if got := store.fingerprint(); got != before {
		t.Errorf("the same metadata again: %s", got)
	}
	store.databases["db"].types["up\x00value"] = model.Integer
	f("/prometheus/db/api/v1/write?"+ann, request2("sample a", "histogram b", "sample c"), 400, "field type conflict", "0 1 3")
	store.writeErr = temporary{}
	f("/api/v1/write?"+ann, one, 503, "later", "0 0 0")
}

// temporary is the error of a store that is busy.
type temporary struct{}

func (temporary) Error() string   { return "come later" }
func (temporary) Temporary() bool { return true }

func TestRemoteRead(t *testing.T) {
	users, _, opt := withUsers(t)
	users.apply(t, meta.CreateDatabase{Name: "mydb"})
	users.apply(t, meta.SetPrivilege{Name: "ann", Database: "mydb", Privilege: meta.ReadPrivilege})
	h, store := promServer(t, opt, admission.Limits{})
	store.Write(t, "mydb", "autogen", "ms", "up,__name__=up,job=a value=1 0\nup,__name__=up,job=a value=2 1000\nup,job=b value=3,other=4i 0\nup,job=c value=5 90000")
	ask := func(params string, message []byte) *httptest.ResponseRecorder {
		t.Helper()
		r := httptest.NewRequest("POST", params, strings.NewReader(string(snappy.Encode(nil, message))))
		r.Header.Set("Accept-Encoding", "gzip")
		return serveRequest(h, r)
	}
	number := func(b []byte, n protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
	}
	matcher := func(kind uint64, name, value string) []byte {
		return member(3, append(number(nil, 1, kind), append(member(2, []byte(name)), member(3, []byte(value))...)...))
	}
	query := func(end uint64, matchers ...[]byte) []byte {
		b := number(nil, 2, end)
		for _, m := range matchers {
			b = append(b, m...)
		}
		return member(1, b)
	}
	series := func(job string, values ...float64) []byte {
		b := remote.AppendLabel(remote.AppendLabel(nil, "__name__", "up"), "job", job)
		for i, v := range values {
			b = remote.AppendSample(b, prom.Sample{Value: v, Time: int64(i) * 1000})
		}
		return member(1, b)
	}
	const ann = "/api/v1/read?u=ann&p=annpw&db="
	up := query(60_000, matcher(0, "__name__", "up"))
	w := ask(ann+"mydb", append(up, query(60_000, matcher(0, "__name__", "up"), matcher(3, "job", "a|c"))...))
	want := append(member(1, append(series("a", 1, 2), series("b", 3)...)), member(1, series("b", 3))...)
	if got, err := snappy.Decode(nil, w.Body.Bytes()); w.Code != 200 || err != nil || string(got) != string(want) {
		t.Errorf("%d %v: %q, want %q", w.Code, err, got, want)
	}
	if head := w.Header(); head.Get("Content-Encoding") != "snappy" || head.Get("Content-Type") != "application/x-protobuf" {
		t.Errorf("header %v", head)
	}
	w = ask(ann+"mydb", append(number(up, 2, 7), member(2, []byte{1, 0})...))
	if head := w.Header(); w.Code != 200 || head.Get("Content-Encoding") != "" || head.Get("Content-Type") != remote.MediaFrames || !strings.Contains(w.Body.String(), "\x0a\x03job\x12\x01a") {
		t.Errorf("chunks: %d %v %q", w.Code, head, w.Body)
	}
	if w := ask(ann+"mydb", append(query(1, matcher(0, "__name__", "none")), number(nil, 2, 1)...)); w.Code != 200 || w.Body.Len() != 0 || w.Header().Get("Content-Type") != remote.MediaFrames {
		t.Errorf("no chunks: %d %v %q", w.Code, w.Header(), w.Body)
	}
	f := func(params string, message []byte, status int, want string) {
		t.Helper()
		if w := ask(params, message); w.Code != status || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s, want %d %s", params, w.Code, w.Body, status, want)
		}
	}
	f(ann+"mydb", nil, 200, "")
	f(ann+"mydb", []byte("\xff"), 400, "proto: cannot parse")
	f(ann+"mydb", query(1, matcher(9, "a", "b")), 400, "unknown match type: 9")
	f(ann+"mydb", query(1, matcher(2, "a", "(")), 400, "missing closing )")
	f(ann+"mydb", append(up, number(nil, 2, 5)...), 400, "supports none of the response types [5]")
	f(ann+"mydb&rp=x", up, 500, "retention policy not found: x")
	f(ann+"other", up, 403, "not authorized to read from database")
	f("/api/v1/prom/read?u=ann&p=annpw", up, 400, "database is required")
	f("/api/v1/read?u=ann&p=annpw", up, 403, "not authorized to read from database")
	f("/api/v1/read?u=root&p=rootpw", up, 200, "")
	f("/prometheus/mydb/api/v1/read?u=ann&p=annpw", up, 200, "")
	f("/api/v1/read?u=root&p=rootpw&db=nosuch", up, 404, "database not found")
	if n := store.Views(); n != 0 {
		t.Errorf("%d views are left", n)
	}
}

// TestRemoteWrite2Repeats sends small requests whose series or metadata refer to one
// long symbol many times. Their rows are charged to the memory of bodies.
func TestRemoteWrite2Repeats(t *testing.T) {
	store := newFakeStore()
	store.create("prometheus")
	_, base := start(t, store, httpapi.Options{Limits: httpapi.Limits{MaxBodyMemory: 1 << 20}})
	f := func(series, length, status int, refs func(name uint64) (labels, about []byte)) {
		t.Helper()
		message := append(member(4, nil), member(4, []byte("__name__"))...)
		message = append(message, member(4, []byte(strings.Repeat("x", length)))...)
		var all []byte
		for i := range series {
			message = append(message, member(4, fmt.Appendf(nil, "m%d", i))...)
			labels, about := refs(uint64(i + 3))
			sample := protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.VarintType), 1000)
			all = append(all, member(5, append(append(member(1, labels), member(2, sample)...), about...))...)
		}
		packed := snappy.Encode(nil, append(message, all...))
		a := do(t, "POST", base+"/api/v1/write", string(packed), "Content-Type", remote.MediaWrite2, "Content-Encoding", "snappy")
		if a.status != status {
			t.Errorf("%d series with %d bytes each in %d bytes: %d %.200s, want %d", series, length, len(packed), a.status, a.body, status)
		}
	}
	labels := func(name uint64) (labels, about []byte) { // __name__=name, name=long
		for _, ref := range []uint64{1, name, name, 2} {
			labels = protowire.AppendVarint(labels, ref)
		}
		return labels, nil
	}
	f(200, 20_000, 413, labels)
	if got := store.fingerprint(); strings.Contains(got, "m0") {
		t.Error("a refused request has left series")
	}
	f(200, 20, 204, labels)
	help := func(name uint64) (labels, about []byte) { // __name__=name, help=long
		return protowire.AppendVarint([]byte{1}, name), member(5, []byte{8, 1, 24, 2})
	}
	f(200, 20_000, 413, help)
	f(200, 20, 204, help)
}

// TestJSONLines writes lines, and exports what the storage has.
func TestJSONLines(t *testing.T) {
	h, store := promServer(t, httpapi.Options{}, admission.Limits{})
	f := func(method, target, body string, status int, want string) {
		t.Helper()
		w := serveRequest(h, httptest.NewRequest(method, target, strings.NewReader(body)))
		if w.Code != status || !strings.Contains(w.Body.String(), want) || want == "" && w.Body.Len() > 0 {
			t.Errorf("%s %s: %d %s, want %d %s", method, target, w.Code, w.Body, status, want)
		}
	}
	const up = `{"metric":{"__name__":"up","job":"a"},"values":[1],"timestamps":[1000]}` + "\n"
	f("POST", "/api/v1/import", up, 204, "")
	f("POST", "/prometheus/mydb/api/v1/import?extra_label=dc=x", up, 204, "")
	f("POST", "/api/v1/import?db=mydb", up+"x\n"+up, 400, "partial write: line 2: invalid character 'x' looking for beginning of value dropped=0 for database: mydb")
	f("POST", "/api/v1/import?extra_label=x", up, 400, "extra_label must be NAME=VALUE")
	f("POST", "/api/v1/import?db=none", up, 404, "database not found")
	store.Write(t, "mydb", "autogen", "s", "up,job=a value=1 1\nup,job=a value=2 2\nup,job=b value=3,other=4i 1")
	const a, b = `{"metric":{"__name__":"up","job":"a"},"values":[1,2],"timestamps":[1000,2000]}` + "\n", `{"metric":{"__name__":"up","job":"b"},"values":[3],"timestamps":[1000]}` + "\n"
	f("GET", "/api/v1/export?db=mydb&match[]=up", "", 200, a+b)
	f("POST", "/prometheus/mydb/api/v1/export?match[]=up_other&match[]={job='b',__name__='up'}", "", 200, `{"metric":{"__name__":"up_other","job":"b"},"values":[4],"timestamps":[1000]}`+"\n"+b)
	f("GET", "/api/v1/export?db=mydb&match[]=up&start=2", "", 200, `{"metric":{"__name__":"up","job":"a"},"values":[2],"timestamps":[2000]}`+"\n")
	f("GET", "/api/v1/export?db=mydb&match[]=up&max_rows_per_line=1&end=1970-01-01T00:00:01Z", "", 200, b)
	f("GET", "/api/v1/export?db=mydb&match[]=nothing", "", 200, "")
	f("GET", "/api/v1/export?db=mydb", "", 400, "match[] is missing")
	f("GET", "/api/v1/export?db=mydb&match[]=up{", "", 400, "parse error")
	f("GET", "/api/v1/export?db=none&match[]=up", "", 404, "database not found")
}

// TestImportText sends the text form of metrics, and short lines that long labels of the
// request would make large.
func TestImportText(t *testing.T) {
	store := newFakeStore()
	store.create("db")
	h := httpapi.New(httpapi.Options{Writer: store, Query: store, Limits: httpapi.Limits{PrometheusDatabase: "db", MaxBodySize: 1 << 20, MaxBodyMemory: 4 << 20}})
	t.Cleanup(h.Close)
	f := func(method, target, body string, status int, want string) {
		t.Helper()
		w := serveRequest(h, httptest.NewRequest(method, target, strings.NewReader(body)))
		if w.Code != status || !strings.Contains(w.Body.String(), want) || want == "" && w.Body.Len() > 0 {
			t.Errorf("%s %.60s: %d %s, want %d %s", method, target, w.Code, w.Body, status, want)
		}
	}
	const path = "/api/v1/import/prometheus"
	f("POST", path, "# TYPE up gauge\nup{job=\"a\"} 1 1000\n", 204, "")
	f("POST", "/prometheus/db"+path+"?extra_label=dc=x&timestamp=2000", "up 2\n", 204, "")
	f("PUT", path+"/metrics/job/b/host/c", "up 3 3000\n", 204, "")
	f("POST", path, "up 4 4000\nup{\nup 5 5000\n", 400, "partial write: line 2: the labels do not end in } dropped=0 for database: db")
	f("POST", path+"/metrics/job", "up 1\n", 400, "the path must be metrics/job/JOB")
	f("POST", path+"?timestamp=x", "up 1\n", 400, "timestamp must be milliseconds")
	f("POST", path+"?extra_label=x", "up 1\n", 400, "extra_label must be NAME=VALUE")
	f("POST", path+"?db=none", "up 1\n", 404, "database not found")
	f("POST", path, "", 204, "")
	for _, want := range []string{
		"up,__name__=up,job=a value 1000000000", "up,__name__=up,dc=x value 2000000000", "up,__name__=up,host=c,job=b value 3000000000",
		"up,__name__=up value 4000000000", "up,__name__=up value 5000000000", "__metadata__,metric=up type",
	} {
		if got := store.fingerprint(); !strings.Contains(got, want) {
			t.Errorf("stored %s, want %s", got, want)
		}
	}
	long := "?extra_label=x=" + strings.Repeat("x", 50_000)
	var lines, text strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&lines, `{"metric":{"__name__":"m%d"},"values":[1],"timestamps":[1]}`+"\n", i)
		fmt.Fprintf(&text, "m%d 1 1\n", i)
	}
	f("POST", path+long, text.String(), 413, "Request Entity Too Large")
	f("POST", "/api/v1/import"+long, lines.String(), 413, "Request Entity Too Large")
}
