package clients

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// shellImport is a file for influx -import.
const shellImport = `# DDL
CREATE DATABASE shop
CREATE RETENTION POLICY long ON shop DURATION 2000w REPLICATION 1
CREATE USER "reader" WITH PASSWORD 'r'
GRANT READ ON shop TO reader
# DML
# CONTEXT-DATABASE: shop
# CONTEXT-RETENTION-POLICY: autogen
sales,town=oslo,kind=bread amount=3i,price=1.5,open=true,note="first, \"best\"" 1500000000000000000
sales,town=oslo,kind=cake amount=1i,price=4.25,open=false 1500000060000000000
sales,town=rome,kind=bread amount=7i,price=1.25,open=true 1500000120000000000
stock,town=r\ ome level=1e3 1500000000000000000
# CONTEXT-RETENTION-POLICY: long
sales,town=oslo amount=1000i 1400000000000000000
`

// shellStatements are run by the shell on both servers, in order.
var shellStatements = []string{
	"SHOW DATABASES", "SHOW RETENTION POLICIES ON shop", "SHOW MEASUREMENTS", "SHOW SERIES", "SHOW TAG KEYS", "SHOW FIELD KEYS",
	"SHOW TAG VALUES WITH KEY = town", "SHOW TAG VALUES FROM sales WITH KEY IN (town, kind) WHERE kind = 'bread'",
	"SHOW USERS", "SHOW GRANTS FOR reader", "SHOW CONTINUOUS QUERIES", "SHOW SUBSCRIPTIONS",
	"SHOW SERIES EXACT CARDINALITY", "SHOW MEASUREMENT EXACT CARDINALITY",
	"SELECT * FROM sales", "SELECT * FROM sales GROUP BY town", "SELECT * FROM long.sales", "SELECT * FROM /.*/",
	"SELECT count(*), mean(price) FROM sales WHERE time >= 1500000000s AND time < 1500000180s GROUP BY time(1m) fill(0)",
	"SELECT top(amount, kind, 2) FROM sales",
	"SELECT amount * price AS total FROM sales; SELECT last(note) FROM sales",
	"SELECT nosuch(amount) FROM sales", "SELEC 1",
	"SELECT sum(amount) INTO copy FROM sales GROUP BY town", "SELECT * FROM copy",
	`CREATE CONTINUOUS QUERY cq ON shop BEGIN SELECT mean(price) INTO avg FROM sales GROUP BY time(1h) END`, "SHOW CONTINUOUS QUERIES",
	"CREATE SUBSCRIPTION sub ON shop.autogen DESTINATIONS ALL 'http://127.0.0.1:9'", "SHOW SUBSCRIPTIONS", "DROP SUBSCRIPTION sub ON shop.autogen",
	"DELETE FROM sales WHERE kind = 'cake'", "SELECT count(amount) FROM sales", "DROP MEASUREMENT copy", "DROP SERIES FROM stock", "SHOW MEASUREMENTS",
	"ALTER RETENTION POLICY long ON shop DURATION 3000w", "SHOW RETENTION POLICIES ON shop",
	"SET PASSWORD FOR reader = 'x'", "REVOKE READ ON shop FROM reader", "SHOW GRANTS FOR reader", "DROP USER reader", "SHOW USERS",
}

// shellSession is typed into the shell.
const shellSession = `use shop
precision rfc3339
insert tea,kind=green cups=2i 1500000000000000000
insert into long tea,kind=black cups=3i 1500000000000000000
select * from tea
select * from long.tea
use shop.long
select * from tea
use nosuch
format csv
select * from tea
format json
pretty
select * from tea
chunked
chunk size 1
select * from tea
consistency any
insert tea cups=oops
clear db
show measurements
exit
`

// shell runs influx against a server.
func shell(t *testing.T, url, stdin string, args ...string) string {
	t.Helper()
	host, port := address(url)
	out, errs, err := command(t, t.TempDir(), []string{"HOME=" + t.TempDir()}, stdin, append([]string{"influx", "-host", host, "-port", port}, args...)...)
	text := out + errs
	if err != nil {
		text += "exit: " + err.Error() + "\n"
	}
	return text
}

// changing are parts of the shell's output that are never the same twice.
var changing = regexp.MustCompile(`(http://)?(127\.0\.0\.1|localhost):\d+|\d{4}/\d\d/\d\d \d\d:\d\d:\d\d|Time elapsed: .*|Points per second.*|version \S+|shell version: .*`)

// TestInfluxShell compares the whole output of the shell with that on a real
// InfluxDB.
func TestInfluxShell(t *testing.T) {
	s := newSuite(t, "influx shell")
	s.need("influx", "apt-get install influxdb-client")
	s.version = strings.TrimPrefix(strings.TrimSpace(shellVersion(t)), "InfluxDB shell version: ")
	server := start(t)
	peer := startInfluxd(t)
	if peer == nil {
		s.skip("influxd is not installed (apt-get install influxdb)")
	}
	compare := func(name, stdin string, args ...string) {
		t.Helper()
		got := changing.ReplaceAllString(shell(t, server.URL, stdin, args...), "*")
		want := changing.ReplaceAllString(shell(t, peer.url, stdin, args...), "*")
		s.equal(name, got, want)
	}
	dir := t.TempDir()
	plain, packed := filepath.Join(dir, "import.txt"), filepath.Join(dir, "import.gz")
	s.must(os.WriteFile(plain, []byte(shellImport), 0o600))
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(strings.ReplaceAll(shellImport, "CREATE USER", "# ")))
	s.must(err)
	s.must(z.Close())
	s.must(os.WriteFile(packed, b.Bytes(), 0o600))
	compare("import", "", "-import", "-path", plain)
	compare("import compressed", "", "-import", "-path", packed, "-compressed", "-pps", "1000")
	compare("import of a file with errors", "import me", "-import", "-path", plain+"none")
	for _, q := range shellStatements {
		compare(q, "", "-database", "shop", "-execute", q)
	}
	// The shell writes messages to standard output, where scripts take them for rows.
	const none = "SELECT * FROM nothing"
	compare(none, "", "-database", "shop", "-execute", none)
	compare("csv "+none, "", "-database", "shop", "-format", "csv", "-execute", none)
	for _, format := range []string{"json", "csv", "column"} {
		for _, precision := range []string{"rfc3339", "s", "ns", "h"} {
			for _, q := range []string{"SELECT * FROM sales", "SELECT mean(price) FROM sales GROUP BY town", "SHOW TAG VALUES WITH KEY = town", "SHOW DATABASES"} {
				compare(format+" "+precision+" "+q, "", "-database", "shop", "-format", format, "-precision", precision, "-execute", q)
			}
		}
	}
	compare("json pretty", "", "-database", "shop", "-format", "json", "-pretty", "-execute", "SELECT * FROM sales")
	compare("session", shellSession)
	for _, q := range []string{"SHOW STATS", "SHOW DIAGNOSTICS", "SHOW QUERIES", "SHOW SHARDS", "SHOW SHARD GROUPS", "EXPLAIN SELECT * FROM sales", "EXPLAIN ANALYZE SELECT * FROM sales"} {
		// What these say is the server's own; the shell must show it.
		out := shell(t, server.URL, "", "-database", "shop", "-execute", q)
		if strings.Contains(out, "ERR") || strings.Contains(out, "exit") || strings.Count(out, "\n") < 3 {
			s.check(q, fmt.Errorf("%s", out))
			continue
		}
		s.check(q, nil)
	}
}

func shellVersion(t *testing.T) string {
	out, _, err := command(t, "", nil, "", "influx", "-version")
	if err != nil {
		t.Fatal(err)
	}
	return out
}
