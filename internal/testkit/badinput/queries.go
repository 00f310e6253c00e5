package badinput

import (
	"net/url"
	"strings"
)

// statements are the keywords a statement may begin with.
const statements = "SELECT, DELETE, SHOW, CREATE, DROP, EXPLAIN, GRANT, REVOKE, ALTER, SET, KILL"

// value is what the parser expects of an expression.
const value = "identifier, string, number, bool"

// query is the path of statements against the database.
func query(q, more string) string {
	return "/query?db=" + Database + "&q=" + url.QueryEscape(q) + more
}

// queries are texts that are not InfluxQL.
func queries() []Case {
	texts := [][2]string{
		{"SELEC", "found SELEC, expected " + statements + " at line 1, char 1"},
		{"FOO BAR", "found FOO, expected " + statements + " at line 1, char 1"},
		{"INSERT INTO m VALUES (1)", "found INSERT, expected " + statements + " at line 1, char 1"},
		{"USE bad", "found USE, expected " + statements + " at line 1, char 1"},
		{"SELECT FROM m", "found FROM, expected " + value + " at line 1, char 8"},
		{"SELECT v", "found EOF, expected FROM at line 1, char 10"},
		{"SELECT v FROM", "found EOF, expected identifier at line 1, char 15"},
		{"SELECT v FROM m WHERE", "found EOF, expected " + value + " at line 1, char 23"},
		{"SELECT v FROM m WHERE v >", "found EOF, expected " + value + " at line 1, char 26"},
		{"SELECT v FROM m WHERE > 1", "found >, expected " + value + " at line 1, char 23"},
		{"SELECT v FROM m WHERE v > 1)", "found ), expected ; at line 1, char 28"},
		{"SELECT v FROM m WHERE v = = 1", "found =, expected " + value + " at line 1, char 27"},
		{"SELECT v, FROM m", "found FROM, expected " + value + " at line 1, char 11"},
		{"SELECT v AS 'x' FROM m", "found x, expected identifier at line 1, char 12"},
		{"SELECT v FROM m GROUP", "found EOF, expected BY at line 1, char 23"},
		{"SELECT v FROM m GROUP BY", "found EOF, expected " + value + " at line 1, char 26"},
		{"SELECT v FROM m foo", "found foo, expected ; at line 1, char 17"},
		{"SELECT v FROM m JOIN n", "found JOIN, expected ; at line 1, char 17"},
		{"SELECT v FROM a.b.c.d", `too many segments in "a"."b"."c".d at line 1, char 1`},
		{"SELECT \"v FROM m", "found v FROM m, expected " + value + " at line 1, char 7"},
		{"SELECT v FROM m WHERE h =~ /north", "bad regex:  at line 1, char 27"},
		{"SELECT v FROM m WHERE h =~ /*/", "error parsing regexp: missing argument to repetition operator: `*` at line 1, char 27"},
		{"SELECT /(/ FROM m", "error parsing regexp: missing closing ): `(` at line 1, char 7"},
		{"SELECT mean(v)) FROM m", "found ), expected FROM at line 1, char 15"},
		{"SELECT v::int FROM m", "found int, expected float, integer, unsigned, string, boolean, field, tag at line 1, char 11"},
		{"SELECT v FROM m;; FOO", "found FOO, expected " + statements + " at line 1, char 19"},
		{"SELECT v FORM m", "found FORM, expected FROM at line 1, char 10"},
		{"SELECT v FROM m WHERE v @ 1", "found @, expected ; at line 1, char 25"},
		{"SELECT v FROM m WHERE time > now() - 1x", "invalid duration"},
		{"SELECT v FROM m WHERE v > 1.2.3", "found .3, expected ; at line 1, char 30"},
		{"SELECT v FROM m WHERE n > 99999999999999999999999", "unable to parse integer at line 1, char 27"},
		{"SELECT v FROM m WHERE v IS NOT NULL", "found IS, expected ; at line 1, char 25"},
		{"SELECT () FROM m", "found ), expected " + value + " at line 1, char 9"},
		{"SELECT v FROM ()", "found ), expected SELECT at line 1, char 16"},
		{"SELECT v FROM m LIMIT 1 fill(0)", "found fill, expected ; at line 1, char 25"},
		{"SELECT mean(v) FROM m GROUP BY time(1m", "found EOF, expected ) at line 1, char 39"},
		{"SELECT v FROM m tz('Mars/Base')", "unable to find time zone Mars/Base"},
		{"SELECT $x FROM m", "missing parameter: x"},
		{"SHOW TAG", "found EOF, expected KEY, KEYS, VALUES at line 1, char 10"},
		{"SHOW TAG VALUES WITH KEY", "found EOF, expected IN, =, =~ at line 1, char 26"},
		{"SHOW SHARD", "found EOF, expected GROUPS at line 1, char 12"},
		{"CREATE", "found EOF, expected CONTINUOUS, DATABASE, USER, RETENTION, SUBSCRIPTION at line 1, char 8"},
		{"DROP", "found EOF, expected CONTINUOUS, DATABASE, MEASUREMENT, RETENTION, SERIES, SHARD, SUBSCRIPTION, USER at line 1, char 6"},
		{"CREATE DOWNSAMPLE ON bad FROM a INTO b EVERY x AS max", "found x, expected duration at line 1, char 46"},
		{"CREATE DOWNSAMPLE ON bad FROM a INTO b EVERY 1h AS top", "a downsample has no function top, only …"},
		{"DROP DOWNSAMPLE ON bad", "found EOF, expected FROM at line 1, char 24"},
		{"GRANT", "found EOF, expected READ, WRITE, ALL [PRIVILEGES] at line 1, char 7"},
		{"DELETE", "found EOF, expected FROM, WHERE at line 1, char 8"},
		{"KILL QUERY", "found EOF, expected integer at line 1, char 12"},
		{"EXPLAIN DROP MEASUREMENT m", "found DROP, expected SELECT at line 1, char 9"},
		{"SELECT v\nFROM\nm\nWHERE v >", "found EOF, expected " + value + " at line 4, char 10"},
		// Nothing of a request runs when one statement does not parse.
		{"DROP DATABASE bad; FOO", "found FOO, expected " + statements + " at line 1, char 20"},
		{"DROP MEASUREMENT m; SELECT 1", "found EOF, expected FROM at line 1, char 29"},
	}
	cases := make([]Case, 0, len(texts)+8)
	for _, q := range texts {
		cases = append(cases, Case{
			Name: "query/" + q[0], Method: "POST", Path: query(q[0], ""), Status: 400, Error: "error parsing query: " + q[1],
		})
	}
	form := map[string]string{"Content-Type": "application/x-www-form-urlencoded"}
	const tooDeep = "error parsing query: too deeply nested"
	deep := strings.Repeat("(", 20_000)
	return append(cases,
		Case{Name: "query/in a form", Method: "POST", Path: "/query", Header: form, Body: "q=SELEC", Status: 400, Error: "error parsing query: found SELEC…"},
		Case{Name: "query/deeply nested", Method: "POST", Path: "/query", Header: form, Body: "q=SELECT " + deep + "v FROM m", Status: 400, Error: "error parsing query: too many parentheses"},
		Case{Name: "query/nested and open", Method: "POST", Path: "/query", Header: form, Body: "q=SELECT " + deep[:5000] + "v FROM m", Status: 400, Error: "error parsing query: …"},
		Case{Name: "query/a chain too long", Method: "POST", Path: "/query", Header: form, Body: "q=SELECT v FROM m WHERE " + strings.Repeat("v=1 OR ", 100_000) + "v=1", Status: 400, Error: tooDeep},
		Case{Name: "query/arithmetic too long", Method: "POST", Path: "/query", Header: form, Body: "q=SELECT v" + strings.Repeat("*1", 100_000) + " FROM m", Status: 400, Error: tooDeep},
		Case{Name: "query/conditions in each other", Method: "POST", Path: "/query", Header: form, Body: "q=SELECT v FROM m WHERE " + strings.Repeat("(v=1 AND ", 5000) + "v=1" + strings.Repeat(")", 5000), Status: 400, Error: tooDeep},
		Case{Name: "query/subqueries in each other", Method: "POST", Path: "/query", Header: form, Body: "q=SELECT v FROM " + strings.Repeat("(SELECT v FROM ", 200) + "m" + strings.Repeat(")", 200), Status: 400, Error: tooDeep},
		Case{Name: "query/explained subqueries", Method: "POST", Path: "/query", Header: form, Body: "q=EXPLAIN SELECT v FROM " + strings.Repeat("(SELECT v FROM ", 200) + "m" + strings.Repeat(")", 200), Status: 400, Error: tooDeep},
		Case{Name: "query/a chain in SHOW", Method: "POST", Path: "/query", Header: form, Body: "q=SHOW SERIES WHERE " + strings.Repeat("h='a' OR ", 10_000) + "h='b'", Status: 400, Error: tooDeep},
		Case{Name: "query/a chain in SHOW MEASUREMENTS", Method: "POST", Path: "/query", Header: form, Body: "q=SHOW MEASUREMENTS WHERE " + strings.Repeat("h='a' OR ", 10_000) + "h='b'", Status: 400, Error: tooDeep},
		Case{Name: "query/a chain in DELETE", Method: "POST", Path: "/query", Header: form, Body: "q=DELETE FROM m WHERE " + strings.Repeat("h='a' OR ", 10_000) + "h='b'", Status: 400, Error: tooDeep},
		Case{Name: "query/a chain in CREATE DOWNSAMPLE", Method: "POST", Path: "/query", Header: form, Body: "q=CREATE DOWNSAMPLE ON bad FROM a INTO b EVERY 1h AS max WHERE " + strings.Repeat("h='a' OR ", 10_000) + "h='b'", Status: 400, Error: "error parsing query: the condition of a downsample has more than 1000 parts"},
		Case{Name: "query/a chain in SHOW TAG VALUES", Method: "POST", Path: "/query", Header: form, Body: "q=SHOW TAG VALUES WITH KEY = h WHERE " + strings.Repeat("h='a' OR ", 10_000) + "h='b'", Status: 400, Error: tooDeep},
		Case{Name: "query/too long", Method: "POST", Path: "/query", Header: form, Body: "q=SELECT v FROM m WHERE " + strings.Repeat("v=1 OR ", 200_000) + "v=1", Status: 400, Error: "error parsing query: query is too long"},
		Case{Name: "query/zero byte", Method: "GET", Path: "/query?q=SEL%00ECT", Status: 400, Error: "error parsing query: …"},
		Case{Name: "query/not UTF-8", Method: "GET", Path: "/query?q=%ff%fe", Status: 400, Error: "error parsing query: …"},
		Case{Name: "query/form too large", Method: "POST", Path: "/query", Header: form, Body: "q=" + strings.Repeat("x", 25_000_001), Status: 413, Error: "Request Entity Too Large"},
	)
}

// parameters are queries whose other parameters are wrong.
func parameters() []Case {
	bind := func(name, q, params, want string) Case {
		return Case{
			Name: "params/" + name, Method: "POST", Path: query(q, "&params="+url.QueryEscape(params)), Status: 400, Error: want,
		}
	}
	const where = "SELECT v FROM m WHERE host = $s"
	const missing = "error parsing query: missing parameter: "
	form := map[string]string{"Content-Type": "application/x-www-form-urlencoded"}
	const required = `missing required parameter "q"`
	return []Case{
		{Name: "q/missing", Method: "GET", Path: "/query?db=bad", Status: 400, Error: required},
		{Name: "q/empty", Method: "GET", Path: "/query?q=", Status: 400, Error: required},
		{Name: "q/blank", Method: "POST", Path: "/query?q=+%0a+", Status: 400, Error: required},
		{Name: "q/broken escape", Method: "GET", Path: "/query?q=%zz", Status: 400, Error: required},
		{Name: "q/bare semicolon", Method: "GET", Path: "/query?q=DROP+DATABASE+bad;x", Status: 400, Error: required},
		{Name: "q/form without", Method: "POST", Path: "/query", Header: form, Body: "db=bad", Status: 400, Error: required},
		{Name: "q/body without a type", Method: "POST", Path: "/query", Body: "q=DROP+DATABASE+bad", Status: 400, Error: required},
		{Name: "q/body of JSON", Method: "POST", Path: "/query", Header: map[string]string{"Content-Type": "application/json"}, Body: `{"q":"DROP DATABASE bad"}`, Status: 400, Error: required},
		{Name: "q/multipart without", Method: "POST", Path: "/query", Header: map[string]string{"Content-Type": "multipart/form-data; boundary=b"}, Body: "--b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n1\r\n--b--\r\n", Status: 400, Error: required},
		{Name: "q/multipart cut", Method: "POST", Path: "/query", Header: map[string]string{"Content-Type": "multipart/form-data; boundary=b"}, Body: "--b\r\nContent-Disposition: form-data; name=\"q\"\r\n\r\nDROP DATABASE bad", Status: 400, Error: "error parsing form: …"},
		{Name: "q/multipart without a boundary", Method: "POST", Path: "/query", Header: map[string]string{"Content-Type": "multipart/form-data"}, Body: "x", Status: 400, Error: "error parsing form: …"},
		{Name: "time_format", Method: "GET", Path: query("SELECT v FROM m", "&time_format=x"), Status: 400, Error: "Time format must be one of the following: rfc3339,epoch"},
		{Name: "read_only/DROP", Method: "POST", Path: query("DROP DATABASE bad", "&read_only=true"), Status: 400, Error: `read_only=true refuses a statement that changes something: DROP DATABASE bad (database "bad")`},
		{Name: "read_only/in a form", Method: "POST", Path: "/query?db=bad", Header: form, Body: "read_only=true&q=SHOW+DATABASES%3BDELETE+FROM+m", Status: 400, Error: `read_only=true refuses a statement that changes something: DELETE FROM m (database "bad")`},
		{Name: "read_only/unknown value", Method: "POST", Path: query("DROP DATABASE bad", "&read_only=1"), Status: 400, Error: `read_only must be true or false, not "1"`},
		bind("array", where, `[1]`, "error parsing query parameters: json: cannot unmarshal array into Go value of type map[string]interface {}"),
		bind("number", where, `1`, "error parsing query parameters: json: cannot unmarshal number into Go value of type map[string]interface {}"),
		bind("cut", where, `{"s":`, "error parsing query parameters: unexpected EOF"),
		bind("not JSON", where, `s=east`, "error parsing query parameters: invalid character 's' looking for beginning of value"),
		bind("integer too large", where, `{"s": 99999999999999999999}`, "error parsing json value: …"),
		bind("float too large", where, `{"s": 1e999}`, "error parsing json value: …"),
		bind("none", where, ``, missing+"s"),
		bind("null", where, `null`, missing+"s"),
		bind("other name", where, `{"t":1}`, missing+"s"),
		bind("null value", where, `{"s": null}`, missing+"unable to bind parameter with type <nil>"),
		bind("list", where, `{"s": [1]}`, missing+"unable to bind parameter with type []interface {}"),
		bind("empty object", where, `{"s": {}}`, missing+"bound object parameter value must have exactly one entry"),
		bind("two entries", where, `{"s": {"string":"a","regex":"b"}}`, missing+"bound object parameter value must have exactly one entry"),
		bind("unknown kind", where, `{"s": {"text":"a"}}`, missing+"unknown bind object type: text"),
		bind("string of a number", where, `{"s": {"string": 5}}`, missing+"string literal must be a string value"),
		bind("integer of a string", where, `{"s": {"integer": "5"}}`, missing+"integer literal must be an integer value"),
		bind("bad regex", where, `{"s": {"regex": "("}}`, "error parsing query: error parsing regexp: missing closing ): `(` at line 1, char 30"),
		bind("bad duration", "SELECT mean(v) FROM m GROUP BY time($d)", `{"d": {"duration": "xx"}}`, "error parsing query: invalid duration"),
		bind("string for a name", "SELECT v FROM $m", `{"m": "m"}`, "error parsing query: found m, expected identifier at line 1, char 15"),
	}
}

// engine are statements that parse and must fail in execution, as a 200 with
// the statement's error.
func engine() []Case {
	texts := [][2]string{
		{"SELECT v FROM norp.m", "retention policy not found: norp"},
		{"SELECT v FROM nodb..m", "database not found: nodb"},
		{"SELECT mean(v), v FROM m", "mixing aggregate and non-aggregate queries is not supported"},
		{"SELECT max(v), min(v), host FROM m", "mixing multiple selector functions with tags or fields is not supported"},
		{"SELECT nofunc(v) FROM m", "undefined function nofunc()"},
		{"SELECT mean(v, v) FROM m", "invalid number of arguments for mean, expected 1, got 2"},
		{"SELECT mean(1) FROM m", "expected field argument in mean()"},
		{"SELECT sum(derivative(v)) FROM m", "expected field argument in sum()"},
		{"SELECT v FROM m WHERE v", "invalid condition expression: v"},
		{"SELECT v FROM m WHERE mean(v) > 1", "invalid function call in condition: mean(v)"},
		{"SELECT v FROM m WHERE time > n", "invalid operation: time and *influxql.VarRef are not compatible"},
		{"SELECT count(v) FROM m GROUP BY 5", "only time and tag dimensions allowed"},
		{"SELECT count(v) FROM m GROUP BY mean(v)", "only time() calls allowed in dimensions"},
		{"SELECT v FROM m fill(none)", "fill(none) must be used with a function"},
		{"SELECT 1 + 1 FROM m", "field must contain at least one variable"},
		{"SELECT top(*, 1) FROM m", "expected first argument to be a field in top(), found *"},
		{"SELECT v + host FROM m", "type error: v::float + host::tag: incompatible types: float and tag"},
		{"CREATE RETENTION POLICY p ON nodb DURATION 1d REPLICATION 1", "database not found: nodb"},
		{"ALTER RETENTION POLICY norp ON bad DURATION 2d", "retention policy not found: norp"},
		{"SHOW RETENTION POLICIES ON nodb", "database not found: nodb"},
		{"KILL QUERY 999999", "no such query id: 999999"},
		{"DROP SERIES FROM m WHERE time > 0", "DROP SERIES doesn't support time in WHERE clause"},
	}
	cases := make([]Case, 0, len(texts)+1)
	for _, q := range texts {
		cases = append(cases, Case{Name: "engine/" + q[0], Method: "POST", Path: query(q[0], ""), Status: 200, Error: q[1], Engine: true})
	}
	return append(cases, Case{
		Name: "engine/v2 delete by a field", Method: "POST", Path: "/api/v2/delete?bucket=bad/autogen", Status: 400, Engine: true,
		Body:  `{"start":"1970-01-01T00:00:00Z","stop":"2018-07-14T02:40:10Z","predicate":"_measurement=m AND v=\"1\""}`,
		Error: "delete - …",
	}, Case{
		Name: "engine/no database", Method: "POST", Path: "/query?q=SELECT+v+FROM+m", Status: 200, Error: "database name required", Engine: true,
	})
}
