package config

import (
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Setting is one key of the configuration.
type Setting struct {
	Section string // with -0, -1 and so on behind the name of a list
	Name    string
	Key     string // section.name, without a number
	Env     string
	Reload  bool // a reload applies a change
	Value   reflect.Value
}

// Settings returns all keys in the order of the structs, those of lists as often
// as the list is long. The values are c's.
func (c *Config) Settings() []Setting {
	var all []Setting
	variable := strings.NewReplacer("-", "_", ".", "_")
	add := func(section, index string, v reflect.Value) {
		for _, f := range reflect.VisibleFields(v.Type()) {
			if f.Anonymous {
				continue // its fields come by themselves
			}
			name := keyOf(f)
			all = append(all, Setting{
				Section: section + index, Name: name, Key: section + "." + name,
				Env:    envPrefix + strings.ToUpper(variable.Replace(section+index+"."+name)),
				Reload: reloads(f), Value: v.FieldByIndex(f.Index),
			})
		}
	}
	for name, v := range c.sections() {
		if v.Kind() != reflect.Slice {
			add(name, "", v)
			continue
		}
		for i := range v.Len() {
			add(name, fmt.Sprintf("-%d", i), v.Index(i))
		}
	}
	return all
}

// keyOf returns a field's key in the file.
func keyOf(f reflect.StructField) string { return strings.TrimSuffix(f.Tag.Get("toml"), ",omitempty") }

// sections yields the sections and lists of sections by name.
func (c *Config) sections() iter.Seq2[string, reflect.Value] {
	return func(yield func(string, reflect.Value) bool) {
		v := reflect.ValueOf(c).Elem()
		for i := range v.NumField() {
			if !yield(keyOf(v.Type().Field(i)), v.Field(i)) {
				return
			}
		}
	}
}

// reloads reports whether a reload applies a change of a field.
func reloads(f reflect.StructField) bool { return f.Tag.Get("reload") != "" }

// growLists makes room for the elements that the environment names: a list
// grows by one while there is a variable of its next element.
func (c *Config) growLists(env map[string]string) {
	for name, v := range c.sections() {
		if v.Kind() != reflect.Slice {
			continue
		}
		names := func(n int) bool {
			prefix := fmt.Sprintf("%s%s_%d_", envPrefix, strings.ToUpper(name), n)
			for k := range env {
				if strings.HasPrefix(k, prefix) {
					return true
				}
			}
			return false
		}
		for names(v.Len()) {
			v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
		}
	}
}

// Change is a key whose value differs between two configurations.
type Change struct {
	Key     string // of a list of sections its name
	Was, Is any
	Applied bool // or it needs a restart
}

// Update applies to c the changes of next that need no restart, and returns all
// changes.
func (c *Config) Update(next *Config) (changes []Change) {
	update := func(key string, v, w reflect.Value, apply bool) {
		empty := v.Kind() == reflect.Slice && v.Len()+w.Len() == 0 // one may be nil
		if empty || reflect.DeepEqual(v.Interface(), w.Interface()) {
			return
		}
		changes = append(changes, Change{key, v.Interface(), w.Interface(), apply})
		if apply {
			v.Set(w)
		}
	}
	sections := maps.Collect(next.sections())
	for name, v := range c.sections() {
		w := sections[name]
		if v.Kind() == reflect.Slice {
			update(name, v, w, false)
			continue
		}
		for i := range v.NumField() {
			f := v.Type().Field(i)
			update(name+"."+keyOf(f), v.Field(i), w.Field(i), reloads(f))
		}
	}
	return changes
}

// unknownKey words the error of a key that means nothing, with the known one
// that is nearest if one is near.
func unknownKey(key string, known []string) error {
	best := nearest(key, known, len(key)/3+1)
	if best == "" {
		// The right key in the wrong section is as common as a slip.
		_, name, _ := strings.Cut(key, ".")
		if i := slices.IndexFunc(known, func(k string) bool { return name != "" && strings.HasSuffix(k, "."+name) }); i >= 0 {
			best = known[i]
		}
	}
	if best == "" {
		return fmt.Errorf("unknown key %s", key)
	}
	return fmt.Errorf("unknown key %s, did you mean %s?", key, best)
}

// nearest returns the word that is nearest to another, "" if none is nearer
// than so many edits.
func nearest(word string, known []string, edits int) (best string) {
	for _, k := range known {
		if d := editDistance(word, k); d < edits {
			best, edits = k, d
		}
	}
	return best
}

// editDistance counts the insertions, deletions and replacements of bytes that
// make b of a.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
