package clients

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tsdbd/exchange/rows"
	"tsdbd/model"
	"tsdbd/transfer/tsm1"
)

// cells are the values of a policy by series, time and field.
type cells map[string]string

func (c cells) put(series string, t int64, field, value string) {
	c[fmt.Sprintf("%s @%d %s", series, t, field)] = value
}

// diff names the first differences between what is and what should be.
func (c cells) diff(want cells) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if got, ok := c[k]; !ok {
			out = append(out, fmt.Sprintf("%s: missing, want %s", k, want[k]))
		} else if got != want[k] {
			out = append(out, fmt.Sprintf("%s: %s, want %s", k, got, want[k]))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(c)) {
		if _, ok := want[k]; !ok {
			out = append(out, fmt.Sprintf("%s: %s, want nothing", k, c[k]))
		}
	}
	if len(out) == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d values differ:\n%s", len(out), len(want), strings.Join(out[:min(len(out), 20)], "\n"))
}

// ask returns the results of a statement.
func (p *influxd) ask(t *testing.T, database, statement string) []result {
	t.Helper()
	form := url.Values{"db": {database}, "q": {statement}, "epoch": {"ns"}}
	resp, err := http.PostForm(p.url+"/query", form)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Results []result `json:"results"`
		Error   string   `json:"error"`
	}
	d := json.NewDecoder(resp.Body)
	d.UseNumber()
	if err := d.Decode(&answer); err != nil || answer.Error != "" {
		t.Fatalf("%s: %v %s", statement, err, answer.Error)
	}
	for _, r := range answer.Results {
		if r.Error != "" {
			t.Fatalf("%s: %s", statement, r.Error)
		}
	}
	return answer.Results
}

type result struct {
	Error  string `json:"error"`
	Series []struct {
		Name    string            `json:"name"`
		Tags    map[string]string `json:"tags"`
		Columns []string          `json:"columns"`
		Values  [][]any           `json:"values"`
	} `json:"series"`
}

func (p *influxd) write(t *testing.T, database, policy, lines string) {
	t.Helper()
	resp, err := http.Post(p.url+"/write?"+url.Values{"db": {database}, "rp": {policy}}.Encode(), "text/plain", strings.NewReader(lines))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		b, _ := io.ReadAll(resp.Body)
		t.Fatalf("write: %s %s", resp.Status, b)
	}
}

// selected returns the values of a policy by SELECT.
func (p *influxd) selected(t *testing.T, database, policy string) cells {
	t.Helper()
	out := cells{}
	from := fmt.Sprintf("%q.%q", database, policy)
	kinds := map[string]string{}
	for _, s := range p.ask(t, database, "SHOW FIELD KEYS FROM "+from+"./.*/")[0].Series {
		for _, v := range s.Values {
			kinds[s.Name+"\x00"+v[0].(string)] = v[1].(string)
		}
	}
	for _, s := range p.ask(t, database, "SELECT * FROM "+from+"./.*/ GROUP BY *")[0].Series {
		var tags model.Tags
		for k, v := range s.Tags {
			if v != "" {
				tags = append(tags, model.Tag{Key: k, Value: v})
			}
		}
		tags.Sort()
		key := string(model.AppendSeriesKey(nil, s.Name, tags))
		for _, row := range s.Values {
			at, err := row[0].(json.Number).Int64()
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range row[1:] {
				if v == nil {
					continue
				}
				field := s.Columns[i+1]
				kind := kinds[s.Name+"\x00"+field]
				value := fmt.Sprintf("%s %v", kind, v)
				if kind == "float" {
					f, err := v.(json.Number).Float64()
					if err != nil {
						t.Fatal(err)
					}
					value = fmt.Sprintf("float %v", f)
				}
				out.put(key, at, field, value)
			}
		}
	}
	return out
}

// source opens a directory, and fails for damage and refused rows.
func source(t *testing.T, dir string) *tsm1.Source {
	t.Helper()
	s, err := tsm1.Open(dir, tsm1.Options{
		Damage: func(path string, offset int64, err error) { t.Errorf("damage at %s:%d: %v", path, offset, err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// readCells returns the values of a policy in a source. It checks the order of its rows.
func readCells(t *testing.T, s *tsm1.Source, database, policy string) cells {
	t.Helper()
	out := cells{}
	for _, sh := range s.Shards() {
		if sh.Database != database || sh.Policy != policy {
			continue
		}
		r, err := s.Rows(t.Context(), sh, model.AllTime, func(reason string, _ *rows.Run) {
			t.Errorf("refused: %s", reason)
		})
		if err != nil {
			t.Fatal(err)
		}
		readShard(t, r, sh, out)
	}
	return out
}

func readShard(t *testing.T, r rows.Reader, sh *tsm1.Shard, out cells) {
	t.Helper()
	defer r.Close()
	key, latest := "", int64(0)
	for {
		run, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if run.Key < key || run.Key == key && run.Times[0] <= latest {
			t.Fatalf("shard %d: %s at %d after %s at %d", sh.ID, run.Key, run.Times[0], key, latest)
		}
		key, latest = run.Key, run.Times[run.Len()-1]
		if len(run.Cols) != len(run.Fields) || run.Len() == 0 || run.Len() > rows.MaxRows {
			t.Fatalf("%s: %d columns for %d fields, %d rows", run.Key, len(run.Cols), len(run.Fields), run.Len())
		}
		for row, at := range run.Times {
			if !sh.Times.Contains(at) {
				t.Fatalf("shard %d of %v has a row at %d", sh.ID, sh.Times, at)
			}
			for i, f := range run.Fields {
				v := &run.Cols[i]
				if v.Len() != run.Len() || v.Type != f.Type {
					t.Fatalf("%s: column %q of type %s has %d rows of %d", run.Key, f.Key, v.Type, v.Len(), run.Len())
				}
				if !v.IsValid(row) {
					continue
				}
				var value any
				switch f.Type {
				case model.Float:
					value = v.Floats[row]
				case model.Integer:
					value = v.Ints[row]
				case model.Unsigned:
					value = v.Uints[row]
				case model.String:
					value = v.Strings[row]
				case model.Boolean:
					value = v.Bools[row]
				}
				out.put(run.Key, at, f.Key, fmt.Sprintf("%s %v", f.Type, value))
			}
		}
	}
}

// day is the duration of the shard groups of the tests.
const day = int64(24 * time.Hour)

// TestTSM1Influxd compares the rows of a directory that the installed influxd has written
// with its own answers: all types, several shards, overwrites, deletes, snapshots and
// compactions, and writes that are only in the log.
func TestTSM1Influxd(t *testing.T) {
	p := startInfluxd(t)
	if p == nil {
		t.Skip("influxd is not installed")
	}
	r := rand.New(rand.NewPCG(1, 2))
	p.ask(t, "", `CREATE DATABASE "my db" WITH DURATION INF SHARD DURATION 1d NAME "week"`)
	p.ask(t, "", `CREATE RETENTION POLICY "two" ON "my db" DURATION 1000d REPLICATION 1 SHARD DURATION 1d`)
	p.ask(t, "", `CREATE DATABASE "other"`)
	p.ask(t, "", `CREATE USER "ann" WITH PASSWORD 'secret' WITH ALL PRIVILEGES`)
	p.ask(t, "", `CREATE USER "bob" WITH PASSWORD 'hidden'`)
	p.ask(t, "", `GRANT READ ON "my db" TO "bob"`)
	p.ask(t, "", `CREATE CONTINUOUS QUERY "cq" ON "my db" BEGIN SELECT mean(f) INTO "other"."autogen"."m" FROM "week"."cpu" GROUP BY time(1h) END`)
	p.ask(t, "", `CREATE SUBSCRIPTION "sub" ON "my db"."week" DESTINATIONS ALL 'udp://127.0.0.1:9'`)

	start := time.Now().UnixNano()/day*day - 3*day
	// A delete makes InfluxDB forget series whose names come in another order with their
	// fields behind them, such as cpu and cpu!, though their rows stay. So deletes are for
	// mem and dïsk.
	names := []string{
		`cpu`, `cpu!`, `cpu"x`, `cpu,host=a`, `cpu,host=a!`, `cpu,host=a!b`, `cpu,host=a"`, `cpu,host=a#!`, `cpu,host=b,region=eu\ west`,
		`we\,ather,a\=b=c\=d`, `dïsk,pfad=ä`, `mem`, `mem,host=a`, `mem,host=a,region=x`, `mem,host=b`, `cpu#,host=a`, `cpu,host=a,region=z`,
	}
	line := func(series int, at int64, salt int) string {
		var b strings.Builder
		b.WriteString(names[series])
		fields := []string{
			fmt.Sprintf("f=%v", float64(r.IntN(1000))/8), fmt.Sprintf("i=%di", r.Int64N(1<<uint(1+series*3))-100),
			fmt.Sprintf("b=%v", r.IntN(2) == 0), fmt.Sprintf("s=\"text %d \\\"q\\\" %d\"", salt, r.IntN(50)), fmt.Sprintf(`a\ b=%d`, salt),
			"const=7i", "flat=1.5",
		}
		for i, f := range fields {
			if i > 0 && r.IntN(6) == 0 && series%3 == 0 {
				continue
			}
			if b.Len() == len(names[series]) {
				b.WriteByte(' ')
			} else {
				b.WriteByte(',')
			}
			b.WriteString(f)
		}
		fmt.Fprintf(&b, " %d\n", at)
		return b.String()
	}
	write := func(policy string, from, n int, step int64, salt int) {
		var b strings.Builder
		for s := range names {
			for i := from; i < from+n; i++ {
				at := start + int64(i)*step
				if s%2 == 1 {
					at += r.Int64N(1000)
				}
				b.WriteString(line(s, at, salt))
			}
		}
		p.write(t, "my db", policy, b.String())
	}
	for salt := range 6 {
		write("week", salt*900, 1500, 60e9, salt)
		p.snapshot(t)
	}
	write("two", 0, 100, 3600e9, 9)
	p.write(t, "other", "autogen", "m v=1 5\nm v=2u 6\n"[:len("m v=1 5\n")])
	p.ask(t, "my db", fmt.Sprintf(`DELETE FROM "mem" WHERE "host" = 'a' AND time > %d AND time < %d`, start+int64(3600e9), start+int64(9000e9)))
	p.ask(t, "my db", `DELETE FROM "dïsk"`)
	write("week", 300, 200, 60e9, 7)
	p.ask(t, "my db", fmt.Sprintf(`DELETE FROM "mem" WHERE "region" = 'x' AND time < %d`, start+day))
	p.snapshot(t)
	p.ask(t, "my db", fmt.Sprintf(`DELETE FROM "mem" WHERE "host" = 'b' AND time > %d`, start+day))
	write("week", 2000, 300, 60e9, 8)
	p.ask(t, "my db", fmt.Sprintf(`DELETE FROM "mem" WHERE time > %d AND time < %d`, start+2050*int64(60e9), start+2100*int64(60e9)))
	write("week", 2090, 50, 60e9, 10)

	want := map[string]cells{}
	for _, policy := range []string{"week", "two"} {
		want[policy] = p.selected(t, "my db", policy)
	}
	if _, err := tsm1.Open(p.dir, tsm1.Options{}); !errors.Is(err, tsm1.ErrRunning) {
		t.Errorf("a running server's directory: %v", err)
	}
	p.stop()
	logs, _ := filepath.Glob(filepath.Join(p.dir, "wal", "*", "*", "*", "*.wal"))
	files, _ := filepath.Glob(filepath.Join(p.dir, "data", "*", "*", "*", "*.tsm"))
	stones, _ := filepath.Glob(filepath.Join(p.dir, "data", "*", "*", "*", "*.tombstone"))
	if len(logs) == 0 || len(files) < 4 || len(stones) == 0 {
		t.Errorf("%d segments of logs, %d TSM files, %d tombstones: nothing is tested", len(logs), len(files), len(stones))
	}

	s := source(t, p.dir)
	for policy, cells := range want {
		got := readCells(t, s, "my db", policy)
		t.Logf("policy %s: %d values", policy, len(cells))
		if d := got.diff(cells); d != "" {
			t.Errorf("policy %s: %s", policy, d)
		}
	}
	c := s.Catalog()
	d := c.Database("my db")
	if d == nil || d.DefaultRetentionPolicy != "week" || len(d.ContinuousQueries) != 1 || d.ContinuousQueries[0].Name != "cq" ||
		d.RetentionPolicy("two").Duration != 1000*24*time.Hour || d.RetentionPolicy("week").ShardGroupDuration != 24*time.Hour ||
		len(d.RetentionPolicy("week").Subscriptions) != 1 || d.RetentionPolicy("week").Subscriptions[0].Destinations[0] != "udp://127.0.0.1:9" {
		b, _ := json.Marshal(d)
		t.Errorf("catalog: %s", b)
	}
	if len(c.Users) != 2 || !c.Users[0].Admin || c.Users[1].Privileges["my db"] != 1 || !strings.HasPrefix(c.Users[1].Hash, "$2") {
		b, _ := json.Marshal(c.Users)
		t.Errorf("users: %s", b)
	}
}

// TestTSM1Backup reads both forms of backups that the installed influxd makes, and compares
// their rows with its answers.
func TestTSM1Backup(t *testing.T) {
	p := startInfluxd(t)
	if p == nil {
		t.Skip("influxd is not installed")
	}
	p.ask(t, "", `CREATE DATABASE "my.db" WITH DURATION INF SHARD DURATION 1d NAME "week"`)
	p.ask(t, "", `CREATE USER "ann" WITH PASSWORD 'secret' WITH ALL PRIVILEGES`)
	start := time.Now().UnixNano()/day*day - 2*day
	write := func(from, to int) {
		var b strings.Builder
		for i := from; i < to; i++ {
			fmt.Fprintf(&b, "cpu,host=a f=%d,s=\"x%d\" %d\n", i, i%7, start+int64(i)*60e9)
		}
		p.write(t, "my.db", "week", b.String())
	}
	older, portable := t.TempDir(), t.TempDir()
	backup := func(dir string, flags ...string) {
		t.Helper()
		if out, err := exec.Command("influxd", append(append([]string{"backup"}, flags...), "-host", p.rpc, dir)...).CombinedOutput(); err != nil {
			t.Fatalf("influxd backup %v: %v\n%s", flags, err, out)
		}
	}
	write(0, 2000)
	backup(older, "-database", "my.db")
	backup(portable, "-portable")
	time.Sleep(1100 * time.Millisecond) // a portable backup is named by the second
	write(1500, 2500)
	p.ask(t, "my.db", fmt.Sprintf(`DELETE FROM "cpu" WHERE time < %d`, start+100*int64(60e9)))
	backup(older, "-database", "my.db")
	backup(portable, "-portable")
	want := p.selected(t, "my.db", "week")
	for name, dir := range map[string]string{"older": older, "portable": portable} {
		s := source(t, dir)
		if diff := readCells(t, s, "my.db", "week").diff(want); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if c := s.Catalog(); len(c.Users) != 1 || c.Database("my.db").RetentionPolicy("week") == nil {
			t.Errorf("%s: catalog %+v", name, c)
		}
	}
	write(2490, 2510) // only in the log
	want = p.selected(t, "my.db", "week")
	p.stop()
	if diff := readCells(t, source(t, p.dir), "my.db", "week").diff(want); diff != "" {
		t.Error(diff)
	}
	if *tsm1Golden != "" {
		keep(t, p.dir, filepath.Join(*tsm1Golden, "influxd"))
		keep(t, portable, filepath.Join(*tsm1Golden, "backup"))
	}
}

// tsm1Golden is transfer/tsm1/testdata, to write its files.
var tsm1Golden = flag.String("tsm1-golden", "", "write what influxd has written below this `DIRECTORY`")

// keep copies the files of a directory that are read.
func keep(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		switch filepath.Ext(path) {
		case ".tsm", ".tombstone", ".wal", ".db", ".manifest", ".meta", ".gz":
		default:
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil || len(b) == 0 {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, rel)), 0o755); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), b, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// snapshot waits until the server has written its cache to files.
func (p *influxd) snapshot(t *testing.T) {
	t.Helper()
	files := func() int {
		n, _ := filepath.Glob(filepath.Join(p.dir, "wal", "*", "*", "*", "*.wal"))
		size := 0
		for _, f := range n {
			if info, err := os.Stat(f); err == nil && info.Size() > 0 {
				size++
			}
		}
		return size
	}
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if files() == 0 {
			return
		}
	}
	t.Log("the log was not emptied")
}
