package apptest

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// operationsPages are the pages of docs for operators that name metrics and settings.
var operationsPages = []string{
	"operations", "systems", "memory", "cardinality", "expiry", "disk", "data-directory", "damage", "monitoring", "upgrading", "sizing",
}

// TestOperationsPages holds the pages for operators to the program: every metric they
// name is there, every setting exists, and so do the metrics of the alerts and
// of the dashboard.
func TestOperationsPages(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for _, name := range operationsPages {
		text, err := os.ReadFile("../../../docs/" + name + ".md")
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	pages := all.String()
	// A node of a cluster with a certificate, even if it is the only one, has all figures.
	bind := FreeAddress(t)
	cert, key := writeCertificate(t, t.TempDir(), 1)
	s := New(t, "-cluster-node", "n1", "-cluster-bind", bind, "-cluster-join", "n1="+bind,
		"-cluster-certificate", cert, "-cluster-private-key", key, "-cluster-ca", cert)
	s.Env = []string{"TSDBD_UDP_0_ENABLED=true", "TSDBD_UDP_0_BIND_ADDRESS=127.0.0.1:0"} // an input has figures if it is on
	s.Restart()
	s.Query("", "CREATE DATABASE db")
	s.Write("db", "m v=1")
	_, metrics, err := s.Do(context.Background(), http.MethodGet, "/metrics", url.Values{}, "")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`\b(tsdbd|process)_[a-z0-9_]+[a-z0-9]\b`).FindAllString(pages, -1)
	if len(names) < 15 {
		t.Fatalf("%d metrics on the pages", len(names))
	}
	for _, name := range names {
		if !regexp.MustCompile(`(?m)^` + name + `[ {]`).MatchString(metrics) {
			t.Errorf("there is no metric %s", name)
		}
	}

	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	config, err := exec.Command(bin, "config").Output()
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string]bool{}
	section := ""
	for line := range strings.Lines(string(config)) {
		line = strings.TrimSpace(line)
		if key, _, ok := strings.Cut(line, " = "); ok {
			settings[section+"."+key] = true
		} else {
			section = strings.Trim(line, "[]")
		}
	}
	found := regexp.MustCompile("`((?:data|http|query|retention|monitor|log|cluster)\\.[a-z-]+)`").FindAllStringSubmatch(pages, -1)
	if len(found) < 20 {
		t.Fatalf("%d settings on the pages", len(found))
	}
	for _, m := range found {
		if !settings[m[1]] {
			t.Errorf("there is no setting %s", m[1])
		}
	}
	checkAlerts(t, pages, metrics)
	checkDashboard(t, metrics)
}

// metricNames finds the names of metrics in a text.
func metricNames(text string) []string {
	names := regexp.MustCompile(`\b(tsdbd|process|go)_[a-z0-9_]+[a-z0-9]\b`).FindAllString(text, -1)
	slices.Sort(names)
	return slices.Compact(names)
}

// checkAlerts holds the rules to the metrics and to the pages that explain
// them, and has Prometheus run their tests.
func checkAlerts(t *testing.T, pages, metrics string) {
	t.Helper()
	const dir = "../../../packaging/prometheus"
	rules, err := os.ReadFile(filepath.Join(dir, "tsdbd-rules.yml"))
	if err != nil {
		t.Fatal(err)
	}
	alerts := regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(string(rules), -1)
	if len(alerts) < 10 {
		t.Fatalf("%d alerts", len(alerts))
	}
	for _, a := range alerts {
		if !strings.Contains(pages, "| `"+a[1]+"` |") {
			t.Errorf("no page explains %s", a[1])
		}
	}
	if n := strings.Count(pages, "| `Tsdbd"); n != len(alerts) {
		t.Errorf("the pages explain %d alerts, there are %d", n, len(alerts))
	}
	for _, name := range metricNames(string(rules)) {
		if !regexp.MustCompile(`(?m)^` + name + `[ {]`).MatchString(metrics) {
			t.Errorf("rules: there is no metric %s", name)
		}
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Log("promtool is not installed: the rules are not run")
		return
	}
	for _, args := range [][]string{{"check", "rules", "tsdbd-rules.yml"}, {"test", "rules", "tsdbd-rules.test.yml"}} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool: %v\n%s", err, out)
		}
	}
}

// checkDashboard holds the dashboard to the metrics.
func checkDashboard(t *testing.T, metrics string) {
	t.Helper()
	text, err := os.ReadFile("../../../packaging/grafana/tsdbd.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Title  string
		Panels []struct {
			Title   string
			Type    string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil || len(dashboard.Panels) < 10 {
		t.Fatalf("%d panels, %v", len(dashboard.Panels), err)
	}
	for _, p := range dashboard.Panels {
		if p.Type == "row" {
			continue
		}
		if p.GridPos.W <= 0 || p.GridPos.X+p.GridPos.W > 24 || len(p.Targets) == 0 {
			t.Errorf("panel %s: %+v", p.Title, p)
		}
		for _, q := range p.Targets {
			names := metricNames(q.Expr)
			if len(names) == 0 {
				t.Errorf("panel %s asks for nothing: %s", p.Title, q.Expr)
			}
			for _, name := range names {
				if !regexp.MustCompile(`(?m)^` + name + `[ {]`).MatchString(metrics) {
					t.Errorf("panel %s: there is no metric %s", p.Title, name)
				}
			}
		}
	}
}
