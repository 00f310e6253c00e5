package archtest

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite testdata/imports.golden")

const module = "tsdbd"

// TestImports holds the import graph of our packages against the golden file,
// so that a new arrow between packages shows in review.
func TestImports(t *testing.T) {
	root := filepath.Join("..", "..")
	list := exec.Command("go", "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, "./...")
	list.Dir = root
	var stderr bytes.Buffer
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, stderr.String())
	}
	got := graph(string(out))
	golden := filepath.Join(root, "testdata", "imports.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got == string(want) {
		return
	}
	have, wanted := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for _, l := range have {
		if !slices.Contains(wanted, l) {
			t.Errorf("new:  %s", l)
		}
	}
	for _, l := range wanted {
		if !slices.Contains(have, l) {
			t.Errorf("gone: %s", l)
		}
	}
	t.Error("if this is meant, run: go test ./internal/archtest -update")
}

// TestClusterLibrary keeps the library of elections out of every package that a
// server without a cluster runs.
func TestClusterLibrary(t *testing.T) {
	list := exec.Command("go", "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, "./...")
	list.Dir = filepath.Join("..", "..")
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		names := strings.Fields(line)
		for _, to := range names[1:] {
			if strings.HasPrefix(to, "github.com/hashicorp/") && !strings.HasPrefix(names[0], module+"/cluster") {
				t.Errorf("%s imports %s, which only the packages of the cluster do", names[0], to)
			}
		}
	}
}

// TestPrometheusLibrary holds the part of Prometheus that the program has. Its engine
// and its interfaces stay in the packages that answer PromQL, and what it needs for
// other work of its server, which is hundreds of packages, stays out.
func TestPrometheusLibrary(t *testing.T) {
	const library = "github.com/prometheus/prometheus/"
	list := func(args ...string) []string {
		cmd := exec.Command("go", append([]string{"list"}, args...)...)
		cmd.Dir = filepath.Join("..", "..")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		return strings.Split(strings.TrimSpace(string(out)), "\n")
	}
	for _, line := range list("-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, "./...") {
		names := strings.Fields(line)
		for _, to := range names[1:] {
			if strings.HasPrefix(to, library) && !strings.HasPrefix(names[0]+"/", module+"/prom/") && names[0] != module+"/httpapi/promapi" {
				t.Errorf("%s imports %s, which only prom and httpapi/promapi do", names[0], to)
			}
		}
	}
	n := 0
	for _, name := range list("-deps", "./...") {
		part, ok := strings.CutPrefix(name, library)
		if !ok {
			continue
		}
		n++
		if part == "tsdb" || slices.ContainsFunc([]string{"web", "storage/remote", "rules", "scrape", "discovery", "notifier"}, func(room string) bool {
			return part == room || strings.HasPrefix(part, room+"/")
		}) {
			t.Errorf("the program links %s", name)
		}
	}
	if n == 0 {
		t.Error("nothing of Prometheus is linked")
	}
}

// graph renders the arrows between our packages, one a line.
func graph(list string) string {
	var lines []string
	for line := range strings.Lines(list) {
		names := strings.Fields(line)
		from := strings.TrimPrefix(names[0], module+"/")
		for _, name := range names[1:] {
			if to, ours := strings.CutPrefix(name, module+"/"); ours {
				lines = append(lines, from+" -> "+to)
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

// TestForbiddenImports holds the arrows that must never be, with the reason.
func TestForbiddenImports(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "testdata", "imports.golden"))
	if err != nil {
		t.Fatal(err)
	}
	arrows := strings.Split(string(text), "\n")
	leaves := []string{"wal", "cache", "tsm", "tsi", "series"}
	within := func(name string, rooms ...string) bool {
		return slices.ContainsFunc(rooms, func(r string) bool { return name == r || strings.HasPrefix(name, r+"/") })
	}
	storage := append([]string{"store", "shard"}, leaves...)
	for _, a := range arrows {
		from, to, _ := strings.Cut(a, " -> ")
		switch {
		case slices.Contains(leaves, from) && slices.Contains(leaves, to):
			t.Errorf("%s: the parts of a shard do not know each other", a)
		case (from == "model" || from == "model/column") && to != "model":
			t.Errorf("%s: the shared nouns know nothing", a)
		case from == "model/scan" && to != "model/column" && to != "model":
			t.Errorf("%s: the read contract knows the nouns alone", a)
		case within(from, "query") && within(to, storage...):
			t.Errorf("%s: queries see storage through model/scan alone", a)
		case within(from, "httpapi") && within(to, storage...):
			t.Errorf("%s: the API sees the store through its own interfaces", a)
		case within(to, "cluster") && !within(from, "cluster", "server", "cmd/tsdbd", "internal/testkit"):
			t.Errorf("%s: a server that is alone has nothing of a cluster on its path", a)
		case within(to, "transfer") && !within(from, "transfer", "cmd/tsdbd"):
			t.Errorf("%s: foreign formats are read and written by the command alone; package exchange has what servers need", a)
		case within(from, "transfer") && !within(to, "transfer", "exchange", "lineproto", "meta", "model", "prom", "internal") && from != "transfer/sink/files":
			t.Errorf("%s: moves see rows, line protocol, names and the HTTP client of the product; transfer/sink/files makes shards", a)
		case from == "transfer/sink/files" && !within(to, "transfer", "exchange", "meta", "model", "internal", "retention", "shard", "store", "tsi"):
			t.Errorf("%s: to make shards, these packages are enough", a)
		case strings.HasSuffix(to, "test") && !strings.HasSuffix(from, "test"),
			within(to, "internal/testkit") && !within(from, "internal/testkit"):
			t.Errorf("%s: test help must not get into the product", a)
		}
	}
}
