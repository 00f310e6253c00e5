package server

import (
	"cmp"
	"encoding"
	"fmt"
	"os"
	"slices"
	"strings"

	"tsdbd/config"
	"tsdbd/query/show"
)

// diagnosticSections are InfluxDB's names of the sections that it has as well.
var diagnosticSections = map[string]string{
	"http": "httpd", "query": "coordinator", "continuous_queries": "cqs",
}

// showConfig has SHOW DIAGNOSTICS show the configuration in force.
func (s *Server) showConfig() {
	tables := configDiagnostics(s.config)
	s.diagnostics.Store(&tables)
}

// configDiagnostics returns a table config-SECTION of one row for each section,
// secrets hidden, and the machine's name as network.
func configDiagnostics(c *config.Config) []show.Diagnostic {
	hostname, err := os.Hostname()
	if err != nil {
		hostname = "unknown"
	}
	out := []show.Diagnostic{{Name: "network", Columns: []string{"hostname"}, Values: []any{hostname}}}
	all := c.Settings()
	for len(all) > 0 {
		name := all[0].Section
		n := slices.IndexFunc(all, func(s config.Setting) bool { return s.Section != name })
		if n < 0 {
			n = len(all)
		}
		out, all = append(out, configDiagnostic(name, all[:n])), all[n:]
	}
	return out
}

// configDiagnostic returns the table of a section.
func configDiagnostic(section string, settings []config.Setting) show.Diagnostic {
	slices.SortFunc(settings, func(a, b config.Setting) int { return strings.Compare(a.Name, b.Name) })
	d := show.Diagnostic{Name: "config-" + cmp.Or(diagnosticSections[section], section)}
	for _, s := range settings {
		d.Columns = append(d.Columns, s.Name)
		switch v := s.Value.Interface().(type) {
		case encoding.TextMarshaler:
			text, err := v.MarshalText()
			if err != nil {
				text = []byte(err.Error())
			}
			d.Values = append(d.Values, string(text))
		case bool:
			d.Values = append(d.Values, v)
		case int:
			d.Values = append(d.Values, int64(v))
		default:
			d.Values = append(d.Values, fmt.Sprint(v))
		}
	}
	return d
}
