package archtest

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// printLicenses returns what .ci/licenses.go prints.
func printLicenses(t *testing.T) string {
	t.Helper()
	print := exec.Command("go", "run", ".ci/licenses.go")
	print.Dir = root
	var stderr strings.Builder
	print.Stderr = &stderr
	out, err := print.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	return string(out)
}

// TestLicenses holds the text that packages contain to the modules that the
// program is linked with: each has its license, and its notice if it has one.
func TestLicenses(t *testing.T) {
	list, texts, _ := strings.Cut(printLicenses(t), "\n=====")
	modules := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}", "./cmd/tsdbd")
	modules.Dir = root
	linked, err := modules.Output()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for module := range strings.Lines(string(linked)) {
		module = strings.TrimSpace(module)
		if module == "" {
			continue
		}
		n++
		if !strings.Contains(list, "\n"+module+": ") || !strings.Contains(texts, "\n"+module+": ") {
			t.Errorf("the license of %s is not printed", module)
		}
	}
	if n < 20 {
		t.Errorf("%d packages of modules", n)
	}
	for _, want := range []string{"\nGo go1.", "\ngithub.com/prometheus/client_golang "} {
		if !strings.Contains(texts, want) {
			t.Errorf("no text of%s", want)
		}
	}
	if !strings.Contains(texts, ": NOTICE\n") {
		t.Error("no notice is printed, which the license of Apache wants")
	}
	// Whoever gets a program under the Mozilla license is told where its source is.
	for line := range strings.Lines(list) {
		if strings.HasSuffix(line, ": MPL-2.0\n") && !strings.Contains(list, line+"    not modified; its source is at https://proxy.golang.org/") {
			t.Errorf("the list does not say where the source is: %s", line)
		}
	}
}

// TestPageLicenses holds the same text to the packages of npm in the page: those that
// its sources import, in the versions that are locked.
func TestPageLicenses(t *testing.T) {
	var lock struct {
		Packages map[string]struct{ Version string }
	}
	text, err := os.ReadFile(filepath.Join(root, "web", "ui", "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		t.Fatal(err)
	}
	licenses, err := os.ReadFile(filepath.Join(root, "web", "LICENSES.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^## (\S+) - (\S+) \(`).FindAllStringSubmatch(string(licenses), -1) {
		named[m[1]] = true
		if locked := lock.Packages["node_modules/"+m[1]].Version; locked != m[2] {
			t.Errorf("web/LICENSES.md has %s %s, package-lock.json has %q: run make ui", m[1], m[2], locked)
		}
	}
	printed := printLicenses(t)
	for name := range named {
		version := lock.Packages["node_modules/"+name].Version
		if !strings.Contains(printed, "\n"+name+" "+version+": ") || !strings.Contains(printed, "=\n"+name+" "+version+"\n\n") {
			t.Errorf("the license of %s is not printed", name)
		}
	}
	imports := regexp.MustCompile(`(?m)(?:from|^import) "((?:@[^/"]+/)?[^."/][^/"]*)`)
	n := 0
	err = filepath.WalkDir(filepath.Join(root, "web", "ui", "src"), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(name, ".test.") {
			return err
		}
		source, err := os.ReadFile(name)
		for _, m := range imports.FindAllStringSubmatch(string(source), -1) {
			n++
			if !named[m[1]] {
				t.Errorf("%s imports %s, which web/LICENSES.md does not name: run make ui", name, m[1])
			}
		}
		return err
	})
	if err != nil || n < 20 {
		t.Errorf("%d imports of packages, %v", n, err)
	}
}
