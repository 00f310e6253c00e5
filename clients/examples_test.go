package clients

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// TestExamples runs the programs of docs/client-libraries.md, which are in examples.
func TestExamples(t *testing.T) {
	s := newSuite(t, "examples of the documents")
	server := start(t)
	run := func(what, want string, env []string, args ...string) {
		t.Helper()
		if server.Query("", "DROP DATABASE demo; CREATE DATABASE demo") == "" {
			t.Fatal("no database")
		}
		out, errs, err := command(t, "", env, "", append(args, server.URL)...)
		s.check(what, err)
		// CSV has the time of the point.
		s.equal(what, regexp.MustCompile(`,\d{19},`).ReplaceAllString(out, ",TIME,")+errs, want)
	}
	here := filepath.Join(root(), "clients", "examples")
	run("go", "oslo -3.5\n", nil, "go", "run", "./examples/go")
	if err := exec.Command("/usr/bin/python3", "-c", "import influxdb").Run(); err == nil {
		run("python", "oslo -3.5\n", nil, "/usr/bin/python3", filepath.Join(here, "example.py"))
	} else {
		t.Log("skipped: python3-influxdb is not installed")
	}
	// TestNode has npm fetch the package.
	modules := filepath.Join(root(), "bin", "node", "node_modules")
	if _, err := os.Stat(filepath.Join(modules, "influx")); err == nil {
		run("node", "oslo -3.5\n", []string{"NODE_PATH=" + modules}, "node", filepath.Join(here, "example.js"))
	} else {
		t.Log("skipped: run make client-node first, which fetches the package influx")
	}
	for name, args := range map[string][]string{"java": {filepath.Join(here, "Example.java")}, "php": {filepath.Join(here, "example.php")}} {
		if _, err := exec.LookPath(name); err != nil {
			t.Logf("skipped: %s is not installed", name)
			continue
		}
		want := "oslo -3.5\n"
		if name == "java" {
			want = "name,tags,time,last\nweather,city=oslo,TIME,-3.5\n"
		}
		run(name, want, nil, append([]string{name}, args...)...)
	}
	// Mono knows the same classes as .NET.
	_, err := exec.LookPath("mono")
	if _, mcs := exec.LookPath("mcs"); errors.Join(err, mcs) != nil {
		t.Log("skipped: mono and mcs are not installed")
		return
	}
	program := filepath.Join(t.TempDir(), "Example.exe")
	_, errs, err := command(t, "", nil, "", "mcs", "-r:System.Net.Http.dll", "-out:"+program, filepath.Join(here, "Example.cs"))
	s.check("compile C#", err)
	s.equal("compile C#", errs, "")
	run("csharp", "name,tags,time,last\nweather,city=oslo,TIME,-3.5\n", nil, "mono", program)
}
