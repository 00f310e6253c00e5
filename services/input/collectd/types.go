package collectd

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Types are the names of the values of each type.
type Types map[string][]string

// ReadTypes reads a types.db, or all files of a directory and of the directories below
// it. If a type occurs twice, the last one wins. A file of a directory that is not a
// types.db is skipped; ReadTypes calls skipped with the reason.
func ReadTypes(root string, skipped func(error)) (Types, error) {
	t := Types{}
	single := true
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			single = false
			return err
		}
		types, err := readFile(path)
		if err != nil {
			err = fmt.Errorf("%s: %w", path, err)
			if single {
				return err
			}
			skipped(err)
			return nil
		}
		maps.Copy(t, types)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read types.db: %w", err)
	}
	return t, nil
}

func readFile(path string) (Types, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t := Types{}
	return t, t.read(f)
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
				return fmt.Errorf("line %d: %+.40q is not name:kind:min:max", n, w)
			}
			if slices.Contains(names, part[0]) {
				return fmt.Errorf("line %d: %q occurs twice", n, part[0])
			}
			names = append(names, part[0])
		}
		t[words[0]] = names
	}
	return s.Err()
}
