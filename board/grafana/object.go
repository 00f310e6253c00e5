package grafana

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// object is a value of JSON with members. Dashboards differ by the versions of Grafana, so they are
// read member by member.
type object map[string]any

// child returns the object at a path, or an empty one.
func (o object) child(path ...string) object {
	for _, name := range path {
		next, _ := o[name].(map[string]any)
		o = next
	}
	return o
}

// text returns a member as text. Numbers are texts as well.
func (o object) text(name string) string {
	switch v := o[name].(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return ""
}

// whole returns a member as a whole number.
func (o object) whole(name string, otherwise int) int {
	if n, err := strconv.ParseFloat(strings.TrimSuffix(o.text(name), "px"), 64); err == nil && n >= -1e6 && n <= 1e6 {
		return int(n)
	}
	return otherwise
}

// is reports whether a member is true.
func (o object) is(name string) bool { return o[name] == true }

// list returns the objects of a member.
func (o object) list(name string) (out []object) {
	all, _ := o[name].([]any)
	for _, v := range all {
		if m, ok := v.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// texts returns the texts of a member that is a text or a list.
func (o object) texts(name string) (out []string) {
	all, ok := o[name].([]any)
	if !ok {
		all = []any{o[name]}
	}
	for _, v := range all {
		switch v := v.(type) {
		case string:
			out = append(out, v)
		case json.Number, bool:
			out = append(out, fmt.Sprint(v))
		}
	}
	return out
}

// others returns the names of members that say something and are not known. known has names behind spaces.
func (o object) others(known string) (out []string) {
	names := strings.Fields(known)
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if !slices.Contains(names, name) && says(o[name]) {
			out = append(out, name)
		}
	}
	return out
}

// says reports whether a value is neither empty nor false.
func says(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case json.Number:
		return v != "0"
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	return true
}
