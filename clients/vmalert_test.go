package clients

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tsdbd/internal/testkit/apptest"
)

// TestVmalert runs the rules of alerts and recordings of VictoriaMetrics' vmalert on the
// server, which takes their results by remote write as well.
func TestVmalert(t *testing.T) {
	s := newSuite(t, "vmalert")
	bin := s.need("vmalert", "apt-get install victoria-metrics")
	if out, errs, err := command(t, "", nil, "", "dpkg-query", "-W", "-f", "${Version}", "victoria-metrics"); err == nil {
		s.version, _, _ = strings.Cut(out+errs, "+")
	}
	server := apptest.Start(t)
	server.Query("", "CREATE DATABASE shop")
	now := time.Now().Unix()
	var lines []string
	for i := range 20 {
		lines = append(lines, fmt.Sprintf("queue,host=a length=%d %d", 50+i, (now-int64(20-i)*5)*1e9), fmt.Sprintf("queue,host=b length=%d %d", i%3, (now-int64(20-i)*5)*1e9))
	}
	server.Write("shop", strings.Join(lines, "\n"))
	dir, addr := t.TempDir(), apptest.FreeAddress(t)
	rules := filepath.Join(dir, "rules.yml")
	s.must(os.WriteFile(rules, []byte(`groups:
- name: shop
  interval: 1s
  rules:
  - alert: LongQueue
    expr: queue_length > 40
    for: 1s
    labels: {severity: page}
    annotations: {summary: "{{ $labels.host }} waits"}
  - record: queue_length:avg
    expr: avg(avg_over_time(queue_length[1m]))
`), 0o600))
	base := server.URL + "/prometheus/shop"
	told := make(chan string, 100)
	alertmanager := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		select {
		case told <- string(body):
		default:
		}
	}))
	defer alertmanager.Close()
	cmd := exec.Command(bin, "-rule="+rules, "-datasource.url="+base, "-remoteWrite.url="+base, "-remoteRead.url="+base, "-notifier.url="+alertmanager.URL,
		"-httpListenAddr="+addr, "-remoteWrite.flushInterval=500ms")
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.must(cmd.Start())
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%.3000s", log.String())
		}
	}()
	await(t, "http://"+addr+"/health", http.StatusOK)
	eventually := func(name, q, want string) {
		t.Helper()
		var got string
		var err error
		for deadline := time.Now().Add(40 * time.Second); time.Now().Before(deadline); time.Sleep(300 * time.Millisecond) {
			if got, err = ask(base, q); err == nil && got == want {
				break
			}
		}
		s.check(name, err)
		s.equal(name, got, want)
	}
	eventually("alert fires", `count(ALERTS{alertname="LongQueue",alertstate="firing",host="a",severity="page"})`, "1")
	eventually("only one", `count(count by (host) (ALERTS{alertname="LongQueue"}))`, "1")
	eventually("state is written", `count(ALERTS_FOR_STATE{alertname="LongQueue"})`, "1")
	eventually("recording", `{__name__="queue_length:avg"} > bool 20`, "1")
	select {
	case alert := <-told:
		if !strings.Contains(alert, `"a waits"`) {
			s.check("annotation", fmt.Errorf("%s", alert))
		}
	case <-time.After(30 * time.Second):
		s.check("the alert is sent", errors.New("nothing came"))
	}
	n, err := server.Count("shop", `SELECT count(value) FROM "queue_length:avg"`)
	s.check("recording in InfluxQL", err)
	if n == 0 {
		s.check("recording in InfluxQL", fmt.Errorf("no points"))
	}
}
