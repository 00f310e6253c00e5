package badinput

import (
	"net/url"
	"strings"
)

// Cases returns all cases.
func Cases() []Case {
	var all []Case
	for _, part := range [][]Case{lines(), writes(), queries(), parameters(), deletes(), requests(), engine()} {
		all = append(all, part...)
	}
	return all
}

// writeTo is the path of a write to the database.
const writeTo = "/write?precision=ns&db=" + Database

// lines are bodies of which no line parses.
func lines() []Case {
	one := [][2]string{
		{"x", "missing fields"},
		{"x v", "invalid field format"},
		{"x v=", "missing field value"},
		{"x ,v=1", "invalid field format"},
		{"x v=1,=5", "missing field key"},
		{"x  =1 5", "missing field key"},
		{",a=b v=1", "missing measurement"},
		{"x,=b v=1", "missing tag key"},
		{"x,a=b, v=1", "missing tag key"},
		{"x,a=b,, v=1", "missing tag key"},
		{"x,a= v=1", "missing tag value"},
		{"x,a=b,c= v=1", "missing tag value"},
		{"x,a=b,a=c v=1", "duplicate tags"},
		{"x,a=b,b=c,a=d v=1", "duplicate tags"},
		{"x,a=b", "missing fields"},
		{"x v=1i2", "invalid number"},
		{"x v=1.5i", "invalid number"},
		{"x v=+-1", "invalid boolean"},
		{"x v=1e", "invalid float"},
		{"x v=e5", "invalid boolean"},
		{"x v=1e5e5", "invalid float"},
		{"x v=.", "invalid number"},
		{"x v=-", "invalid number"},
		{"x v=+", "invalid boolean"},
		{"x v=i", "invalid boolean"},
		{"x v=-i", "invalid number"},
		{"x v=0x10", "invalid number"},
		{"x v=1f", "invalid number"},
		{"x v=1d", "invalid number"},
		{"x v=Inf", "invalid boolean"},
		{"x v=-Inf", "invalid number"},
		{"x v=+Inf", "invalid boolean"},
		{"x v=1e999", "invalid float"},
		{"x v=-1e999", "invalid float"},
		{"x v=99999999999999999999i", `unable to parse integer 99999999999999999999: strconv.ParseInt: parsing "99999999999999999999": value out of range`},
		{"x v=tru", "invalid boolean"},
		{"x v=tRUE", "invalid boolean"},
		{"x v=yes", "invalid boolean"},
		{`x v="abc`, "unbalanced quotes"},
		{"x v='abc'", "invalid boolean"},
		{`x v=abc"`, "invalid boolean"},
		{"x v=1 abc", "bad timestamp"},
		{"x v=1 1i", "bad timestamp"},
		{"x v=1 --5", "bad timestamp"},
		{"x v=1 +5", "bad timestamp"},
		{"x v=1 1 2", "point is invalid"},
		{"x v=1 1 abc", "point is invalid"},
		{"x v=1 9223372036854775807", "time outside range -9223372036854775806 - 9223372036854775806"},
		{"x v=1 -9223372036854775808", "time outside range -9223372036854775806 - 9223372036854775806"},
		{"x v=1 99999999999999999999", `strconv.ParseInt: parsing "99999999999999999999": value out of range`},
		{"x v=1 '2017-07-14'", "bad timestamp"},
		{"x v=1 2017-07-14T00:00:00Z", "bad timestamp"},
		{`x\`, "missing fields"},
		{`x v\=1`, "invalid field format"},
		{`x,a\=b v=1`, "missing tag value"},
		{"x a,v=1", "invalid field format"},
		{"x v=1;", "invalid number"},
		{"x v =1", "invalid field format"},
		{"x\tv=1", "missing fields"},
		{`{"x":1}`, "missing fields"},
		{"SELECT * FROM x", "invalid field format"},
	}
	cases := make([]Case, 0, len(one)+8)
	for _, l := range one {
		cases = append(cases, Case{
			Name: "line/" + l[0], Method: "POST", Path: writeTo, Body: l[0],
			Status: 400, Error: "unable to parse '" + l[0] + "': " + l[1],
		})
	}
	long := strings.Repeat("k", 70_000)
	return append(cases,
		Case{
			Name: "line/three bad lines", Method: "POST", Path: writeTo, Body: "a v=\nb v=\nc v=", Status: 400,
			Error: "unable to parse 'a v=': missing field value\nunable to parse 'b v=': missing field value\nunable to parse 'c v=': missing field value",
		},
		Case{
			Name: "line/comment and a bad line", Method: "POST", Path: writeTo, Body: "# c\n\nx v=\n", Status: 400,
			Error: "unable to parse 'x v=': missing field value",
		},
		Case{
			Name: "line/not UTF-8", Method: "POST", Path: writeTo, Body: "x,h=\xff\xfe v=", Status: 400,
			Error: "unable to parse 'x,h=\ufffd\ufffd v=': missing field value",
		},
		Case{Name: "line/zero bytes", Method: "POST", Path: writeTo, Body: "x\x00 v=\x00", Status: 400, Error: "unable to parse…"},
		Case{Name: "line/control characters", Method: "POST", Path: writeTo, Body: "x\r\x01 v=\x7f", Status: 400, Error: "unable to parse…"},
		Case{Name: "line/key too long", Method: "POST", Path: writeTo, Body: long + " v=1 1", Status: 400, Error: "unable to parse…"},
		Case{Name: "line/tag too long", Method: "POST", Path: writeTo, Body: "x,t=" + long + " v=1 1", Status: 400, Error: "unable to parse…"},
		Case{Name: "line/binary", Method: "POST", Path: writeTo, Body: "\x7fELF\x02\x01\x01\x00\x00", Status: 400, Error: "unable to parse…"},
		Case{Name: "line/one of precision h out of range", Method: "POST", Path: "/write?precision=h&db=" + Database, Body: "x v=1 9999999999", Status: 400, Error: "unable to parse…"},
	)
}

// writes are writes that fail for other reasons than their lines, and writes
// that are accepted in part.
func writes() []Case {
	const line = "x v=1 1"
	partial := func(name, bad, reason, tail string) Case {
		return Case{
			Name: "partial/" + name, Method: "POST", Path: writeTo, Body: Seed + "\n" + bad, Status: 400,
			Error: "partial write: " + reason + " " + tail,
		}
	}
	parse := "dropped=0 for database: " + Database
	return []Case{
		{Name: "write/no db", Method: "POST", Path: "/write", Body: line, Status: 400, Error: "database is required"},
		{Name: "write/empty db", Method: "POST", Path: "/write?db=", Body: line, Status: 400, Error: "database is required"},
		{Name: "write/unknown db", Method: "POST", Path: "/write?db=nodb", Body: line, Status: 404, Error: `database not found: "nodb"`},
		{Name: "write/unknown db, bad line", Method: "POST", Path: "/write?db=nodb", Body: "x v=", Status: 404, Error: `database not found: "nodb"`},
		{Name: "write/unknown db, empty body", Method: "POST", Path: "/write?db=nodb", Status: 404, Error: `database not found: "nodb"`},
		{Name: "write/unknown db with quotes", Method: "POST", Path: "/write?db=" + url.QueryEscape(`no"db`), Body: line, Status: 404, Error: `database not found: "no\"db"`},
		{Name: "write/db with a line break", Method: "POST", Path: "/write?db=a%0ab", Body: line, Status: 404, Error: `database not found: "a\nb"`},
		{Name: "write/precision us", Method: "POST", Path: "/write?db=bad&precision=us", Body: line, Status: 400, Error: `invalid precision "us" (use n, u, ms, s, m or h)`},
		{Name: "write/precision d", Method: "POST", Path: "/write?db=bad&precision=d", Body: line, Status: 400, Error: `invalid precision "d" (use n, u, ms, s, m or h)`},
		{Name: "write/precision before db", Method: "POST", Path: "/write?precision=x", Body: line, Status: 400, Error: `invalid precision "x" (use n, u, ms, s, m or h)`},
		{Name: "write/unknown rp", Method: "POST", Path: "/write?db=bad&rp=norp", Body: line, Status: 500, Error: "retention policy not found: norp"},
		{Name: "write/consistency", Method: "POST", Path: "/write?db=bad&consistency=some", Body: line, Status: 400, Error: "invalid consistency level"},
		{Name: "write/consistency, bad line", Method: "POST", Path: "/write?db=bad&consistency=some", Body: "x v=", Status: 400, Error: "unable to parse 'x v=': missing field value"},
		{Name: "write/not gzip", Method: "POST", Path: writeTo, Header: gzipped, Body: "x v=1 1 and more than ten bytes", Status: 400, Error: "gzip: invalid header"},
		{Name: "write/gzip cut in its header", Method: "POST", Path: writeTo, Header: gzipped, Body: squeeze(line)[:5], Status: 400, Error: "unexpected EOF"},
		{Name: "write/gzip cut in its data", Method: "POST", Path: writeTo, Header: gzipped, Body: squeeze(strings.Repeat(line+"\n", 100))[:25], Status: 400, Error: "unexpected EOF"},
		{Name: "write/gzip checksum", Method: "POST", Path: writeTo, Header: gzipped, Body: flip(squeeze(line)), Status: 400, Error: "gzip: invalid checksum"},
		{Name: "write/gzip of a bad line", Method: "POST", Path: writeTo, Header: gzipped, Body: squeeze("x v="), Status: 400, Error: "unable to parse 'x v=': missing field value"},
		{Name: "write/too large", Method: "POST", Path: writeTo, Body: strings.Repeat("x v=1 1\n", 25_000_000/8+1), Status: 413, Error: "Request Entity Too Large"},
		{Name: "write/too large when unpacked", Method: "POST", Path: writeTo, Header: gzipped, Body: squeeze(strings.Repeat("x v=1 1\n", 25_000_000/8+1)), Status: 413, Error: "Request Entity Too Large"},
		{Name: "write/zstd", Method: "POST", Path: writeTo, Header: map[string]string{"Content-Encoding": "zstd"}, Body: "x v=1", Status: 415, Error: `Content-Encoding "zstd" is not supported, send gzip or none`},
		{Name: "write/unknown encoding v2", Method: "POST", Path: "/api/v2/write?bucket=bad", Header: map[string]string{"Content-Encoding": "GZIP, br"}, Body: "x v=1", Status: 415, Error: `Content-Encoding "GZIP, br" is not supported…`},
		{Name: "write/x-gzip", Method: "POST", Path: writeTo, Header: map[string]string{"Content-Encoding": "x-gzip"}, Body: squeeze("x v="), Status: 400, Error: "unable to parse 'x v=': missing field value"},
		{Name: "write/db twice", Method: "POST", Path: "/write?db=nodb&db=bad", Body: line, Status: 404, Error: `database not found: "nodb"`},
		{Name: "write/db badly escaped", Method: "POST", Path: "/write?db=%zz", Body: line, Status: 400, Error: "database is required"},
		{Name: "write/db in a form", Method: "POST", Path: "/write", Header: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, Body: "db=bad", Status: 400, Error: "database is required"},
		{Name: "write/db is a bucket", Method: "POST", Path: "/write?db=bad%2Fautogen", Body: line, Status: 404, Error: `database not found: "bad/autogen"`},
		{Name: "write/db not UTF-8", Method: "POST", Path: "/write?db=%ff", Body: line, Status: 404, Error: `database not found: "\xff"`},
		{Name: "write/precision in capitals", Method: "POST", Path: "/write?db=bad&precision=NS", Body: line, Status: 400, Error: `invalid precision "NS" (use n, u, ms, s, m or h)`},
		{Name: "write/JSON", Method: "POST", Path: writeTo, Header: map[string]string{"Content-Type": "application/json"}, Body: `{"a":1}`, Status: 400, Error: `unable to parse '{"a":1}': missing fields`},
		{Name: "write/junk behind gzip", Method: "POST", Path: writeTo, Header: gzipped, Body: squeeze(line) + "junk", Status: 400, Error: "unexpected EOF"},

		{Name: "prom/no db", Method: "POST", Path: "/api/v1/prom/write", Status: 400, Error: "database is required"},
		{Name: "prom/unknown db", Method: "POST", Path: "/api/v1/prom/write?db=nodb", Status: 404, Error: `database not found: "nodb"`},
		{Name: "prom/empty", Method: "POST", Path: "/api/v1/prom/write?db=bad", Status: 400, Error: "snappy: corrupt input"},
		{Name: "prom/not snappy", Method: "POST", Path: "/api/v1/prom/write?db=bad", Body: "x", Status: 400, Error: "snappy: corrupt input"},
		{Name: "prom/snappy that lies", Method: "POST", Path: "/api/v1/prom/write?db=bad", Body: "\x80\x80\x80\x08x", Status: 400, Error: "snappy: corrupt input"},
		{Name: "prom/snappy too large", Method: "POST", Path: "/api/v1/prom/write?db=bad", Body: "\xff\xff\xff\xff\x0f", Status: 413, Error: "Request Entity Too Large"},
		{Name: "prom/not protobuf", Method: "POST", Path: "/api/v1/prom/write?db=bad", Body: "\x01\x00\xff", Status: 400},
		{Name: "prom/version 3", Method: "POST", Path: "/api/v1/write?db=bad", Header: map[string]string{"Content-Type": "application/x-protobuf;proto=io.prometheus.write.v3.Request"}, Body: "\x00", Status: 415, Error: `Content-Type "application/x-protobuf;proto=io.prometheus.write.v3.Request" is not supported, send application/x-protobuf;proto=prometheus.WriteRequest or application/x-protobuf;proto=io.prometheus.write.v2.Request`},
		{Name: "prom/version 2 without symbols", Method: "POST", Path: "/api/v1/write?db=bad", Header: version2, Body: "\x02\x04\x2a\x00", Status: 400, Error: "the message has no symbols"},
		{Name: "prom/version 2 with a first symbol", Method: "POST", Path: "/api/v1/write?db=bad", Header: version2, Body: "\x03\x08\x22\x01x", Status: 400, Error: "the first symbol is not the empty string"},
		{Name: "prom/version 1 as 2", Method: "POST", Path: "/api/v1/write?db=bad", Header: version2, Body: "\x02\x04\x0a\x00", Status: 400, Error: "the message is one of remote write 1.0, but its Content-Type is that of 2.0"},
		{Name: "prom/version 2 as 1", Method: "POST", Path: "/api/v1/write?db=bad", Body: "\x02\x04\x22\x00", Status: 400, Error: "the message is one of remote write 2.0, but its Content-Type is that of 1.0"},
		{Name: "prom/gzip", Method: "POST", Path: "/api/v1/write?db=bad", Header: gzipped, Body: squeeze("x"), Status: 415, Error: `Content-Encoding "gzip" is not supported, send snappy`},
		{Name: "prom/path to no db", Method: "POST", Path: "/prometheus/nodb/api/v1/write", Status: 404, Error: `database not found: "nodb"`},
		{Name: "otlp/no type", Method: "POST", Path: "/v1/metrics?db=bad", Status: 415, Text: `{"code":3,"message":"the Content-Type of metrics is application/x-protobuf or application/json"}`},
		{Name: "otlp/not JSON", Method: "POST", Path: "/v1/metrics?db=bad", Header: map[string]string{"Content-Type": "application/json"}, Body: `{"resourceMetrics":[`, Status: 400, Text: `{"code":3,"message":"JSON at byte 20: unexpected end of JSON input"}`},
		{Name: "otlp/deep JSON", Method: "POST", Path: "/v1/metrics?db=bad", Header: map[string]string{"Content-Type": "application/json"}, Body: strings.Repeat(`{"x":`, 20_000), Status: 400, Text: `{"code":3,"message":"JSON at byte 50001: invalid character '{' exceeded max depth"}`},
		{Name: "otlp/not protobuf", Method: "POST", Path: "/v1/metrics?db=bad", Header: map[string]string{"Content-Type": "application/x-protobuf"}, Body: "\xff", Status: 400, Text: "\x08\x03\x12\x48protobuf: ExportMetricsServiceRequest: cannot read the number of a field"},
		{Name: "otlp/no gzip", Method: "POST", Path: "/v1/metrics?db=bad", Header: map[string]string{"Content-Type": "application/json", "Content-Encoding": "gzip"}, Body: "{}", Status: 400},
		{Name: "otlp/unknown db", Method: "POST", Path: "/v1/metrics?db=nodb", Header: map[string]string{"Content-Type": "application/json"}, Body: "{}", Status: 404, Text: `{"code":5,"message":"database not found: \"nodb\""}`},
		{Name: "otlp/strategy", Method: "POST", Path: "/v1/metrics?db=bad&translation_strategy=x", Header: map[string]string{"Content-Type": "application/json"}, Body: "{}", Status: 400, Text: `{"code":3,"message":"unknown translation_strategy \"x\""}`},
		{Name: "otlp/nothing good", Method: "POST", Path: "/v1/metrics?db=bad", Header: map[string]string{"Content-Type": "application/json"}, Body: `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"m","gauge":{"dataPoints":[{"asInt":1}]}}]}]}]}`, Status: 200, Text: `{"partialSuccess":{"rejectedDataPoints":"1","errorMessage":"metric \"m\": data point without a time"}}`},
		{Name: "otlp/GET", Method: "GET", Path: "/v1/metrics?db=bad", Status: 405, Text: "Method Not Allowed\n"},
		{Name: "prom/GET", Method: "GET", Path: "/api/v1/prom/write?db=bad", Status: 405, Text: "Method Not Allowed\n"},
		{Name: "prom/read without db", Method: "POST", Path: "/api/v1/prom/read", Body: "\x00", Status: 400, Error: "database is required"},
		{Name: "prom/read of an unknown type", Method: "POST", Path: "/api/v1/prom/read?db=bad", Body: "\x02\x04\x10\x09", Status: 400, Error: "the server supports none of the response types [9]: send 0 for samples or 1 for chunks"},
		{Name: "prom/read not snappy", Method: "POST", Path: "/api/v1/prom/read?db=bad", Body: "x", Status: 400, Error: "snappy: corrupt input"},

		{Name: "write/GET", Method: "GET", Path: writeTo, Status: 405, Text: "Method Not Allowed\n"},
		{Name: "write/PUT", Method: "PUT", Path: writeTo, Body: line, Status: 405, Text: "Method Not Allowed\n"},
		{Name: "write/DELETE", Method: "DELETE", Path: writeTo, Status: 405, Text: "Method Not Allowed\n"},

		{Name: "v2/no bucket", Method: "POST", Path: "/api/v2/write", Body: line, Status: 404, Error: `bucket name "" is missing a slash; not in "database/retention-policy" format`},
		{Name: "v2/empty database", Method: "POST", Path: "/api/v2/write?bucket=/rp", Body: line, Status: 404, Error: `bucket name "/rp" is in db/rp form but has an empty database`},
		{Name: "v2/unknown database", Method: "POST", Path: "/api/v2/write?bucket=nodb/autogen&org=o", Body: line, Status: 404, Error: `database not found: "nodb"`},
		{Name: "v2/unknown policy", Method: "POST", Path: "/api/v2/write?bucket=bad/norp", Body: line, Status: 500, Error: "retention policy not found: norp"},
		{Name: "v2/precision h", Method: "POST", Path: "/api/v2/write?bucket=bad&precision=h", Body: line, Status: 400, Error: `invalid precision "h" (use ns, us, ms or s)`},
		{Name: "v2/precision u", Method: "POST", Path: "/api/v2/write?bucket=bad&precision=u", Body: line, Status: 400, Error: `invalid precision "u" (use ns, us, ms or s)`},
		{Name: "v2/bad line", Method: "POST", Path: "/api/v2/write?bucket=bad/", Body: "x v=", Status: 400, Error: "unable to parse 'x v=': missing field value"},
		{Name: "v2/GET", Method: "GET", Path: "/api/v2/write?bucket=bad", Status: 405, Text: "Method Not Allowed\n"},
		{Name: "v2/flux", Method: "POST", Path: "/api/v2/query?org=o", Body: `from(bucket:"bad")`, Status: 403, Error: "Flux query service disabled: …"},

		partial("no value", "x v=", "unable to parse 'x v=': missing field value", parse),
		{
			Name: "partial/policy", Method: "POST", Path: writeTo + "&rp=autogen", Body: Seed + "\nx v=", Status: 400,
			Error: "partial write: unable to parse 'x v=': missing field value " + parse + " for retention policy: autogen",
		},
		partial("no fields", "x", "unable to parse 'x': missing fields", parse),
		partial("two bad lines", "x v\nx", "unable to parse 'x v': invalid field format\nunable to parse 'x': missing fields", parse),
		partial("duplicate tags", "x,h=a,h=b v=2 2", "unable to parse 'x,h=a,h=b v=2 2': duplicate tags", parse),
		partial("time out of range", "x v=1 9223372036854775807", "unable to parse 'x v=1 9223372036854775807': time outside range -9223372036854775806 - 9223372036854775806", parse),
		partial("type conflict", `m,host=a v="text" 1000000000`, `field type conflict: input field "v" on measurement "m" is type string, already exists as type float`, "dropped=1 for database: bad for retention policy: autogen"),
		partial("type conflict beside a bad line", "x v=\nm,host=a v=2i 1000000000", `field type conflict: input field "v" on measurement "m" is type integer, already exists as type float`, "dropped=1 for database: bad for retention policy: autogen"),
		partial("field that begins with a tab", "m v=1,\tw=1 5", `field "\tw" of "m" begins with a tab or a zero byte`, "dropped=1 for database: bad for retention policy: autogen"),
		partial("two type conflicts", "m,host=a v=2i 1000000000\nm,host=a v=t 1000000000", `field type conflict: input field "v" on measurement "m" is type integer, already exists as type float`, "dropped=2 for database: bad for retention policy: autogen"),
	}
}

var gzipped = map[string]string{"Content-Encoding": "gzip"}

var version2 = map[string]string{"Content-Type": "application/x-protobuf;proto=io.prometheus.write.v2.Request"}

// flip damages the checksum of a gzip body.
func flip(s string) string {
	b := []byte(s)
	b[len(b)-6] ^= 0xff
	return string(b)
}

// deletes are calls of /api/v2/delete that must remove nothing.
func deletes() []Case {
	const times = `"start":"2017-07-14T02:40:00Z","stop":"2018-07-14T02:40:10Z"`
	del := func(name, bucket, body string, status int, want string) Case {
		return Case{Name: "delete/" + name, Method: "POST", Path: "/api/v2/delete?org=o&bucket=" + url.QueryEscape(bucket), Body: body, Status: status, Error: want}
	}
	unsupported := func(name, predicate, quoted string) Case {
		return del(name, "bad/autogen", "{"+times+`,"predicate":"`+quoted+`"}`, 400,
			`delete - predicate only supports equality operators and conjunctions. database: "bad", retention policy: "autogen", start: "2017-07-14T02:40:00Z", stop: "2018-07-14T02:40:10Z", predicate: `+predicate)
	}
	return []Case{
		del("no bucket", "", "{}", 404, `bucket name "" is missing a slash; not in "database/retention-policy" format`),
		del("unknown database", "nodb/autogen", "{"+times+"}", 404, `database not found: "nodb"`),
		del("unknown policy", "bad/norp", "{"+times+"}", 404, "retention policy not found: norp"),
		del("not JSON", "bad/autogen", "{bad", 400, "delete - cannot parse request body: invalid character 'b' looking for beginning of object key string"),
		del("empty body", "bad/autogen", "", 400, "delete - cannot parse request body: EOF"),
		del("no start", "bad/autogen", `{"stop":"2017-07-14T02:40:00Z"}`, 400, "delete - start field in RFC3339Nano format required"),
		del("no stop", "bad/autogen", `{"start":"2017-07-14T02:40:00Z"}`, 400, "delete - stop field in RFC3339Nano format required"),
		del("bad stop", "bad/autogen", `{"start":"2017-07-14T02:40:00Z","stop":"x"}`, 400, `delete - invalid format for stop field "x", please use RFC3339Nano: parsing time "x" as "2006-01-02T15:04:05.999999999Z07:00": cannot parse "x" as "2006"`),
		del("epoch for start", "bad/autogen", `{"start":"0","stop":"x"}`, 400, `delete - invalid format for start field "0", please use RFC3339Nano: …`),
		del("predicate cut", "bad/autogen", "{"+times+`,"predicate":"h ="}`, 400, "delete - cannot parse predicate: …"),
		del("predicate too long", "bad/autogen", "{"+times+`,"predicate":"`+strings.Repeat("h=a AND ", 2000)+`h=a"}`, 400, "delete - predicate is too long"),
		unsupported("unequal", `"h != \"a\""`, `h != \"a\"`),
		unsupported("or", `"h = \"a\" OR r = \"y\""`, `h = \"a\" OR r = \"y\"`),
		unsupported("regex", `"h =~ /a/"`, `h =~ /a/`),
		unsupported("number", `"v = 1"`, `v = 1`),
		unsupported("two measurements", `"_measurement=m AND _measurement=n"`, `_measurement=m AND _measurement=n`),
		unsupported("no comparison", `"h"`, `h`),
		{Name: "delete/GET", Method: "GET", Path: "/api/v2/delete?bucket=bad", Status: 405, Text: "Method Not Allowed\n"},
	}
}

// requests are requests that are wrong before they mean anything.
func requests() []Case {
	return []Case{
		{Name: "request/unknown path", Method: "GET", Path: "/nosuch", Status: 404, Text: "404 page not found\n"},
		{Name: "request/unknown", Method: "GET", Path: "/index.html", Status: 404, Text: "404 page not found\n"},
		{Name: "request/trailing slash", Method: "GET", Path: "/query/", Status: 404, Text: "404 page not found\n"},
		{Name: "request/capitals", Method: "GET", Path: "/Query?q=SHOW+DATABASES", Status: 404, Text: "404 page not found\n"},
		{Name: "request/dots", Method: "GET", Path: "/../../etc/passwd", Status: 404, Text: "404 page not found\n"},
		{Name: "request/pprof is off", Method: "GET", Path: "/debug/pprof/", Status: 404, Text: "404 page not found\n"},
		{Name: "request/POST ping", Method: "POST", Path: "/ping", Status: 405, Text: "Method Not Allowed\n"},
		{Name: "request/POST status", Method: "POST", Path: "/status", Status: 405, Text: "Method Not Allowed\n"},
		{Name: "request/POST health", Method: "POST", Path: "/health", Status: 405, Text: "Method Not Allowed\n"},
		{Name: "request/POST metrics", Method: "POST", Path: "/metrics", Status: 405, Text: "Method Not Allowed\n"},
		{Name: "request/PUT query", Method: "PUT", Path: "/query?q=DROP+DATABASE+bad", Status: 405, Text: "Method Not Allowed\n"},
		{Name: "request/DELETE query", Method: "DELETE", Path: "/query?q=DROP+DATABASE+bad", Status: 405, Text: "Method Not Allowed\n"},
		{Name: "request/PATCH query", Method: "PATCH", Path: "/query?q=DROP+DATABASE+bad", Status: 405, Text: "Method Not Allowed\n"},
		{Name: "request/unknown method", Method: "BREW", Path: "/query?q=DROP+DATABASE+bad", Status: 405, Text: "Method Not Allowed\n"},
		{Name: "request/OPTIONS runs nothing", Method: "OPTIONS", Path: "/query?q=DROP+DATABASE+bad", Status: 200},
		{Name: "request/unknown encoding of a form", Method: "POST", Path: "/query", Header: map[string]string{"Content-Encoding": "deflate", "Content-Type": "application/x-www-form-urlencoded"}, Body: "q=DROP+DATABASE+bad", Status: 415, Error: `Content-Encoding "deflate" is not supported…`},
		{Name: "request/image of a page", Method: "GET", Path: "/query?q=DROP+DATABASE+bad", Header: map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, Status: 403, Error: "a web page of another origin (unknown) may not change anything: http.allowed-origins…"},
		{Name: "request/form of a page", Method: "POST", Path: "/query?q=DROP+DATABASE+bad", Header: map[string]string{"Origin": "http://evil.example"}, Status: 403, Error: "a web page of another origin (http://evil.example) may not change anything: http.allowed-origins…"},
		{Name: "request/GET of a browser", Method: "GET", Path: "/query?q=DROP+DATABASE+bad", Header: map[string]string{"User-Agent": "Mozilla/5.0"}, Status: 403, Error: "a browser may not change anything by GET…"},
		{Name: "request/header too large", Method: "GET", Path: "/ping", Header: map[string]string{"X-Large": strings.Repeat("x", 300<<10)}, Status: 431},
	}
}
