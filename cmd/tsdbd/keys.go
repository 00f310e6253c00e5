package main

import (
	"fmt"
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

// settings returns all keys in the order of the structs. The values are c's.
func (c *config) settings() []setting {
	var all []setting
	sections := reflect.ValueOf(c).Elem()
	for i := range sections.NumField() {
		section := sections.Field(i)
		for j := range section.NumField() {
			s, f := sections.Type().Field(i), section.Type().Field(j)
			all = append(all, setting{
				key: s.Tag.Get("toml") + "." + f.Tag.Get("toml"), env: envName(s, f), value: section.Field(j),
			})
		}
	}
	return all
}

// changed returns the keys whose values differ between two configurations.
func changed(a, b *config) []string {
	var keys []string
	other := b.settings()
	for i, s := range a.settings() {
		if !s.value.Equal(other[i].value) {
			keys = append(keys, s.key)
		}
	}
	return keys
}

// unknownKey words the error of a key that means nothing, with the known one
// that is nearest if one is near.
func unknownKey(key string, known []string) error {
	best, distance := "", len(key)/3+1
	for _, k := range known {
		if d := editDistance(key, k); d < distance {
			best, distance = k, d
		}
	}
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
