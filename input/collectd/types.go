package collectd

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Types are the names of the values of each type.
type Types map[string][]string

// ReadTypes reads a types.db, or all the files of a directory and of those below
// it. A type that stands twice has the names read last.
func ReadTypes(path string) (Types, error) {
	t := Types{}
	err := filepath.WalkDir(path, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := t.read(f); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read types.db: %w", err)
	}
	return t, nil
}

// read reads lines "type name:KIND:min:max, name:KIND:min:max".
func (t Types) read(r io.Reader) error {
	s := bufio.NewScanner(r)
	for n := 1; s.Scan(); n++ {
		line := strings.TrimSpace(s.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		words := strings.FieldsFunc(line, func(c rune) bool { return c == ' ' || c == '\t' || c == ',' })
		if len(words) < 2 {
			return fmt.Errorf("line %d: a type without values", n)
		}
		var names []string
		for _, w := range words[1:] {
			part := strings.Split(w, ":")
			if len(part) != 4 || part[0] == "" {
				return fmt.Errorf("line %d: %q is not name:kind:min:max", n, w)
			}
			if slices.Contains(names, part[0]) {
				return fmt.Errorf("line %d: %q stands twice", n, part[0])
			}
			names = append(names, part[0])
		}
		t[words[0]] = names
	}
	return s.Err()
}
