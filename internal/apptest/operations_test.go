package apptest

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestOperationsPage holds docs/operations.md to the program: every metric it
// names is there, every setting exists, and Prometheus takes the rules.
func TestOperationsPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	s := Start(t)
	s.Query("", "CREATE DATABASE db")
	s.Write("db", "m v=1")
	_, metrics, err := s.Do(context.Background(), http.MethodGet, "/metrics", url.Values{}, "")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`\b(tsdbd|process)_[a-z0-9_]+[a-z0-9]\b`).FindAllString(page, -1)
	if len(names) < 30 {
		t.Fatalf("%d metrics on the page", len(names))
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
	found := regexp.MustCompile("`((?:data|http|query|retention|log)\\.[a-z-]+)`").FindAllStringSubmatch(page, -1)
	if len(found) < 30 {
		t.Fatalf("%d settings on the page", len(found))
	}
	for _, m := range found {
		if !settings[m[1]] {
			t.Errorf("there is no setting %s", m[1])
		}
	}

	_, rules, ok := strings.Cut(page, "```yaml\n")
	rules, _, ok2 := strings.Cut(rules, "```")
	if !ok || !ok2 {
		t.Fatal("no rules on the page")
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed: the rules are not checked")
	}
	file := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(promtool, "check", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}
