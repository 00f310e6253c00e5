package clients

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/testkit/apptest"
)

// influxd2 is a running InfluxDB 2.x. Its API of 1.x takes the token as a password.
type influxd2 struct {
	influxd
	s       *suite
	host    string
	org     string // its id
	input   io.WriteCloser
	buckets map[string]string // ids by name
}

const influx2Token = "secret-token"

// influxdb2Version is the version of InfluxDB that clients/influxd2/go.mod names.
const influxdb2Version = "2.7.12"

// builtInfluxd2 builds clients/influxd2, which takes minutes at first. The library of Flux,
// which is in Rust, is replaced by one that has its names.
func builtInfluxd2(s *suite) string {
	s.t.Helper()
	module := filepath.Join(root(), "clients", "influxd2")
	dir := filepath.Join(root(), "bin", "influxd2-"+influxdb2Version)
	s.must(os.MkdirAll(dir, 0o755))
	run := func(args ...string) string {
		s.t.Helper()
		c := exec.CommandContext(s.t.Context(), args[0], args[1:]...)
		// The go command does not look at what pkg-config says when it looks into its
		// cache, but at CGO_LDFLAGS.
		c.Dir, c.Env = module, append(os.Environ(), "PKG_CONFIG_PATH="+dir, "CGO_LDFLAGS=-L"+dir, "CGO_ENABLED=1")
		var errs bytes.Buffer
		c.Stderr = &errs
		out, err := c.Output()
		if err != nil {
			s.skip("clients/influxd2 cannot be built, it needs Go modules, a compiler for C and pkg-config: %s: %v\n%s", strings.Join(args, " "), err, errs.String())
		}
		return strings.TrimSpace(string(out))
	}
	flux := run("go", "list", "-m", "-f", "{{.Dir}}", "github.com/influxdata/flux")
	run("go", "run", "./libflux", flux, dir)
	object := filepath.Join(dir, "flux.o")
	run("cc", "-c", "-I"+dir, "-I"+filepath.Join(flux, "libflux", "include"), "-o", object, filepath.Join("c", "flux.c"))
	run("ar", "rcs", filepath.Join(dir, "libflux.a"), object)
	bin := filepath.Join(dir, "influxd2")
	run("go", "build", "-o", bin, ".")
	return bin
}

// startInfluxd2 starts a server on a directory.
func startInfluxd2(s *suite, bin, dir string) *influxd2 {
	s.t.Helper()
	p := &influxd2{s: s, buckets: map[string]string{}, influxd: influxd{dir: dir, cmd: exec.Command(bin, dir)}}
	var errs bytes.Buffer
	p.cmd.Stderr = &errs
	input, err := p.cmd.StdinPipe()
	s.must(err)
	output, err := p.cmd.StdoutPipe()
	s.must(err)
	s.must(p.cmd.Start())
	p.input = input
	s.t.Cleanup(p.stop)
	var line [256]byte
	n, err := output.Read(line[:])
	if err != nil {
		s.t.Fatalf("influxd2: %v\n%s", err, errs.String())
	}
	p.host = strings.TrimSpace(string(line[:n]))
	p.url = strings.Replace(p.host, "http://", "http://any:"+influx2Token+"@", 1)
	return p
}

// stop ends the process in order, by the end of its input.
func (p *influxd2) stop() {
	if p.cmd.ProcessState == nil {
		_ = p.input.Close()
		_ = p.cmd.Wait()
	}
}

// call sends a document to the API of 2.x.
func (p *influxd2) call(method, path string, body, answer any) {
	p.s.t.Helper()
	text, ok := body.(string)
	if !ok {
		b, err := json.Marshal(body)
		p.s.must(err)
		text = string(b)
	}
	r, err := http.NewRequest(method, p.host+path, strings.NewReader(text))
	p.s.must(err)
	r.Header.Set("Authorization", "Token "+influx2Token)
	resp, err := http.DefaultClient.Do(r)
	p.s.must(err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	p.s.must(err)
	if resp.StatusCode/100 != 2 {
		p.s.t.Fatalf("%s %s: %s %s", method, path, resp.Status, b)
	}
	if answer != nil {
		p.s.must(json.Unmarshal(b, answer))
	}
}

// setup makes the first bucket.
func (p *influxd2) setup(bucket string) {
	p.s.t.Helper()
	var made struct {
		Bucket struct{ ID, OrgID string }
	}
	p.call("POST", "/api/v2/setup", map[string]any{"username": "u", "password": "password1", "org": "o", "bucket": bucket, "token": influx2Token}, &made)
	p.org, p.buckets[bucket] = made.Bucket.OrgID, made.Bucket.ID
}

// bucket makes a bucket with a duration and a duration of shard groups; 0: as the server
// has it.
func (p *influxd2) bucket(name string, keep, group time.Duration) {
	p.s.t.Helper()
	var made struct{ ID string }
	rule := map[string]any{"type": "expire", "everySeconds": int(keep.Seconds())}
	if group > 0 {
		rule["shardGroupDurationSeconds"] = int(group.Seconds())
	}
	p.call("POST", "/api/v2/buckets", map[string]any{"orgID": p.org, "name": name, "retentionRules": []any{rule}}, &made)
	p.buckets[name] = made.ID
}

func (p *influxd2) mapped(bucket, database, policy string) {
	p.s.t.Helper()
	p.call("POST", "/api/v2/dbrps", map[string]any{"orgID": p.org, "bucketID": p.buckets[bucket], "database": database, "retention_policy": policy, "default": true}, nil)
}

func (p *influxd2) lines(bucket, lines string) {
	p.s.t.Helper()
	p.call("POST", fmt.Sprintf("/api/v2/write?orgID=%s&bucket=%s", p.org, p.buckets[bucket]), lines, nil)
}

// remove deletes what a predicate chooses.
func (p *influxd2) remove(bucket string, from, to int64, predicate string) {
	p.s.t.Helper()
	at := func(t int64) string { return time.Unix(0, t).UTC().Format(time.RFC3339Nano) }
	p.call("POST", fmt.Sprintf("/api/v2/delete?orgID=%s&bucket=%s", p.org, p.buckets[bucket]), map[string]any{"start": at(from), "stop": at(to), "predicate": predicate}, nil)
}

// tombstones counts the tombstones in the tars of a backup.
func tombstones(s *suite, dir string) (n int) {
	tars, err := filepath.Glob(filepath.Join(dir, "*.tar"))
	s.must(err)
	for _, name := range tars {
		f, err := os.Open(name)
		s.must(err)
		r := tar.NewReader(f)
		for h, err := r.Next(); err == nil; h, err = r.Next() {
			if strings.HasSuffix(h.Name, ".tombstone") {
				n++
			}
		}
		s.must(f.Close())
	}
	return n
}

// influxd2Golden is cmd/tsdbd/testdata/influxdb2, to write its files.
var influxd2Golden = flag.String("influxd2-golden", "", "write a small backup by influx backup into this `DIRECTORY`")

// TestInfluxDB2 moves the data of a real InfluxDB 2.x by the commands that
// docs/migrating-from-influxdb.md has: by backups of influx, by the directory of the server,
// and by its API of 1.x. The answers of both servers are compared value by value.
func TestInfluxDB2(t *testing.T) {
	s := newSuite(t, "move from InfluxDB 2.x")
	s.alone()
	s.version = influxdb2Version
	influx := s.built("influx2", "github.com/influxdata/influx-cli/v2", "v2.2.1-0.20221028161653-3285a03e9e28", "cmd/influx")
	bin := builtInfluxd2(s)
	p := startInfluxd2(s, bin, t.TempDir())

	const week = 7 * 24 * time.Hour
	start := time.Now().UnixNano()/int64(week)*int64(week) - 3*int64(week)
	p.setup("telegraf")
	p.mapped("telegraf", "metrics", "forever")
	p.bucket("week/raw", 0, 24*time.Hour)
	p.bucket("no mapping", 0, 0)
	p.bucket("empty", 48*time.Hour, 0)
	names := []string{"cpu", "cpu,host=a", "cpu,host=b", `cpu,host=a\ b,k\,1=\=`, `m\ x\,y,ä=ß`, `back\\slash,t=a\\b`, "quote\",q='", "mem,host=a", "mem,host=b", "disk,host=a,path=/"}
	write := func(bucket string, from, to int, salt int) {
		t.Helper()
		var b strings.Builder
		for n, name := range names {
			for i := from; i < to; i++ {
				fmt.Fprintf(&b, "%s f=%v,i=%di,u=%du,b=%v,s=\"t %d \\\"q\\\" \\\\ é\",a\\ b=%d %d\n", name, float64(i*salt)/8+0.1, i-salt, i, i%3 == salt%3, i%7, salt, start+int64(i)*int64(time.Hour)+int64(n))
			}
		}
		p.lines(bucket, b.String())
	}
	dir, commands := t.TempDir(), documented(s, "### From InfluxDB 2.x")
	if len(commands) != 5 {
		t.Fatalf("the page has other commands: %q", commands)
	}
	// run runs a command of the page. It returns the data directory.
	run := func(command int, flags ...string) (data, out string, err error) {
		t.Helper()
		data = filepath.Join(t.TempDir(), "data")
		line := strings.NewReplacer("http://old:8086", p.host, "TOKEN", influx2Token, "/var/lib/tsdbd", data, "/var/lib/influxdb2", p.dir, "0a1b2c3d4e5f6071", p.buckets["no mapping"]).Replace(commands[command])
		args := append(strings.Fields(line), flags...)
		args[0] = map[string]string{"tsdbd": apptest.Binary(t), "influx": influx}[args[0]]
		c := exec.Command(args[0], args[1:]...)
		c.Dir = dir
		b, err := c.CombinedOutput()
		return data, string(b), err
	}
	done := func(what string, command int, flags ...string) (data, out string) {
		t.Helper()
		data, out, err := run(command, flags...)
		if err != nil {
			err = fmt.Errorf("%s: %w\n%s", commands[command], err, out)
		}
		s.check(what, err)
		return data, out
	}
	const made = "influxdb2-backup" // by the page
	renamed := func(to string) string {
		t.Helper()
		s.must(os.Rename(filepath.Join(dir, made), filepath.Join(dir, to)))
		return filepath.Join(dir, to)
	}
	write("telegraf", 0, 400, 1)
	write("week/raw", 350, 420, 2)
	p.lines("no mapping", fmt.Sprintf("typed v=1 %d\ntyped v=2i %d\ntyped v=\"three\" %d\n", start, start+int64(week), start+2*int64(week)))
	p.lines("no mapping", fmt.Sprintf("m,k=%s v=1 %d\n", strings.Repeat("x", 30000), start))
	done("a backup that writes the caches to files", 0) // so that deletes leave tombstones
	renamed("first")
	p.remove("telegraf", start, start+100*int64(time.Hour), `_measurement="mem"`)
	p.remove("telegraf", start+50*int64(time.Hour), start+150*int64(time.Hour), `host="b"`)
	p.remove("week/raw", start, start+380*int64(time.Hour), `_measurement="cpu" AND host="a"`)
	if *influxd2Golden != "" {
		done("the files to keep", 0, "--bucket", "week/raw")
		s.must(os.CopyFS(*influxd2Golden, os.DirFS(renamed("golden"))))
		t.Logf("%+v", p.ask(t, "week", "SELECT count(*), sum(f), sum(i), sum(u) FROM raw./.*/"))
	}
	write("telegraf", 90, 120, 3)
	done("one bucket", 0, "--bucket", "telegraf")
	one := renamed("one")
	done("without compression", 0, "--compression", "none")
	plain := renamed("plain")
	t.Logf("%d tombstones in tars", tombstones(s, plain))
	done("compressed", 0)
	places := [][2]string{{"metrics", "forever"}, {"week", "raw"}, {"no mapping", "autogen"}}
	wanted := func() map[[2]string]cells {
		t.Helper()
		want := map[[2]string]cells{}
		for _, at := range places {
			if want[at] = p.selected(t, at[0], at[1]); len(want[at]) == 0 {
				t.Fatalf("the server has no values of %q", at)
			}
			t.Logf("%s.%s: %d values", at[0], at[1], len(want[at]))
		}
		return want
	}
	want := wanted()
	compare := func(what string, server *apptest.Server, want map[[2]string]cells, places ...[2]string) {
		t.Helper()
		q := &influxd{url: server.URL}
		for _, at := range places {
			var err error
			if d := q.selected(t, at[0], at[1]).diff(want[at]); d != "" {
				err = fmt.Errorf("%s.%s: %s", at[0], at[1], d)
			}
			s.check(what, err)
		}
	}
	policies := func(what string, server *apptest.Server) {
		t.Helper()
		for db, want := range map[string]string{
			"metrics": `["forever","0s","168h0m0s",1,true]`, "week": `["raw","0s","24h0m0s",1,true]`,
			"no mapping": `["autogen","0s","168h0m0s",1,true]`, "empty": `["autogen","48h0m0s","24h0m0s",1,true]`,
		} {
			if got := server.Query("", fmt.Sprintf("SHOW RETENTION POLICIES ON %q", db)); !strings.Contains(got, want) {
				s.check(what, fmt.Errorf("policies of %s: %s, want %s", db, got, want))
			}
		}
		databases := server.Query("", "SHOW DATABASES")
		s.equal(what+": system buckets", strings.Contains(databases, "_monitoring") || strings.Contains(databases, "_tasks"), false)
	}
	_, plan := done("dry run", 1)
	for _, part := range []string{"metrics.forever     3 ", "week.raw            4 ", "empty.autogen       0 ", "compressed shards are unpacked in "} {
		if !strings.Contains(plan, part) {
			s.check("dry run", fmt.Errorf("no %q in\n%s", part, plan))
		}
	}
	data, _ := done("compressed backup", 2)
	server := apptest.StartOn(t, data)
	compare("compressed backup", server, want, places...)
	policies("compressed backup", server)
	for what, from := range map[string]string{"backup without compression": plain, "backup of one bucket": one} {
		data := filepath.Join(t.TempDir(), "data")
		out, errs, err := command(t, dir, nil, "", apptest.Binary(t), "import", "influxdb", "-data", data, from)
		if err != nil {
			err = fmt.Errorf("%w\n%s%s", err, out, errs)
		}
		s.check(what, err)
		if server := apptest.StartOn(t, data); from == one {
			compare(what, server, want, places[0])
		} else {
			compare(what, server, want, places...)
			policies(what, server)
		}
	}

	// A live server, by the API of 1.x.
	server = apptest.Start(t)
	out, errs, err := command(t, dir, nil, "", apptest.Binary(t), "import", "-from", p.host, "-from-token", influx2Token, "-host", server.URL)
	// The API of 1.x gives no texts of a field that was numbers in an earlier shard.
	if err == nil || !strings.Contains(out, `field "v" of "typed" of no mapping.autogen: count 3 in old, 2 in new`) || !strings.Contains(errs, "1 differences between the servers") {
		s.check("running server", fmt.Errorf("%w\n%s%s", err, out, errs))
	}
	compare("running server", server, want, places[:2]...)

	// A bucket that needs another name, in a second backup beside the first one.
	p.bucket("plant/hall/3", 0, 0)
	p.lines("plant/hall/3", fmt.Sprintf("m v=1 %d\nm v=2 %d\n", start, start+1))
	time.Sleep(1100 * time.Millisecond) // a backup is named by the second
	done("second backup", 0)
	if _, out, err := run(2); err == nil || !strings.Contains(out, `-bucket `+p.buckets["plant/hall/3"]+`=DATABASE for "plant/hall/3"`) {
		s.check("a name that a database cannot have", fmt.Errorf("%w\n%s", err, out))
	}
	data, out = done("other names", 4)
	s.equal("several backups are reported", strings.Contains(out, "has 2 backups: the newest one of each bucket is used"), true)
	server = apptest.StartOn(t, data)
	compare("other names", server, want, places[:2]...)
	want[[2]string{"telegraf", "month"}] = want[places[2]]
	compare("other names", server, want, [2]string{"telegraf", "month"})
	s.equal("other names", strings.Contains(server.Query("plant", "SELECT v FROM m"), fmt.Sprintf(`[[%d,1],[%d,2]]`, start, start+1)), true)
	p.call("DELETE", "/api/v2/buckets/"+p.buckets["plant/hall/3"], "", nil)

	// The directory, with writes and deletes that are only in the log.
	write("telegraf", 395, 430, 4)
	p.remove("telegraf", start+410*int64(time.Hour), start+420*int64(time.Hour), `host="a"`)
	write("week/raw", 400, 430, 5)
	want = wanted()
	p.stop()
	logs, _ := filepath.Glob(filepath.Join(p.dir, "engine", "wal", "*", "*", "*", "*.wal"))
	s.equal("writes are in the log alone", len(logs) > 0, true)
	data, _ = done("directory", 3)
	server = apptest.StartOn(t, data)
	compare("directory", server, want, places...)
	policies("directory", server)
}
