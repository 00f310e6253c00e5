package main

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
)

// setting is one key of the configuration.
type setting struct {
	key   string // section.key
	env   string
	value reflect.Value
}

// settings returns all keys in the order of the structs, those of lists as often
// as the list is long. The values are c's.
func (c *config) settings() []setting {
	var all []setting
	add := func(section string, v reflect.Value, index string) {
		for _, f := range reflect.VisibleFields(v.Type()) {
			if f.Anonymous {
				continue // its fields come by themselves
			}
			name := section + index + "_" + keyOf(f)
			all = append(all, setting{
				key: section + "." + keyOf(f), env: envPrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_")),
				value: v.FieldByIndex(f.Index),
			})
		}
	}
	for name, v := range c.sections() {
		if v.Kind() != reflect.Slice {
			add(name, v, "")
			continue
		}
		for i := range v.Len() {
			add(name, v.Index(i), fmt.Sprintf("_%d", i))
		}
	}
	return all
}

// keyOf returns a field's key in the file.
func keyOf(f reflect.StructField) string { return strings.TrimSuffix(f.Tag.Get("toml"), ",omitempty") }

// sections yields the sections and lists of sections by name.
func (c *config) sections() iter.Seq2[string, reflect.Value] {
	return func(yield func(string, reflect.Value) bool) {
		v := reflect.ValueOf(c).Elem()
		for i := range v.NumField() {
			if !yield(keyOf(v.Type().Field(i)), v.Field(i)) {
				return
			}
		}
	}
}

// value returns the setting of a key that is in no list.
func (c *config) value(key string) reflect.Value {
	for _, s := range c.settings() {
		if s.key == key {
			return s.value
		}
	}
	panic("no key " + key)
}

// growLists makes room for the elements that the environment names: a list
// grows by one while there is a variable of its next element.
func (c *config) growLists(env map[string]string) {
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

// changed returns the keys whose values differ between two configurations;
// lists are compared as a whole.
func changed(a, b *config) []string {
	var keys []string
	other := map[string]reflect.Value{}
	for name, v := range b.sections() {
		other[name] = v
	}
	for name, v := range a.sections() {
		w := other[name]
		if v.Kind() == reflect.Slice {
			if v.Len()+w.Len() > 0 && !reflect.DeepEqual(v.Interface(), w.Interface()) {
				keys = append(keys, name)
			}
			continue
		}
		for i := range v.NumField() {
			if !reflect.DeepEqual(v.Field(i).Interface(), w.Field(i).Interface()) {
				keys = append(keys, name+"."+keyOf(v.Type().Field(i)))
			}
		}
	}
	return keys
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
