package clients

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tsdbd/internal/testkit/apptest"
)

// parquetPoints have all types at their bounds, texts that need quotes, absent values, and
// names that need them, in two shards.
const parquetPoints = `cpu,host=a\ b,x=é f=1.5,i=-9223372036854775808i,u=18446744073709551615u,b=true,s="q\"uo,te
line" 1500000000123456000
cpu,host=c f=-0,s="",i=9223372036854775807i 1500000000000000000
cpu f=1e300,host="a field",b=false 1400000000000000000
odd\ m\,easure\=ment,t\ ag=v\ 1 "f"=1i 1500000000000000000
odd\ m\,easure\=ment,t\ ag=%,name=n 'g'=2 1500000000000000001
`

// TestParquet has DuckDB read exported files and exported CSV. npm
// fetches DuckDB into bin/duckdb once.
func TestParquet(t *testing.T) {
	s := newSuite(t, "DuckDB")
	node := s.need("node", "apt-get install nodejs npm")
	npm := s.need("npm", "apt-get install npm")
	tools := filepath.Join(root(), "bin", "duckdb")
	s.must(os.MkdirAll(tools, 0o755))
	for _, name := range []string{"package.json", "ask.js"} {
		text, err := os.ReadFile(filepath.Join(root(), "clients", "duckdb", name))
		s.must(err)
		s.must(os.WriteFile(filepath.Join(tools, name), text, 0o644))
	}
	if _, err := os.Stat(filepath.Join(tools, "node_modules", "@duckdb", "node-api")); err != nil {
		if out, errs, err := command(t, tools, nil, "", npm, "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"); err != nil {
			s.skip("npm install: %v\n%s%s", err, out, errs)
		}
	}
	server := start(t)
	server.Query("", "CREATE DATABASE demo")
	server.Write("demo", parquetPoints)
	var many strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&many, "big,host=h%d v=%d.25,n=%di,s=\"text %d\" %d\n", i%500, i%1000, i, i, 1500000000000000000+int64(i)*1000000)
	}
	server.Write("demo", many.String())

	dir := t.TempDir()
	export := func(format, out string, more ...string) {
		t.Helper()
		args := append([]string{apptest.Binary(t), "export", "-host", server.URL, "-db", "demo", "-format", format, "-out", filepath.Join(dir, out)}, more...)
		if out, errs, err := command(t, dir, nil, "", args...); err != nil {
			t.Fatalf("%v\n%s%s", err, out, errs)
		}
	}
	export("parquet", "files")
	export("csv", "big.csv", "-measurement", "big", "-lponly")
	cases := [][2]string{
		{"DESCRIBE SELECT * FROM 'files/demo/autogen/cpu/*.parquet'", `[["time","TIMESTAMP WITH TIME ZONE","YES",null,null,null],["host_tag","VARCHAR","YES",null,null,null],["x","VARCHAR","YES",null,null,null],["b","BOOLEAN","YES",null,null,null],["f","DOUBLE","YES",null,null,null],["host","VARCHAR","YES",null,null,null],["i","BIGINT","YES",null,null,null],["s","VARCHAR","YES",null,null,null],["u","UBIGINT","YES",null,null,null]]`},
		{"SELECT epoch_us(time), host_tag, x, b, f, signbit(f), host, i, s, u FROM 'files/demo/autogen/cpu/*.parquet' ORDER BY time", `[["1400000000000000",null,null,false,1e+300,false,"a field",null,null,null],["1500000000000000","c",null,null,0,true,null,"9223372036854775807","",null],["1500000000123456","a b","é",true,1.5,false,null,"-9223372036854775808","q\"uo,te\nline","18446744073709551615"]]`},
		{`SELECT "t ag", name, """f""", "'g'" FROM 'files/demo/autogen/odd%20m%2Ceasure%3Dment/*.parquet' ORDER BY 1`, `[["%","n",null,2],["v 1",null,"1",null]]`},
		{"SELECT count(*), sum(v), sum(n), count(DISTINCT host), count(DISTINCT s), epoch_ms(max(time)) FROM 'files/demo/autogen/big/*.parquet'", `[["200000",99950000,"19999900000","500","200000","1500000199999"]]`},
		{"SELECT count(*) FROM 'files/demo/autogen/big/*.parquet' WHERE host = 'h7' AND n BETWEEN 1000 AND 1999 AND time >= '2017-07-14 02:40:01Z'", `[["2"]]`},
		{"SELECT count(*), sum(v), sum(n), count(DISTINCT s), min(time) = '2017-07-14 02:40:00' FROM read_csv('big.csv', comment = '#')", `[["200000",99950000,"19999900000","200000",true]]`},
	}
	var statements []string
	for _, c := range cases {
		statements = append(statements, c[0])
	}
	input, err := json.Marshal(append(statements, "SELECT version()"))
	s.must(err)
	out, errs, err := command(t, dir, nil, string(input), node, filepath.Join(tools, "ask.js"))
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, errs)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != len(cases)+1 {
		t.Fatalf("%d answers\n%s%s", len(lines), out, errs)
	}
	s.version = strings.Trim(lines[len(cases)], `[]"`)
	for i, c := range cases {
		s.equal(c[0], lines[i], c[1])
	}
}
