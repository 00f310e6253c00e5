package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	// maxPackageLines bounds the code of a package without its tests.
	maxPackageLines = 4000
	// maxKnotFiles bounds the files of a package that all use each other, by
	// way of others. Whoever changes one of them has to know them all.
	maxKnotFiles = 11
)

// goPackage is what go list prints about a package.
type goPackage struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	Standard                bool
}

// TestRooms holds every package to a size and its files to an order: a package
// that outgrows maxPackageLines, or whose files use each other in a circle of
// more than maxKnotFiles, wants to be divided.
func TestRooms(t *testing.T) {
	packages := listPackages(t)
	export := map[string]string{}
	for _, p := range packages {
		export[p.ImportPath] = p.Export
	}
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(export[path]) })
	for _, p := range packages {
		if p.ImportPath != module && !strings.HasPrefix(p.ImportPath, module+"/") {
			continue
		}
		lines, uses := readPackage(t, fset, imports, p)
		if lines > maxPackageLines {
			t.Errorf("%s has %d lines, more than %d", p.ImportPath, lines, maxPackageLines)
		}
		if knot := largestKnot(uses); len(knot) > maxKnotFiles {
			t.Errorf("%s: %d files use each other in circles, more than %d: %s",
				p.ImportPath, len(knot), maxKnotFiles, strings.Join(knot, " "))
		}
	}
}

// listPackages returns our packages and all that they import, with the files
// that hold their compiled declarations.
func listPackages(t *testing.T) []goPackage {
	t.Helper()
	list := exec.Command("go", "list", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles,Standard", "./...")
	list.Dir = filepath.Join("..", "..")
	var stderr bytes.Buffer
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, stderr.String())
	}
	var packages []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

// readPackage counts the lines of a package and tells which of its files use
// names that others of them declare.
func readPackage(t *testing.T, fset *token.FileSet, imports types.Importer, p goPackage) (lines int, uses map[string][]string) {
	t.Helper()
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		lines += fset.File(f.Pos()).LineCount()
		files = append(files, f)
	}
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: imports, FakeImportC: true}
	pkg, err := config.Check(p.ImportPath, fset, files, &info)
	if err != nil {
		t.Fatalf("%s: %v", p.ImportPath, err)
	}
	uses = map[string][]string{}
	for name, object := range info.Uses {
		if object.Pkg() != pkg || !object.Pos().IsValid() || !shared(object) {
			continue
		}
		from := filepath.Base(fset.Position(name.Pos()).Filename)
		to := filepath.Base(fset.Position(object.Pos()).Filename)
		if from != to && !slices.Contains(uses[from], to) {
			uses[from] = append(uses[from], to)
		}
	}
	return lines, uses
}

// shared reports whether another file could name the object: it is declared in
// the package, or is a field or a method.
func shared(object types.Object) bool {
	if v, ok := object.(*types.Var); ok && v.IsField() {
		return true
	}
	if _, ok := object.(*types.Func); ok {
		return true
	}
	return object.Parent() == object.Pkg().Scope()
}

// largestKnot returns the largest set of names each of which leads to each
// other, by Tarjan's algorithm; nil when there is no circle.
func largestKnot(uses map[string][]string) []string {
	number, low := map[string]int{}, map[string]int{}
	var stack, largest []string
	var visit func(name string)
	visit = func(name string) {
		number[name] = len(number) + 1
		low[name] = number[name]
		stack = append(stack, name)
		for _, next := range uses[name] {
			if number[next] == 0 {
				visit(next)
				low[name] = min(low[name], low[next])
			} else if slices.Contains(stack, next) {
				low[name] = min(low[name], number[next])
			}
		}
		if low[name] < number[name] {
			return
		}
		at := slices.Index(stack, name)
		if knot := slices.Clone(stack[at:]); len(knot) > max(1, len(largest)) {
			slices.Sort(knot)
			largest = knot
		}
		stack = stack[:at]
	}
	for name := range uses {
		if number[name] == 0 {
			visit(name)
		}
	}
	return largest
}

// TestLargestKnot asks for the largest of several circles.
func TestLargestKnot(t *testing.T) {
	for _, c := range []struct {
		uses map[string][]string
		want string
	}{
		{map[string][]string{"a": {"b"}, "b": {"c"}}, "[]"},
		{map[string][]string{"a": {"b"}, "b": {"a"}, "c": {"d"}, "d": {"e"}, "e": {"c", "a"}}, "[c d e]"},
		{map[string][]string{"a": {"b", "c"}, "b": {"a"}, "c": {"a"}}, "[a b c]"},
	} {
		if got := fmt.Sprint(largestKnot(c.uses)); got != c.want {
			t.Errorf("largestKnot(%v) = %s, want %s", c.uses, got, c.want)
		}
	}
}
