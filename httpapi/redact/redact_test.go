package redact

import (
	"strings"
	"testing"

	"github.com/influxdata/influxql"
)

func TestQuery(t *testing.T) {
	f := func(q, want string) {
		t.Helper()
		if got := Query(q); got != want {
			t.Errorf("Query(%s) = %s, want %s", q, got, want)
		}
	}
	f(`SELECT v FROM m`, `SELECT v FROM m`)
	f(`CREATE USER bo WITH PASSWORD 'pw' WITH ALL PRIVILEGES`, `CREATE USER bo WITH PASSWORD [REDACTED] WITH ALL PRIVILEGES`)
	f(`create user "b o" with password 'it\'s'; SELECT 1`, `create user "b o" with password [REDACTED]; SELECT 1`)
	f(`CREATE USER bo WITH PASSWORD 'it''s' WITH`, `CREATE USER bo WITH PASSWORD [REDACTED] WITH`)
	f(`CREATE USER bo WITH PASSWORD pw`, `CREATE USER bo WITH PASSWORD [REDACTED]`)
	f(`CREATE USER bo WITH PASSWORD 'open`, `CREATE USER bo WITH PASSWORD [REDACTED]`)
	f(`SET PASSWORD FOR "x y" = 'two words'`, `SET PASSWORD FOR "x y" = [REDACTED]`)
	f(`SET PASSWORD FOR bo='pw'`, `SET PASSWORD FOR bo=[REDACTED]`)
	f("SET PASSWORD\nFOR bo =\n'pw'", "SET PASSWORD\nFOR bo =\n[REDACTED]")
	f("CREATE USER bo WITH PASSWORD /* c\nd */ 'pw' WITH", "CREATE USER bo WITH PASSWORD /* c\nd */ [REDACTED] WITH")
	f("CREATE USER bo WITH PASSWORD -- c\n'pw'", "CREATE USER bo WITH PASSWORD -- c\n[REDACTED]")
	f("SET PASSWORD /**/ FOR/**/bo /**/ = --\n 'pw'", "SET PASSWORD /**/ FOR/**/bo /**/ = --\n [REDACTED]")
	f(`CREATE SUBSCRIPTION s ON d.r DESTINATIONS ALL 'http://ann:pw@h:80'`, `CREATE SUBSCRIPTION s ON d.r DESTINATIONS ALL 'http://ann:[REDACTED]@h:80'`)
	f(`SET PASSWORD FOR bo = "pw"; DROP USER x`, `SET PASSWORD FOR bo = [REDACTED]; DROP USER x`)
}

func TestRedactURLHidesSecrets(t *testing.T) {
	for _, raw := range []string{
		"u=root&p=secret&db=x",
		"%70=secret",
		"q=SET+PASSWORD+FOR+x+%3D+%27secret%27",
		"q=CREATE%20USER%20x%20WITH%20PASSWORD%20%27secret%27&db=y",
		`params={"p":"secret"}&q=SET+PASSWORD+FOR+x+%3D+$p`,
		"db=x&p=secret&p=secret",
		"db=x;u=root;p=secret",
		"db;p=secret",
		"q=CREATE%20USER%20x%20WITH%20PASSWORD%20%27secret%27%zz",
		"q=%zzSET+PASSWORD+FOR+x+=+%27secret%27",
		"q=CREATE%2520USER%2520x%2520WITH%2520PASSWORD%2520%2527secret%2527",
		"Q=CREATE+USER+x+WITH+PASSWORD+'secret'",
		"P=secret", "%zzp=1&U=secret", "token=secret", "Token=secret", "%54oken=secret", "password=secret", "PARAMS=secret",
		"q=SHOW+DATABASES;SET+PASSWORD+FOR+x+=+'secret'",
	} {
		if got := URL(raw); strings.Contains(got, "secret") {
			t.Errorf("URL(%s) = %s", raw, got)
		}
	}
	const harmless = "db=x&precision=s&q=SELECT+v+FROM+m"
	if got := URL(harmless); got != harmless {
		t.Errorf("URL(%s) = %s", harmless, got)
	}
}

// FuzzQuery puts any password into the statements that carry one: nothing of
// it may get into the log.
func FuzzQuery(f *testing.F) {
	f.Add("secret", false)
	f.Add(`it's`, true)
	f.Add("two words; and 'quotes'", true)
	f.Add("\n\\'", false)
	f.Fuzz(func(t *testing.T, password string, set bool) {
		quoted := influxql.QuoteString(password)
		before, after := "CREATE USER x WITH PASSWORD ", " WITH ALL PRIVILEGES"
		if set {
			before, after = `SET PASSWORD FOR "a b" = `, "; SELECT 1"
		}
		if got := Query(before + quoted + after); got != before+"[REDACTED]"+after {
			t.Errorf("password %q: %s", password, got)
		}
	})
}
