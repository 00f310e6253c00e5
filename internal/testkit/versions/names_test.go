package versions

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestNames: commands, flags, metrics, routes and settings that a version had are still there.
// A setting that got another name is accepted under the former one.
func TestNames(t *testing.T) {
	t.Parallel()
	have := names(t)
	lists, err := filepath.Glob(filepath.Join(root, "*", "names.txt"))
	if err != nil || len(lists) == 0 {
		t.Fatalf("no version has a list of names: %v", err)
	}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		had := strings.Count(string(text), "\n")
		if had < 300 {
			t.Errorf("%s has too little", list)
		}
		for name := range strings.Lines(string(text)) {
			if name = strings.TrimSuffix(name, "\n"); !slices.Contains(have, name) {
				t.Errorf("%s was in version %s: keep it for all 0.x, beside what takes its place", name, filepath.Base(filepath.Dir(list)))
			}
		}
		config := filepath.Join(filepath.Dir(list), "config.toml")
		if out := must(t, "config", "-config", config); !strings.Contains(out, "[data]") {
			t.Errorf("the settings of %s: %s", config, out)
		}
	}
}

var (
	flags    = regexp.MustCompile(`(?m)^ {3}(--[a-z0-9-]+)`)
	commands = regexp.MustCompile(`(?m)^ {3}([a-z]+)(?:, [a-z])? +\S`)
	families = regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)$`)
	paths    = regexp.MustCompile("`(/[^`]*)`")
)

// names returns what people, scripts and dashboards may have written down.
func names(t testing.TB) (out []string) {
	t.Helper()
	var describe func(command ...string)
	describe = func(command ...string) {
		help := must(t, append(command, "-help")...)
		_, sections, _ := strings.Cut(help, "\nCOMMANDS:\n")
		below, options, found := strings.Cut(sections, "OPTIONS:\n")
		if !found {
			below = sections
			_, options, _ = strings.Cut(help, "OPTIONS:\n")
		}
		of := strings.Join(append([]string{"tsdbd"}, command...), " ")
		for _, m := range flags.FindAllStringSubmatch(options, -1) {
			out = append(out, "flag "+of+" "+m[1])
		}
		for _, m := range commands.FindAllStringSubmatch(below, -1) {
			if m[1] != "help" {
				out = append(out, "command "+of+" "+m[1])
				describe(append(slices.Clone(command), m[1])...)
			}
		}
	}
	describe()

	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "http-api.md")) // which a test compares with the routes
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, " | ")
		methods := strings.TrimPrefix(cells[0], "| ")
		if len(cells) != 4 || methods != "any" && !strings.Contains("GET POST PUT PATCH DELETE HEAD OPTIONS", strings.Split(methods, ",")[0]) {
			continue
		}
		for _, m := range paths.FindAllStringSubmatch(cells[1], -1) {
			for method := range strings.SplitSeq(methods, ", ") {
				out = append(out, "route "+method+" "+m[1])
			}
		}
	}

	for _, args := range [][]string{nil, alone(t)} {
		s := start(t, t.TempDir(), args...)
		status, text, err := s.Do(t.Context(), http.MethodGet, "/metrics", nil, "")
		if err != nil || status != http.StatusOK {
			t.Fatalf("metrics: %d %v", status, err)
		}
		for _, m := range families.FindAllStringSubmatch(text, -1) {
			out = append(out, fmt.Sprintf("metric %s %s", m[1], m[2]))
		}
		s.Stop()
	}
	slices.Sort(out)
	return slices.Compact(out)
}
