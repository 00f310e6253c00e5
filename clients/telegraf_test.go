package clients

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	telegrafVersion = "v1.37.2"
	telegrafTags    = "custom,inputs.cpu,inputs.mem,inputs.file,inputs.internal,inputs.influxdb,inputs.prometheus,outputs.influxdb,outputs.influxdb_v2,parsers.influx"
)

// telegraf returns the installed telegraf, or one built with the plugins used
// here.
func telegraf(s *suite) string {
	s.t.Helper()
	return s.built("telegraf", "github.com/influxdata/telegraf", telegrafVersion, "cmd/telegraf",
		"-tags", telegrafTags, "-ldflags", "-X github.com/influxdata/telegraf/internal.Version="+strings.TrimPrefix(telegrafVersion, "v"))
}

// telegrafPage returns the configuration that docs/telegraf.md shows, for a
// server's URL.
func telegrafPage(s *suite, url string) string {
	s.t.Helper()
	page, err := os.ReadFile(filepath.Join(root(), "docs", "telegraf.md"))
	s.must(err)
	_, config, ok := strings.Cut(string(page), "```toml\n")
	config, _, ok2 := strings.Cut(config, "```")
	if !ok || !ok2 {
		s.t.Fatal("docs/telegraf.md has no configuration")
	}
	return strings.ReplaceAll(config, "http://127.0.0.1:8086", url)
}

// TestTelegraf runs the agent with both outputs, once and through a crash of
// the server.
func TestTelegraf(t *testing.T) {
	s := newSuite(t, "Telegraf")
	bin := telegraf(s)
	out, _, err := command(t, "", nil, "", bin, "--version")
	s.must(err)
	s.version = strings.TrimSpace(strings.TrimPrefix(out, "Telegraf "))
	server := start(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		s.must(os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	var points strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&points, "req,host=h%d,path=/a\\ b\\,c\\=d f=%g,i=%di,u=%du,b=%t,s=\"say \\\"%d\\\"\" %d\n", i%7, float64(i)/8, i, i, i%2 == 0, i, 1_500_000_000_000_000_000+int64(i)*1e9)
	}
	file := write("points", points.String())
	input := fmt.Sprintf("[[inputs.file]]\nfiles = [%q]\ndata_format = \"influx\"\n", file)
	once := func(name, config string) {
		t.Helper()
		out, errs, err := command(t, dir, nil, "", bin, "--once", "--config", write(name+".conf", config))
		if strings.Contains(out+errs, " E! ") {
			err = fmt.Errorf("%w: %s%s", err, out, errs)
		}
		s.check(name, err)
	}
	count := func(name, db, q string, want int64) {
		t.Helper()
		n, err := server.Count(db, q)
		s.check(name, err)
		s.equal(name, n, want)
	}
	const agent = "[agent]\nomit_hostname = true\nmetric_batch_size = 1000\n"
	once("v1", agent+input+fmt.Sprintf("[[outputs.influxdb]]\nurls = [%q]\ndatabase = \"v1\"\n", server.URL))
	once("v1 identity", agent+input+fmt.Sprintf("[[outputs.influxdb]]\nurls = [%q]\ndatabase = \"identity\"\ncontent_encoding = \"identity\"\ninflux_uint_support = true\n", server.URL))
	once("v2", agent+input+fmt.Sprintf("[[outputs.influxdb_v2]]\nurls = [%q]\ntoken = \"\"\norganization = \"\"\nbucket = \"v1/autogen\"\n", server.URL))
	for _, db := range []string{"v1", "identity"} {
		for _, field := range []string{"f", "i", "u", "b", "s"} {
			count(db+" "+field, db, "SELECT count("+field+") FROM req", 5000)
		}
	}
	count("sum", "v1", "SELECT sum(i) FROM req", 4999*5000/2)
	// The server's own figures, by both of Telegraf's plugins for them.
	once("own figures", agent+fmt.Sprintf("[[inputs.influxdb]]\nurls = [\"%s/debug/vars\"]\n[[inputs.prometheus]]\nurls = [\"%s/metrics\"]\n[[outputs.influxdb]]\nurls = [%q]\ndatabase = \"own\"\n", server.URL, server.URL, server.URL))
	names := server.Query("own", "SHOW MEASUREMENTS")
	for _, m := range []string{"influxdb_httpd", "influxdb_database", "influxdb_runtime", "tsdbd_store_points_written_total", "go_goroutines"} {
		s.equal(m, strings.Contains(names, `["`+m+`"]`), true)
	}
	count("series of v1", "own", "SELECT last(numSeries) FROM influxdb_database WHERE \"database\" = 'v1'", 7)
	once("documented", telegrafPage(s, server.URL)+input)
	count("documented", "telegraf", "SELECT count(f) FROM req", 5000)

	// The agent starts while the server is down, and the server crashes once
	// more: what was gathered is there in the end.
	server.Kill()
	config := fmt.Sprintf("[agent]\ninterval = \"100ms\"\nflush_interval = \"200ms\"\nround_interval = false\nomit_hostname = true\n[[inputs.internal]]\ncollect_memstats = false\n[[outputs.influxdb]]\nurls = [%q]\ndatabase = \"crash\"\n[outputs.influxdb.tags]\nout = \"v1\"\n", server.URL)
	cmd := exec.Command(bin, "--config", write("crash.conf", config))
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.must(cmd.Start())
	for range 2 {
		time.Sleep(2 * time.Second)
		server.Restart()
		time.Sleep(2 * time.Second)
		server.Kill()
	}
	time.Sleep(time.Second)
	server.Restart()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	stored := false
	for ctx.Err() == nil && !stored {
		time.Sleep(300 * time.Millisecond)
		rows, _ := server.Count("crash", "SELECT count(metrics_gathered) FROM internal_agent")
		stored = rows > 50
	}
	s.must(cmd.Process.Signal(syscall.SIGTERM))
	_ = cmd.Wait()
	gaps, err := server.Count("crash", "SELECT count(elapsed) FROM (SELECT elapsed(metrics_gathered, 1ms) FROM internal_agent) WHERE elapsed > 900")
	s.check("gaps", err)
	s.equal("gaps by the crashes", gaps, 0)
	if !stored {
		s.check("after the crashes", fmt.Errorf("too few points; the agent says:\n%s", log.String()))
	}
}
