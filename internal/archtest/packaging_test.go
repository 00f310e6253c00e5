package archtest

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"go.yaml.in/yaml/v3"

	"tsdbd/config"
	"tsdbd/internal/version"
)

// composition is what the tests look at in a file of docker compose.
type composition struct {
	Services map[string]struct {
		Image       string
		Ports       []string
		Environment map[string]string
		Volumes     []string
		ReadOnly    bool `yaml:"read_only"`
		Healthcheck struct{ Test []string }
		Secrets     []string
		DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
	}
	Volumes, Secrets map[string]any
}

// readYAML decodes a file of packaging.
func readYAML(t *testing.T, to any, path ...string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{root, "packaging"}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, to); err != nil {
		t.Fatalf("%s: %v", filepath.Join(path...), err)
	}
}

// TestCompose holds the files of docker compose to the program: images, settings, ports,
// and files that they mount.
func TestCompose(t *testing.T) {
	pinned := regexp.MustCompile(`^(\$\{TSDBD_IMAGE:-tsdbd:` + regexp.QuoteMeta(version.Next) + `\}|[a-z/]+:\d+\.\d+(\.\d+)?)$`)
	mapped := regexp.MustCompile(`^127\.0\.0\.1:\d+:(8086|3000)$`)
	for file, nodes := range map[string]int{"one.yaml": 1, "three.yaml": 3} {
		var c composition
		readYAML(t, &c, "compose", file)
		n, outside := 0, map[string]string{}
		for name, s := range c.Services {
			if !pinned.MatchString(s.Image) {
				t.Errorf("%s: %s has image %q", file, name, s.Image)
			}
			for _, p := range s.Ports {
				address := strings.TrimSuffix(strings.TrimSuffix(p, ":8086"), ":3000")
				if !mapped.MatchString(p) || outside[address] != "" {
					t.Errorf("%s: %s and %s have port %s, want one of 127.0.0.1 for itself", file, name, outside[address], p)
				}
				outside[address] = name
			}
			for _, v := range s.Volumes {
				from, to, ok := strings.Cut(v, ":")
				if _, named := c.Volumes[from]; !ok || !named && !strings.HasPrefix(from, "./") {
					t.Errorf("%s: %s has volume %q", file, name, v)
				}
				if strings.HasPrefix(from, "./") && !strings.HasSuffix(to, ":ro") {
					t.Errorf("%s: %s may write to %s", file, name, from)
				}
				if _, err := os.Stat(filepath.Join(root, "packaging", "compose", from)); strings.HasPrefix(from, "./") && err != nil {
					t.Errorf("%s: %s: %v", file, name, err)
				}
			}
			for other := range s.DependsOn {
				if _, ok := c.Services[other]; !ok {
					t.Errorf("%s: %s waits for %s, which is not there", file, name, other)
				}
			}
			if !strings.Contains(s.Image, "TSDBD_IMAGE") {
				continue
			}
			n++
			load(t, file+": "+name, s.Environment)
			if s.Environment["TSDBD_CLUSTER_NODE"] != "" && s.Environment["TSDBD_CLUSTER_NODE"] != name {
				t.Errorf("%s: node %s is service %s, so that others do not reach it", file, s.Environment["TSDBD_CLUSTER_NODE"], name)
			}
			if !s.ReadOnly || len(s.Volumes) != 1 || !strings.HasSuffix(s.Volumes[0], ":"+s.Environment["TSDBD_DATA_DIR"]) {
				t.Errorf("%s: %s has volumes %v for its data", file, name, s.Volumes)
			}
			if !slices.Equal(s.Healthcheck.Test, []string{"CMD", "/usr/bin/tsdbd", "health"}) {
				t.Errorf("%s: %s is checked by %q", file, name, s.Healthcheck.Test)
			}
		}
		if n != nodes {
			t.Errorf("%s has %d servers, want %d", file, n, nodes)
		}
	}
}

// load gives variables to the program as its settings.
func load(t *testing.T, what string, environment map[string]string) {
	t.Helper()
	known := map[string]bool{}
	for _, s := range (&config.Config{}).Settings() {
		known[s.Env] = true
	}
	var variables []string
	for k, v := range environment {
		if !known[k] {
			t.Errorf("%s: %s is no setting", what, k)
		}
		if k == "TSDBD_CLUSTER_SECRET_FILE" {
			k, v = "TSDBD_CLUSTER_SECRET", strings.Repeat("s", 32)
		}
		variables = append(variables, k+"="+v)
	}
	from := config.Source{Heap: 1 << 30}
	c, notes, err := from.Load(variables)
	if err != nil || len(notes) > 0 {
		t.Fatalf("%s: %v %v", what, err, notes)
	}
	if c.Cluster.Node != "" && (len(c.Cluster.Join) != 3 || c.Cluster.Bind == "") {
		t.Errorf("%s: settings of the cluster: %+v", what, c.Cluster)
	}
}

// TestComposeTelegraf holds what Telegraf writes to what Grafana asks for.
func TestComposeTelegraf(t *testing.T) {
	var telegraf struct {
		Outputs struct {
			InfluxDB []struct {
				URLs     []string
				Database string
			}
		}
		Inputs map[string][]map[string]any
	}
	if _, err := toml.DecodeFile(filepath.Join(root, "packaging", "compose", "telegraf.conf"), &telegraf); err != nil {
		t.Fatal(err)
	}
	var sources struct {
		Datasources []struct {
			UID, Type, URL string
			JSONData       map[string]string `yaml:"jsonData"`
		}
	}
	readYAML(t, &sources, "compose", "grafana", "provisioning", "datasources", "tsdbd.yaml")
	var one composition
	readYAML(t, &one, "compose", "one.yaml")
	out, source := telegraf.Outputs.InfluxDB[0], sources.Datasources[0]
	for _, address := range []string{out.URLs[0], source.URL} {
		u, err := url.Parse(address)
		if err != nil || u.Port() != "8086" {
			t.Errorf("address %s, %v", address, err)
		}
		if _, ok := one.Services[u.Hostname()]; !ok {
			t.Errorf("%s is no service of one.yaml", address)
		}
	}
	if out.Database != source.JSONData["dbName"] {
		t.Errorf("Telegraf writes to %s, Grafana reads %s", out.Database, source.JSONData["dbName"])
	}
	var board struct {
		Panels []struct {
			Title      string
			Datasource struct{ UID, Type string }
			Targets    []struct{ Query string }
		}
	}
	text, err := os.ReadFile(filepath.Join(root, "packaging", "compose", "grafana", "dashboards", "machine.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &board); err != nil || len(board.Panels) == 0 {
		t.Fatalf("%d panels, %v", len(board.Panels), err)
	}
	for _, p := range board.Panels {
		m := regexp.MustCompile(` FROM (\w+) WHERE \$timeFilter `).FindStringSubmatch(p.Targets[0].Query)
		if m == nil || telegraf.Inputs[m[1]] == nil || p.Datasource.UID != source.UID || p.Datasource.Type != source.Type {
			t.Errorf("panel %s asks %+v for %s", p.Title, p.Datasource, p.Targets[0].Query)
		}
	}
}

// TestChartVersion holds the chart for Kubernetes to the version of the program. Its own
// module in packaging/helm/check renders it.
func TestChartVersion(t *testing.T) {
	var chart struct{ Version, AppVersion string }
	text, err := os.ReadFile(filepath.Join(root, "packaging", "helm", "tsdbd", "Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "version":
			chart.Version = value
		case "appVersion":
			chart.AppVersion = value
		}
	}
	if chart.Version != version.Next || chart.AppVersion != version.Next {
		t.Errorf("the chart is of %+v, the program of %s", chart, version.Next)
	}
	var values struct{ Settings map[string]any }
	readYAML(t, &values, "helm", "tsdbd", "values.yaml")
	for key := range values.Settings {
		if !slices.ContainsFunc((&config.Config{}).Settings(), func(s config.Setting) bool { return s.Key == key }) {
			t.Errorf("values.yaml: %s is no setting", key)
		}
	}
}

// TestClientExamples holds the programs of docs/client-libraries.md to those that the tests
// of clients run.
func TestClientExamples(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "client-libraries.md"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, pattern := range []string{"*.*", "go/*"} {
		files, err := filepath.Glob(filepath.Join(root, "clients", "examples", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			n++
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(page), "\n"+string(text)+"```\n") {
				t.Errorf("docs/client-libraries.md has another program than %s", file)
			}
		}
	}
	if n != 6 {
		t.Errorf("%d programs, want 6", n)
	}
}
