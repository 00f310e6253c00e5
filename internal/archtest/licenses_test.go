package archtest

import (
	"os/exec"
	"strings"
	"testing"
)

// TestLicenses holds the text that packages contain to the modules that the
// program is linked with: each has its license, and its notice if it has one.
func TestLicenses(t *testing.T) {
	print := exec.Command("go", "run", ".ci/licenses.go")
	print.Dir = root
	var stderr strings.Builder
	print.Stderr = &stderr
	out, err := print.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	list, texts, _ := strings.Cut(string(out), "\n=====")
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
