package httpapi

import (
	"strings"
	"testing"

	"github.com/influxdata/influxql"
)

// TestBindParameters holds each form of a bound value against the statement it
// makes.
func TestBindParameters(t *testing.T) {
	f := func(q, params, want string) {
		t.Helper()
		text := func() string {
			bound, err := bindParameters(params)
			if err != nil {
				return err.Error()
			}
			p := influxql.NewParser(strings.NewReader(q))
			p.SetParams(bound)
			parsed, err := p.ParseQuery()
			if err != nil {
				return err.Error()
			}
			return parsed.String()
		}()
		if text != want {
			t.Errorf("%s with %s: %s, want %s", q, params, text, want)
		}
	}
	where := func(params, want string) {
		t.Helper()
		f("SELECT v FROM m WHERE x = $p", params, "SELECT v FROM m WHERE x = "+want)
	}
	where(`{"p":"it's"}`, `'it\'s'`)
	where(`{"p":1}`, `1`)
	where(`{"p":9223372036854775807}`, `9223372036854775807`)
	where(`{"p":-9223372036854775808}`, `-9223372036854775808`)
	where(`{"p":1.5}`, `1.5`)
	where(`{"p":1e3}`, `1000.0`)
	where(`{"p":true}`, `true`)
	where(`{"p":false}`, `false`)
	where(`{"p":{"string":"a' OR 'b"}}`, `'a\' OR \'b'`)
	where(`{"p":{"float":1}}`, `1.0`)
	where(`{"p":{"number":2.5}}`, `2.5`)
	where(`{"p":{"number":1e300}}`, `1`+strings.Repeat("0", 300)+`.0`)
	where(`{"p":{"int":7}}`, `7`)
	where(`{"p":{"integer":-7}}`, `-7`)
	where(`{"p":{"boolean":true}}`, `true`)
	where(`{"p":{"bool":false}}`, `false`)
	where(`{"p":{"duration":"5m"}}`, `5m`)
	where(`{"p":{"duration":60000000000}}`, `1m`)
	where(`{"p":{"identifier":"a b"}}`, `"a b"`)
	f("SELECT v FROM m WHERE x =~ $p", `{"p":{"regex":"^a/b$"}}`, `SELECT v FROM m WHERE x =~ /^a\/b$/`)
	f("SELECT $f FROM $m GROUP BY time($d), $t LIMIT 1", `{"f":{"ident":"v"},"m":{"identifier":"m; DROP DATABASE x"},"d":{"duration":"90s"},"t":{"identifier":"\"q\""}}`,
		`SELECT v FROM "m; DROP DATABASE x" GROUP BY time(90s), "\"q\"" LIMIT 1`)
	f("SELECT v FROM m", `{"unused":[1]}`, `SELECT v FROM m`)
	f("SELECT v FROM m", ``, `SELECT v FROM m`)
	f("SELECT v FROM m", `null`, `SELECT v FROM m`)

	refused := func(params, want string) {
		t.Helper()
		bound, err := bindParameters(params)
		if err == nil {
			p := influxql.NewParser(strings.NewReader("SELECT v FROM m WHERE x = $p"))
			p.SetParams(bound)
			_, err = p.ParseQuery()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", params, err, want)
		}
	}
	refused(`{}`, "missing parameter: p")
	refused(`{"P":1}`, "missing parameter: p")
	refused(`{"p":{}}`, "bound object parameter value must have exactly one entry")
	refused(`{"p":{"int":1,"float":1}}`, "bound object parameter value must have exactly one entry")
	refused(`{"p":{"x":1}}`, "unknown bind object type: x")
	refused(`{"p":{"int":1.5}}`, "integer literal must be an integer value")
	refused(`{"p":{"int":"1"}}`, "integer literal must be an integer value")
	refused(`{"p":{"string":1}}`, "string literal must be a string value")
	refused(`{"p":{"boolean":1}}`, "boolean literal must be a boolean value")
	refused(`{"p":{"regex":1}}`, "regex literal must be a string value")
	refused(`{"p":{"identifier":1}}`, "identifier must be a string value")
	refused(`{"p":{"duration":1.5}}`, "duration literal must be a string or integer value")
	refused(`{"p":null}`, "unable to bind parameter with type <nil>")
	refused(`{"p":[1]}`, "unable to bind parameter with type []interface {}")
	refused(`{"p":9223372036854775808}`, "error parsing json value: ")
	refused(`{"p":1e999}`, "error parsing json value: ")
	refused(`{"p":{"int":9223372036854775808}}`, "error parsing query parameters: ")
	refused(`[1]`, "error parsing query parameters: ")
	refused(`{"p":`, "error parsing query parameters: ")
}
