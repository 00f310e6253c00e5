package main

import (
	"encoding"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"sync/atomic"

	"tsdbd/query"
)

// diagnosticSections are InfluxDB's names of the sections that it has as well.
var diagnosticSections = map[string]string{
	"http": "httpd", "query": "coordinator", "continuous_queries": "cqs",
}

// settingsInForce is the configuration as SHOW DIAGNOSTICS tells it: what
// changes it sets it anew.
type settingsInForce struct {
	tables atomic.Pointer[[]query.Diagnostic]
}

func (s *settingsInForce) set(c *config) {
	tables := configDiagnostics(c)
	s.tables.Store(&tables)
}

// configDiagnostics returns a table config-SECTION of one row for each section,
// secrets hidden, and the machine's name as network.
func configDiagnostics(c *config) []query.Diagnostic {
	hostname, err := os.Hostname()
	if err != nil {
		hostname = "unknown"
	}
	out := []query.Diagnostic{{Name: "network", Columns: []string{"hostname"}, Values: []any{hostname}}}
	for name, v := range c.sections() {
		if other, ok := diagnosticSections[name]; ok {
			name = other
		}
		if v.Kind() != reflect.Slice {
			out = append(out, configDiagnostic("config-"+name, v))
			continue
		}
		for i := range v.Len() {
			out = append(out, configDiagnostic("config-"+name+"-"+strconv.Itoa(i), v.Index(i)))
		}
	}
	return out
}

func configDiagnostic(name string, section reflect.Value) query.Diagnostic {
	values := map[string]any{}
	for _, f := range reflect.VisibleFields(section.Type()) {
		if f.Anonymous {
			continue
		}
		key := keyOf(f)
		switch v := section.FieldByIndex(f.Index).Interface().(type) {
		case encoding.TextMarshaler:
			text, err := v.MarshalText()
			if err != nil {
				text = []byte(err.Error())
			}
			values[key] = string(text)
		case bool:
			values[key] = v
		case int:
			values[key] = int64(v)
		default:
			values[key] = fmt.Sprint(v)
		}
	}
	d := query.Diagnostic{Name: name, Columns: slices.Sorted(maps.Keys(values))}
	for _, key := range d.Columns {
		d.Values = append(d.Values, values[key])
	}
	return d
}
