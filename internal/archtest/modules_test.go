package archtest

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var required = regexp.MustCompile(`(?m)^(?:require)?\s+(\S+) (v\S+)`)

// TestModulesBeside holds the modules beside the program, such as bench and clients, to the
// modules that they get with the packages of the program that they import: the go command
// refuses a go.mod that lacks one, or has an older version. Most of them are built by no
// other test.
func TestModulesBeside(t *testing.T) {
	files := []string{}
	for _, pattern := range []string{"*/go.mod", "*/*/go.mod", "*/*/*/go.mod"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	checked := 0
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(b), "\nreplace "+module+" => ") {
			continue
		}
		has := map[string]string{}
		for _, m := range required.FindAllStringSubmatch(string(b), -1) {
			has[m[1]] = m[2]
		}
		dir := filepath.Dir(file)
		list := exec.Command("go", append([]string{"list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}"}, importsOf(t, dir)...)...)
		list.Dir = root
		out, err := list.Output()
		if err != nil {
			t.Fatalf("%s: %v", dir, err)
		}
		for _, line := range slices.Compact(slices.Sorted(strings.Lines(string(out)))) {
			name, version, named := strings.Cut(strings.TrimSpace(line), " ")
			if !named {
				continue
			}
			if has[name] == "" || slices.Compare(numbers(t, has[name]), numbers(t, version)) < 0 {
				t.Errorf("%s has %s %s, and needs %s: run go mod tidy there", file, name, has[name], version)
			}
			checked++
		}
	}
	if checked < 20 {
		t.Errorf("%d modules checked", checked)
	}
}

// importsOf returns the packages of the program that the module of a directory imports.
func importsOf(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && path != dir {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
				return filepath.SkipDir
			}
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, i := range f.Imports {
			name, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			top, ours := strings.CutPrefix(name, module+"/")
			if top, _, _ = strings.Cut(top, "/"); ours && top != "bench" && top != "clients" && top != "packaging" {
				all = append(all, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// numbers returns the three numbers that a version begins with.
func numbers(t *testing.T, version string) []int {
	t.Helper()
	n := make([]int, 3)
	if _, err := fmt.Sscanf(version, "v%d.%d.%d", &n[0], &n[1], &n[2]); err != nil {
		t.Fatalf("%s: %v", version, err)
	}
	return n
}
