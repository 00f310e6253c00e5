package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/proc"
	"tsdbd/internal/testkit/apptest"
	"tsdbd/transfer/journal"
)

// influxFiles is the directory of an InfluxDB 1.6.7: TSM files with tombstones, a log, a
// catalog. It was stopped after a delete.
var influxFiles = filepath.Join("testdata", "influxdb")

// copied returns a copy of the files that tests may change.
func copied(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "influxdb")
	if err := os.CopyFS(dir, os.DirFS(influxFiles)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// influxTable is how an import of influxFiles ends. InfluxDB itself counted 1495 amounts
// and 1494 of each other field of sales.
const influxTable = `measurement             series in InfluxDB  in tsdbd  values in InfluxDB  in tsdbd  
odd name.autogen.a b,c  1                   1         2                   2         equal
odd name.autogen.m      1                   1         2                   2         equal
shop.autogen.sales      7                   7         5977                5977      equal
shop.long.sales         1                   1         49                  49        equal
`

const influxMade = "2 databases, 4 retention policies, 2 users, 1 continuous queries, 1 subscriptions made\n"

var loadRate = regexp.MustCompile(` in [^ ]+, [0-9.]+ million a second`)

// timeless leaves out how long an import took.
func timeless(text string) string { return loadRate.ReplaceAllString(text, "") }

// answersOfInflux are what InfluxDB 1.6.7 answers over influxFiles.
var answersOfInflux = map[[2]string]string{
	{"shop", "SELECT count(*), sum(amount), sum(price) FROM sales"}:                        "[[0,1495,1494,1494,1494,1124212,140524.375]]",
	{"shop", "SELECT count(*), sum(amount) FROM long.sales"}:                               "[[0,49,1225]]",
	{"shop", "SELECT price FROM sales WHERE time = 1500001200s AND kind = '0'"}:            "[[1500001200000000000,-1]]",
	{"shop", "SELECT amount FROM sales WHERE town = 'Bonn' AND time < 1500011000s"}:        "[[1500010800000000000,18]]",
	{"odd name", `SELECT "f 1", g, "t=x" FROM "a b,c"`}:                                    `[[1500000000000000000,"quote \" and \\ ä",-0.5,"v 1"]]`,
	{"odd name", "SELECT v FROM m"}:                                                        "[[-1,1],[0,2]]",
	{"shop", "SHOW RETENTION POLICIES"}:                                                    `[["autogen","0s","168h0m0s",1,true],["long","0s","720h0m0s",1,false]]`,
	{"odd name", "SHOW RETENTION POLICIES"}:                                                `[["autogen","0s","168h0m0s",1,true],["brief","24h0m0s","1h0m0s",1,false]]`,
	{"shop", "SHOW USERS"}:                                                                 `[["root",true],["reader",false]]`,
	{"shop", "SHOW GRANTS FOR reader"}:                                                     `[["shop","READ"]]`,
	{"shop", "SHOW SUBSCRIPTIONS"}:                                                         `[["autogen","copy","ALL",["udp://127.0.0.1:9"]]]`,
	{"shop", "SHOW CONTINUOUS QUERIES"}:                                                    `[["daily","CREATE CONTINUOUS QUERY daily ON shop BEGIN SELECT sum(amount) INTO shop.long.daily FROM shop.autogen.sales GROUP BY time(1d), town END"]]`,
	{"shop", "SELECT count(amount) FROM sales GROUP BY town"}:                              `{"town":"Trier"},"columns":["time","count"],"values":[[0,1]]`,
	{"shop", "SELECT count(amount) FROM sales WHERE time < 1500300000s GROUP BY time(7d)"}: "",
}

func checkInflux(t testing.TB, s *apptest.Server, what string) {
	t.Helper()
	for q, want := range answersOfInflux {
		if got := s.Query(q[0], q[1]); !strings.Contains(got, want) {
			t.Errorf("%s: %s\n%s\nwant %s", what, q[1], got, want)
		}
	}
}

// TestImportInfluxDB loads into a new data directory and into a running server, and again:
// nothing changes then.
func TestImportInfluxDB(t *testing.T) {
	out := must(t, "import", "influxdb", "-dry-run", influxFiles)
	for _, want := range []string{"shop.long         3       2017-06-21  2017-09-18", "2 users, 1 continuous queries, 1 subscriptions\n8 shards with about "} {
		if !strings.Contains(out, want) {
			t.Errorf("dry run lacks %q:\n%s", want, out)
		}
	}
	data := filepath.Join(t.TempDir(), "data")
	out, errs, err := tsdbd(t, "import", "influxdb", "-data", data, influxFiles)
	if err != nil || errs != "" || timeless(out) != influxMade+"6030 values of 8 shards loaded\n"+influxTable {
		t.Fatalf("%v\n%s%s", err, out, errs)
	}
	if _, err := os.Stat(filepath.Join(data, "import.journal")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the journal is left: %v", err)
	}
	must(t, "verify", data)
	s := apptest.StartOn(t, data)
	checkInflux(t, s, "files")
	if _, _, err := tsdbd(t, "import", "influxdb", "-data", data, influxFiles); err == nil || !strings.Contains(err.Error(), "stop the server, or import with -host") {
		t.Errorf("into the directory of a running server: %v", err)
	}
	s.Stop()
	out, errs, err = tsdbd(t, "import", "influxdb", "-data", data, influxFiles)
	if err != nil || !strings.Contains(errs, "2 of 2 users are there already") || !strings.Contains(timeless(out), "6030 values of 8 shards loaded\n8 of these shards had points, and got theirs by writes\n"+influxTable) {
		t.Errorf("again: %v\n%s%s", err, out, errs)
	}
	s.Restart()
	checkInflux(t, s, "files and writes")

	server := apptest.Start(t)
	for round := range 2 {
		out, errs, err = tsdbd(t, "import", "influxdb", "-host", server.URL, influxFiles)
		if err != nil || !strings.HasSuffix(out, influxTable) || round == 1 && !strings.Contains(errs, "retention policy shop.long is there already and stays as it is") {
			t.Errorf("into a server, round %d: %v\n%s%s", round, err, out, errs)
		}
		checkInflux(t, server, "server")
	}
}

// TestImportInfluxEmptied goes on with an import into a server that was emptied meanwhile:
// it says so, and begins again.
func TestImportInfluxEmptied(t *testing.T) {
	from, err := filepath.Abs(influxFiles)
	if err != nil {
		t.Fatal(err)
	}
	server := apptest.Start(t)
	name := filepath.Join(t.TempDir(), "journal")
	j, err := journal.Open(name, fmt.Sprintf("from %s to %s", from, server.URL))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(j.Finish("shard 2 of shop.autogen", journal.Refused{}), j.Close()); err != nil {
		t.Fatal(err)
	}
	args := []string{"import", "influxdb", "-host", server.URL, "-journal", name, influxFiles}
	if _, errs, err := tsdbd(t, args...); err == nil || !strings.Contains(err.Error(), "is gone: the server did not have shop.autogen; the same command begins again") {
		t.Errorf("%v\n%s", err, errs)
	}
	if out := must(t, args...); !strings.HasSuffix(out, influxTable) {
		t.Errorf("%s", out)
	}
	checkInflux(t, server, "emptied")
}

// TestImportInfluxPasswords logs in with the passwords of InfluxDB.
func TestImportInfluxPasswords(t *testing.T) {
	data := t.TempDir()
	must(t, "import", "influxdb", "-data", data, influxFiles)
	s := apptest.New(t)
	s.Dir, s.Env = data, []string{"TSDBD_HTTP_AUTH_ENABLED=true"}
	s.Restart()
	for _, c := range []struct {
		user, password string
		status         int
	}{{"root", "secret", 200}, {"reader", "only read", 200}, {"reader", "secret", 401}} {
		form := url.Values{"q": {"SELECT count(amount) FROM sales"}, "db": {"shop"}, "u": {c.user}, "p": {c.password}}
		if status, answer, err := s.Do(t.Context(), "POST", "/query", form, ""); err != nil || status != c.status || status == 200 && !strings.Contains(answer, "1495") {
			t.Errorf("%s: %d %s, %v", c.user, status, answer, err)
		}
	}
	form := url.Values{"db": {"shop"}, "u": {"reader"}, "p": {"only read"}}
	if status, answer, err := s.Do(t.Context(), "POST", "/write", form, "m v=1"); err != nil || status != 403 {
		t.Errorf("reader writes: %d %s, %v", status, answer, err)
	}
}

// TestImportInfluxFilters loads parts, under another name.
func TestImportInfluxFilters(t *testing.T) {
	data := t.TempDir()
	out, errs, err := tsdbd(t, "import", "influxdb", "-data", data, "-db", "shop", "-rp", "autogen", "-start", "2017-07-16", "-end", "2017-07-18", "-newdb", "part", influxFiles)
	if err != nil || !strings.Contains(out, "1 databases, 1 retention policies, 0 users, 0 continuous queries, 1 subscriptions made") ||
		!strings.Contains(errs, "users are left out") || !strings.Contains(errs, "1 continuous queries are left out, because they name database shop") {
		t.Fatalf("%v\n%s%s", err, out, errs)
	}
	s := apptest.StartOn(t, data)
	if got := s.Query("part", "SELECT count(amount), first(amount), last(amount) FROM sales"); !strings.Contains(got, "[[0,289,") {
		t.Errorf("%s", got)
	}
}

// TestImportInfluxMeasurements loads the measurements that are chosen, into files and into
// a server.
func TestImportInfluxMeasurements(t *testing.T) {
	const want = "odd name.autogen.a b,c  1                   1         2                   2         equal\n"
	args := []string{"import", "influxdb", "-measurement", "/^a .,c$/", "-measurement", "none*"}
	if out := must(t, append(args, "-data", t.TempDir(), influxFiles)...); !strings.HasSuffix(out, want) || strings.Contains(out, "sales") {
		t.Errorf("%s", out)
	}
	s := apptest.Start(t)
	if out := must(t, append(args, "-host", s.URL, influxFiles)...); !strings.HasSuffix(out, want) || strings.Contains(out, "sales") {
		t.Errorf("%s", out)
	}
	if out := must(t, append(args, "-dry-run", influxFiles)...); !strings.Contains(out, "values, those of other measurements included") {
		t.Errorf("%s", out)
	}
}

// TestImportInfluxOldCatalog loads the shards that the catalog has not given numbers to,
// leaves others out that it does not name, and says so; -shard brings these.
func TestImportInfluxOldCatalog(t *testing.T) {
	from := copied(t)
	shop := filepath.Join(from, "data", "shop")
	for old, now := range map[string]string{filepath.Join("autogen", "2"): filepath.Join("later", "99"), filepath.Join("long", "5"): filepath.Join("long", "1")} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(shop, now)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(shop, old), filepath.Join(shop, now)); err != nil {
			t.Fatal(err)
		}
	}
	to := t.TempDir()
	out, errs, err := tsdbd(t, "import", "influxdb", "-data", to, from)
	if err == nil || err.Error() != "the catalog is older than the data, 1 shards are left out" {
		t.Errorf("%v", err)
	}
	for _, text := range []string{"the catalog is older than 1 shards: their points go to the policies that their directories name", "shop.later/99", "shop.long/1", "The same command with -shard 1 brings them"} {
		if !strings.Contains(errs, text) {
			t.Errorf("lacks %q:\n%s", text, errs)
		}
	}
	if !strings.Contains(out, "shop.later.sales") {
		t.Errorf("%s", out)
	}
	if out, _, err := tsdbd(t, "import", "influxdb", "-data", t.TempDir(), "-db", "odd name", from); !strings.HasSuffix(fmt.Sprint(err), "the catalog is older than the data") || !strings.Contains(out, "odd name.autogen.m") {
		t.Errorf("%v\n%s", err, out)
	}
	out, errs, err = tsdbd(t, "import", "influxdb", "-data", to, "-db", "shop", "-shard", "1", from)
	if err == nil || !strings.Contains(out, "shop.long.sales") {
		t.Errorf("%v\n%s%s", err, out, errs)
	}
}

// TestImportInfluxExisting leaves what is there, and refuses what does not fit to it.
func TestImportInfluxExisting(t *testing.T) {
	data := t.TempDir()
	s := apptest.StartOn(t, data)
	s.Query("", "CREATE DATABASE shop WITH DURATION INF SHARD DURATION 1d NAME autogen")
	s.Query("", "CREATE USER reader WITH PASSWORD 'mine'")
	s.Write("shop", `sales,town=Ulm amount="text" 1500000000000000000`)
	s.Stop()
	failed := filepath.Join(t.TempDir(), "failed")
	out, errs, err := tsdbd(t, "import", "influxdb", "-data", data, "-failed", failed, influxFiles)
	if err == nil || !strings.Contains(err.Error(), "values were refused") {
		t.Errorf("no error: %v", err)
	}
	for _, want := range []string{"1 of 2 users are there already", "shop.autogen is there already and stays as it is: it keeps points forever in shards of 24h0m0s, that of InfluxDB forever in shards of 168h0m0s", "is type integer, already exists as type string"} {
		if !strings.Contains(errs, want) {
			t.Errorf("lacks %q:\n%s", want, errs)
		}
	}
	if !strings.Contains(out, "shop.autogen.sales      6                   6         5488                5488      equal") {
		t.Errorf("%s", out)
	}
	lines, err := os.ReadFile(failed)
	if err != nil || !strings.HasPrefix(string(lines), "# CONTEXT-DATABASE:shop\n# CONTEXT-RETENTION-POLICY:autogen\nsales,") || !strings.Contains(string(lines), "amount=") {
		t.Errorf("%v, %.300s", err, lines)
	}
	// An import that was killed within a line, and is repeated.
	if err := os.WriteFile(failed, append(lines[:len(lines):len(lines)], `sales,town="U`...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := tsdbd(t, "import", "influxdb", "-data", data, "-failed", failed, influxFiles); err == nil {
		t.Error("no error the second time")
	}
	if again, err := os.ReadFile(failed); err != nil || string(again) != string(lines) {
		t.Errorf("%v, %d bytes were refused twice:\n%.300s", err, len(again)-len(lines), again[len(lines):])
	}
	s.Restart()
	// The refused rows are of one day, the others are all there, in shards of a day.
	if got := s.Query("shop", `SELECT count(amount) FROM sales WHERE time < 1500076800s`); !strings.Contains(got, "[[0,1]]") {
		t.Errorf("%s", got)
	}
	if got := s.Query("shop", "SHOW SHARDS"); strings.Count(got, `"autogen"`) < 10 {
		t.Errorf("%s", got)
	}
}

// TestImportInfluxBad refuses what it cannot read, and tells damage.
func TestImportInfluxBad(t *testing.T) {
	empty := t.TempDir()
	data := filepath.Join(t.TempDir(), "data")
	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, "thesis.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	journal := filepath.Join(t.TempDir(), "journal")
	if err := os.WriteFile(journal, []byte("tsdbd import journal 2\n00000000 \"x\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	newer := copied(t)
	damageFile(t, filepath.Join(newer, "data", "shop", "autogen", "2", "000000001-000000001.tsm"), func(b []byte) { b[4] = 9 })
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "takes one directory"},
		{[]string{"-data", data, "a", "b"}, "takes one directory"},
		{[]string{"-data", "", influxFiles}, "-data is empty"},
		{[]string{"-data", data, "-host", "http://x", influxFiles}, "either -data or -host"},
		{[]string{"-data", data, "-newdb", "x", influxFiles}, "-newdb needs -db"},
		{[]string{"-data", data, "-start", "2020-01-02", "-end", "2020-01-01", influxFiles}, "-end lies before -start"},
		{[]string{"-data", data, "-bucket", "x", influxFiles}, "-bucket is BUCKET=DATABASE"},
		{[]string{"-data", data, filepath.Join(empty, "none")}, "none"},
		{[]string{"-data", data, empty}, "no data of InfluxDB"},
		{[]string{"-data", data, "-db", "none", influxFiles}, `the source has no database "none"`},
		{[]string{"-data", data, "-rp", "long", influxFiles}, "only together with its database"},
		{[]string{"-data", data, "-measurement", "/(/", influxFiles}, "missing closing )"},
		{[]string{"-data", data, "-shard", "77", influxFiles}, "the source has no shard 77"},
		{[]string{"-data", foreign, influxFiles}, "is not a tsdbd data directory"},
		{[]string{"-data", influxFiles, influxFiles}, "InfluxDB"},
		{[]string{"-data", data, "-journal", journal, influxFiles}, "journal"},
		{[]string{"-host", "http://127.0.0.1:1", influxFiles}, "refused"},
	} {
		_, errs, err := tsdbd(t, append([]string{"import", "influxdb"}, c.args...)...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v\n%s", c.args, err, errs)
		}
	}
	_, errs, err := tsdbd(t, "import", "influxdb", "-data", filepath.Join(t.TempDir(), "d"), newer)
	if err == nil || !strings.Contains(err.Error(), "damaged") || !strings.Contains(errs, "000000001-000000001.tsm") {
		t.Errorf("a TSM file of another version: %v\n%s", err, errs)
	}

	// A block of one file has a wrong checksum: it is told with its offset, the rest is
	// loaded.
	harmed := copied(t)
	damageFile(t, filepath.Join(harmed, "data", "shop", "long", "5", "000000001-000000001.tsm"), func(b []byte) { b[12] ^= 1 })
	to := filepath.Join(t.TempDir(), "d")
	out, errs, err := tsdbd(t, "import", "influxdb", "-data", to, harmed)
	if err == nil || !strings.Contains(err.Error(), "1 places of the source are damaged") || !strings.Contains(errs, "at offset 5") || !strings.Contains(out, "shop.autogen.sales      7                   7         5977                5977      equal") {
		t.Errorf("%v\n%s%s", err, out, errs)
	}
}

func damageFile(t testing.TB, name string, change func(b []byte)) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	change(b)
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestImportInfluxKilled kills an import again and again: the data directory opens each
// time, the import goes on where it stopped, and nothing is missing at the end.
func TestImportInfluxKilled(t *testing.T) {
	const databases = 120
	from := filepath.Join(t.TempDir(), "influxdb")
	for i := range databases {
		dir := filepath.Join(from, "data", fmt.Sprintf("d%03d", i), "autogen", fmt.Sprint(i+1))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(dir, os.DirFS(filepath.Join(influxFiles, "data", "shop", "autogen", "2"))); err != nil {
			t.Fatal(err)
		}
	}
	to := filepath.Join(t.TempDir(), "data")
	journal := filepath.Join(to, "import.journal")
	finished := func() int {
		b, _ := os.ReadFile(journal)
		return max(strings.Count(string(b), "\n")-2, 0)
	}
	kills, earlier := 0, 0
	for done := 0; kills < 4 && done < databases-20; kills++ {
		cmd := exec.Command(apptest.Binary(t), "import", "influxdb", "-data", to, from)
		proc.Prepare(cmd)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		for deadline := time.Now().Add(time.Minute); finished() < done+10 && time.Now().Before(deadline); {
			select {
			case err := <-ended:
				t.Fatalf("it ended before it was killed: %v", err)
			case <-time.After(time.Millisecond):
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-ended
		if now := finished(); now < done+10 {
			t.Fatalf("%d shards after %d", now, done)
		} else {
			done = now
		}
		earlier = done
	}
	const lacks = "2 parts of the source are missing" // the log and the catalog
	out, errs, err := tsdbd(t, "import", "influxdb", "-data", to, from)
	if err == nil || err.Error() != lacks || !strings.Contains(out, fmt.Sprintf("%d shards were finished by an earlier import", earlier)) {
		t.Fatalf("after %d kills: %v\n%s%s", kills, err, out, errs)
	}
	all, _, err := tsdbd(t, "import", "influxdb", "-data", filepath.Join(t.TempDir(), "at once"), from) // 120 measurements
	if err == nil || err.Error() != lacks || !strings.Contains(all, "120 measurements with ") || strings.Contains(all, "series in InfluxDB") {
		t.Errorf("%s", all)
	}
	must(t, "verify", to)
	s := apptest.StartOn(t, to)
	want := s.Query("d000", "SELECT count(*), sum(amount), sum(price) FROM sales")
	if !strings.Contains(want, "[[0,1") {
		t.Fatalf("%s", want)
	}
	for i := range databases {
		if got := s.Query(fmt.Sprintf("d%03d", i), "SELECT count(*), sum(amount), sum(price) FROM sales"); got != want {
			t.Errorf("database %d: %s, want %s", i, got, want)
		}
	}
}
