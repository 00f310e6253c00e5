package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"tsdbd/internal/testkit/apptest"
)

// prometheus starts the installed Prometheus with a configuration.
func prometheus(t *testing.T, bin, config string) string {
	t.Helper()
	return prometheusAt(t, bin, config, apptest.FreeAddress(t))
}

// prometheusAt is prometheus at an address.
func prometheusAt(t *testing.T, bin, config, addr string, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, append([]string{"--config.file=" + file, "--storage.tsdb.path=" + dir + "/data", "--web.listen-address=" + addr, "--log.level=warn"}, flags...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	await(t, "http://"+addr+"/-/ready", http.StatusOK)
	return "http://" + addr
}

// ask runs PromQL now and returns the values of the answer.
func ask(base, q string) (string, error) { return askAt(base, q, "") }

// askAt is ask for a time, in seconds.
func askAt(base, q, at string) (string, error) {
	params := url.Values{"query": {q}}
	if at != "" {
		params.Set("time", at)
	}
	resp, err := http.Get(base + "/api/v1/query?" + params.Encode())
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var doc struct {
		Status, Error string
		Data          struct {
			Result []struct {
				Metric map[string]string
				Value  []any
			}
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&doc); err != nil {
		return "", err
	}
	if doc.Status != "success" {
		return "", fmt.Errorf("%s", doc.Error)
	}
	var out []string
	for _, r := range doc.Data.Result {
		if at == "" {
			out = append(out, fmt.Sprint(r.Value[1]))
		} else {
			out = append(out, fmt.Sprint(r.Metric, r.Value[1]))
		}
	}
	if at != "" {
		slices.Sort(out)
	}
	return strings.Join(out, " "), nil
}

// TestPrometheus lets a Prometheus scrape the server and write what it scraped
// back to it, and another one read it from there.
func TestPrometheus(t *testing.T) {
	s := newSuite(t, "Prometheus")
	bin := s.need("prometheus", "apt-get install prometheus")
	promtool := s.need("promtool", "apt-get install prometheus")
	version, more, err := command(t, "", nil, "", promtool, "--version")
	s.must(err)
	if _, after, ok := strings.Cut(version+more, "version "); ok {
		s.version, _, _ = strings.Cut(after, " ")
	}
	server := start(t)
	server.Query("", "CREATE DATABASE prom")
	server.Write("prom", "m v=1")
	_, metrics, err := server.Do(context.Background(), http.MethodGet, "/metrics", nil, "")
	s.must(err)
	out, errs, err := command(t, "", nil, metrics, promtool, "check", "metrics")
	if err == nil && out+errs != "" {
		err = fmt.Errorf("%s%s", out, errs)
	}
	s.check("promtool check metrics", err)

	scrape := fmt.Sprintf("scrape_configs:\n- job_name: tsdbd\n  scrape_interval: 250ms\n  scrape_timeout: 200ms\n  static_configs:\n  - targets: [%q]\n", strings.TrimPrefix(server.URL, "http://"))
	write := fmt.Sprintf("remote_write:\n- url: %s/api/v1/prom/write?db=prom\n  queue_config:\n    batch_send_deadline: 200ms\n", server.URL)
	read := fmt.Sprintf("remote_read:\n- url: %s/api/v1/prom/read?db=prom\n  read_recent: true\n", server.URL)
	writer := prometheus(t, bin, scrape+write)
	eventually := func(name, base, q string, good func(string) bool) {
		t.Helper()
		var got string
		var err error
		for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
			if got, err = ask(base, q); err == nil && good(got) {
				s.check(name, nil)
				return
			}
		}
		s.check(name, fmt.Errorf("%q %w", got, err))
	}
	some := func(v string) bool { return v != "" && v != "0" }
	eventually("scraped", writer, `up{job="tsdbd"}`, func(v string) bool { return v == "1" })
	eventually("written back", writer, `prometheus_remote_storage_samples_total`, func(string) bool {
		n, err := server.Count("prom", `SELECT count(value) FROM up`)
		return err == nil && n >= 5
	})
	eventually("nothing refused", writer, `sum(prometheus_remote_storage_samples_failed_total) or vector(0)`, func(v string) bool { return v == "0" })
	reader := prometheus(t, bin, read)
	eventually("read", reader, `up{job="tsdbd"}`, func(v string) bool { return v == "1" })
	eventually("read over a range", reader, `count_over_time(up[10m])`, func(v string) bool { return some(v) && v != "1" })
	eventually("regular expressions", reader, `count(tsdbd_http_requests_total{job=~"ts.*",route!~"ping|"})`, some)
	eventually("rates of histograms", reader, `histogram_quantile(0.9, sum by (le) (rate(tsdbd_http_request_duration_seconds_bucket[1m])))`, some)
	for _, q := range []string{`sum_over_time(up[20s] offset 2s)`, `count({__name__=~"tsdbd_store_.*"} offset 2s)`} {
		var a, b string
		var err error
		for range 20 {
			at := fmt.Sprint(time.Now().Unix())
			pinned := strings.ReplaceAll(q, "offset 2s", "offset 2s @ "+at)
			a, err = ask(writer, pinned)
			if err == nil {
				b, err = ask(reader, pinned)
			}
			if err == nil && a == b {
				break
			}
			time.Sleep(200 * time.Millisecond)
		}
		s.check("same answer: "+q, err)
		s.equal("same answer: "+q, b, a)
	}
}
