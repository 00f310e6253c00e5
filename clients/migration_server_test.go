package clients

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tsdbd/internal/testkit/apptest"
)

// serverMigrationMemory bounds the memory of an import from a server, whatever the
// server holds.
const serverMigrationMemory = 160 << 20

// TestServerMigration moves the data of a running InfluxDB as
// docs/migrating-from-influxdb.md says, with tsdbd import -from. The import is killed and
// repeated. Both servers then give the same answers, to the bit.
func TestServerMigration(t *testing.T) {
	s := newSuite(t, "move from a running InfluxDB")
	peer := startInfluxd(t)
	if peer == nil {
		s.skip("influxd is not installed (apt-get install influxdb)")
	}
	out, _, err := command(t, "", nil, "", "influxd", "version")
	s.must(err)
	s.version = strings.Fields(strings.TrimPrefix(out, "InfluxDB v"))[0]
	send := func(path string, params url.Values, body string) {
		t.Helper()
		resp, err := http.Post(peer.url+path+"?"+params.Encode(), "text/plain", strings.NewReader(body))
		s.must(err)
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		s.must(err)
		if resp.StatusCode/100 != 2 || strings.Contains(string(b), `"error"`) {
			t.Fatalf("%s: %d %s", path, resp.StatusCode, b)
		}
	}
	for _, q := range []string{
		"CREATE DATABASE shop", "CREATE RETENTION POLICY long ON shop DURATION INF REPLICATION 1 SHARD DURATION 30d",
		`CREATE DATABASE "odd name" WITH DURATION INF SHARD DURATION 1d NAME "p 1"`,
		`CREATE CONTINUOUS QUERY daily ON shop BEGIN SELECT mean(price) AS price INTO long.daily FROM sales GROUP BY time(1d), * END`,
		"CREATE USER root WITH PASSWORD 'x' WITH ALL PRIVILEGES", "CREATE USER grafana WITH PASSWORD 'y'", "GRANT READ ON shop TO grafana",
		"CREATE SUBSCRIPTION copy ON shop.autogen DESTINATIONS ANY 'http://127.0.0.1:1', 'udp://127.0.0.1:2'",
	} {
		send("/query", url.Values{"q": {q}}, "")
	}
	const lines, batch = 1_000_000, 20_000
	var b strings.Builder
	for i := range lines {
		at := (1_500_000_000 + int64(i)*10) * 1e9
		fmt.Fprintf(&b, "sales,town=%s,kind=k%d ", []string{"oslo", `r\ ome`, `a\,b\=c`}[i%3], i%500)
		switch i % 4 {
		case 0:
			fmt.Fprintf(&b, "amount=%di,price=%g,open=%t,note=\"line \\\"%d\\\" \\\\ é\nnext\" %d\n", int64(i)-1<<62, float64(i)/7, i%2 == 0, i, at)
		case 1:
			fmt.Fprintf(&b, "price=%g %d\n", float64(i), at)
		case 2:
			fmt.Fprintf(&b, "amount=%di %d\n", i, at)
		case 3:
			fmt.Fprintf(&b, "open=%t,note=\"\" %d\n", i%8 == 3, at)
		}
		if i%batch == batch-1 {
			send("/write", url.Values{"db": {"shop"}}, b.String())
			b.Reset()
		}
	}
	send("/write", url.Values{"db": {"shop"}, "rp": {"long"}}, "sales,town=oslo amount=1i 1000000000000000000\nsales,town=oslo amount=2i 900000000000000001\n")
	send("/write", url.Values{"db": {"shop"}}, `odd,t\ =v\=\ w f\ \,\==1,s="a,b c=d",e="" 1500000000000000000`)
	send("/write", url.Values{"db": {"shop"}}, "twin,x=tag x=1 1500000000000000000\ntwin y=-0 1500000000000000001")
	send("/write", url.Values{"db": {"odd name"}, "rp": {"p 1"}}, "m\\ x v=1e-300,w=-0.1,big=1e+300 1500000000000000001\nm,k=last v=9007199254740993 1500000000000000002\nm\"q\\'\\ \\\\t,k\"=\\'v v=1 1500000000000000003")
	// A field with a type in each shard.
	send("/write", url.Values{"db": {"odd name"}}, "typed v=9007199254740993i 1500000000000000000\ntyped v=1 1510000000000000000\ntyped v=\"text\" 1520000000000000000\ntyped v=true 1530000000000000000")

	server := start(t)
	commands := documented(s, "## From a running server")
	if len(commands) != 3 {
		t.Fatalf("the page has other commands: %q", commands)
	}
	dir := t.TempDir()
	move := func(documented int, flags ...string) *exec.Cmd {
		line := strings.ReplaceAll(commands[documented], "http://old:8086", peer.url)
		cmd := exec.Command(apptest.Binary(t), append(strings.Fields(line)[1:], flags...)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "TSDBD_HOST="+server.URL)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		return cmd
	}
	plan, err := move(0).CombinedOutput()
	s.check("dry run", err)
	s.equal("dry run", strings.Contains(string(plan), "shop.autogen.sales") && strings.Contains(string(plan), "2000000"), true)
	s.equal("dry run changes nothing", strings.Contains(server.Query("", "SHOW DATABASES"), "shop"), false)

	// Kill it as soon as it has noted a few slices.
	journal := filepath.Join(dir, "move.journal")
	first := move(1)
	s.must(first.Start())
	noted := 0
	for deadline := time.Now().Add(2 * time.Minute); noted < 12 && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		text, _ := os.ReadFile(journal) // not there at first
		noted = bytes.Count(text, []byte("\n")) - 2
	}
	_ = first.Process.Kill()
	_ = first.Wait() // it was killed
	s.equal("killed in the middle", noted >= 12 && !first.ProcessState.Success(), true)

	second := move(2, "-idle", "1s")
	began := time.Now()
	moved, err := second.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, moved)
	}
	s.check("import", err)
	usage := second.ProcessState.SysUsage().(*syscall.Rusage)
	t.Logf("tsdbd import -from, %.1f s, %d MiB:\n%s", time.Since(began).Seconds(), usage.Maxrss>>10, moved)
	s.equal("memory", usage.Maxrss<<10 < serverMigrationMemory, true)
	for _, want := range []string{"slices were done before", " 0 refused", "1 continuous queries made", `CREATE USER "root" WITH PASSWORD '...' WITH ALL PRIVILEGES`, `GRANT READ ON "shop" TO "grafana"`, `CREATE SUBSCRIPTION "copy" ON "shop"."autogen" DESTINATIONS ANY 'http://127.0.0.1:1', 'udp://127.0.0.1:2'`, "the writers have moved"} {
		if !strings.Contains(string(moved), want) {
			s.check("it says", fmt.Errorf("nothing about %q:\n%s", want, moved))
		}
	}
	if _, err := os.Stat(journal); err == nil {
		s.check("journal", fmt.Errorf("it is still there after the end"))
	}
	for _, q := range []struct{ db, q string }{
		{"shop", "SHOW MEASUREMENTS"},
		{"shop", "SHOW SERIES"},
		{"shop", "SHOW FIELD KEYS"},
		{"shop", "SHOW RETENTION POLICIES"},
		{"odd name", "SHOW RETENTION POLICIES"},
		{"shop", "SHOW CONTINUOUS QUERIES"},
		{"shop", "SELECT amount FROM sales GROUP BY *"},
		{"shop", "SELECT price, note FROM sales GROUP BY *"},
		{"shop", "SELECT open FROM sales GROUP BY *"},
		{"shop", "SELECT * FROM long.sales GROUP BY *"},
		{"shop", "SELECT * FROM odd GROUP BY *"},
		{"shop", "SELECT x::field, x::tag, y FROM twin"},
		{"odd name", "SELECT * FROM /.*/ WHERE time < 1505000000s GROUP BY *"},
		{"odd name", "SELECT v FROM typed WHERE time < 1505000000s"},
		{"odd name", "SELECT v FROM typed WHERE time > 1505000000s AND time < 1515000000s"},
		{"odd name", "SELECT v FROM typed WHERE time > 1515000000s AND time < 1525000000s"},
		{"odd name", "SELECT v FROM typed WHERE time > 1525000000s"},
	} {
		s.equal(q.q, digest(s, server.URL, q.db, q.q), digest(s, peer.url, q.db, q.q))
	}
}

// documented returns the commands of a section of the page.
func documented(s *suite, heading string) (commands []string) {
	text, err := os.ReadFile(filepath.Join(root(), "docs", "migrating-from-influxdb.md"))
	s.must(err)
	_, section, _ := strings.Cut(string(text), "\n"+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "tsdbd import ") || strings.HasPrefix(line, "influx backup ") {
			commands = append(commands, strings.TrimSpace(line))
		}
	}
	return commands
}

// digest returns the length and the hash of an answer, or the answer if it is short.
func digest(s *suite, base, db, q string) string {
	resp, err := http.Get(base + "/query?" + url.Values{"db": {db}, "q": {q}, "epoch": {"ns"}}.Encode())
	s.must(err)
	defer resp.Body.Close()
	var head strings.Builder
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(hash, &limitedBuilder{&head, 2000}), resp.Body)
	s.must(err)
	if n <= 2000 {
		return head.String()
	}
	return fmt.Sprintf("%d bytes, %x, %s", n, hash.Sum(nil), head.String()[:200])
}

// limitedBuilder keeps the beginning of what is written.
type limitedBuilder struct {
	to   *strings.Builder
	left int
}

// Write implements io.Writer.
func (l *limitedBuilder) Write(b []byte) (int, error) {
	keep := b[:min(len(b), l.left)]
	l.left -= len(keep)
	l.to.Write(keep)
	return len(b), nil
}
