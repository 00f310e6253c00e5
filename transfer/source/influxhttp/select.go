package influxhttp

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tsdbd/exchange"
	"tsdbd/lineproto"
	"tsdbd/lineproto/wire"
	"tsdbd/model"
	"tsdbd/transfer/mover"
)

// measurement is a measurement of a retention policy at the source.
type measurement struct {
	place
	name   string
	fields []field
	groups time.Duration // of the shard groups of the policy
	mixed  bool          // a field has several types
	hidden int64         // rows before come only with queries that name no times; 0: none do
}

// String returns the name for messages.
func (m *measurement) String() string { return fmt.Sprintf("%s.%s.%s", m.database, m.policy, m.name) }

// measurements asks for the measurements of a policy with their fields.
func (s *Server) measurements(ctx context.Context, p place) (all []*measurement, err error) {
	q := "SHOW FIELD KEYS"
	if s.kind != influx2 && s.kind != influx3 { // these have one policy in a request
		q += " FROM " + exchange.QuoteIdent(p.policy) + "./.*/"
	}
	tables, err := s.askNames(ctx, p, q)
	if err != nil {
		return nil, fmt.Errorf("list the measurements of %s.%s: %w", p.database, p.policy, err)
	}
	for i := range tables {
		t := &tables[i]
		if i+1 < len(tables) && t.Name == tables[i+1].Name { // InfluxDB 3.x may cut it
			tables[i+1].Values = append(t.Values, tables[i+1].Values...)
			continue
		}
		if m := newMeasurement(p, t); len(m.fields) > 0 {
			all = append(all, m)
		}
	}
	return all, nil
}

// newMeasurement returns the measurement that a table of fields is about.
func newMeasurement(p place, t *exchange.Table) *measurement {
	types := map[string]map[model.FieldType]bool{}
	for _, row := range t.Values {
		key := t.Text(row, "fieldKey")
		if key == "time" {
			continue // no server stores it
		}
		if types[key] == nil {
			types[key] = map[model.FieldType]bool{}
		}
		for f := model.Float; f.Valid(); f++ {
			if f.String() == t.Text(row, "fieldType") {
				types[key][f] = true
			}
		}
	}
	m := &measurement{place: p, name: t.Name}
	for _, key := range slices.Sorted(maps.Keys(types)) {
		f := field{key: key, cast: "field", prefix: wire.FieldPrefix(key)}
		if reason := model.UnstorableField(key); reason != "" {
			f.refused = fmt.Sprintf("field %q of %q %s", key, m.name, reason)
		}
		for _, as := range []model.FieldType{model.Float, model.Integer, model.Unsigned} {
			if types[key][as] {
				f.as = as
				break
			}
		}
		m.fields = append(m.fields, f)
		if len(types[key]) < 2 {
			continue
		}
		// One shard has one type. Where a slice has several shards, the plain field has
		// numbers only.
		m.mixed = true
		for _, t := range []model.FieldType{model.String, model.Boolean} {
			if types[key][t] {
				f.cast = t.String()
				m.fields = append(m.fields, f)
			}
		}
	}
	return m
}

// where returns the clause of a query for times.
func where(r model.TimeRange) string {
	var conditions []string
	if r.Min > model.AllTime.Min {
		conditions = append(conditions, fmt.Sprintf("time >= %d", r.Min))
	}
	if r.Max < model.AllTime.Max {
		conditions = append(conditions, fmt.Sprintf("time <= %d", r.Max))
	}
	if len(conditions) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(conditions, " AND ")
}

// selection returns the query for the rows of a slice.
func (s *Server) selection(m *measurement, r model.TimeRange) string {
	columns := make([]string, len(m.fields))
	for i, f := range m.fields {
		columns[i] = exchange.QuoteIdent(f.key) + "::" + f.cast
	}
	if m.hidden != 0 && r.Min < m.hidden {
		r = model.AllTime // lines leaves the other rows out
	}
	return fmt.Sprintf("SELECT %s FROM %s%s GROUP BY *", strings.Join(columns, ", "), s.source(m.place, m.name), where(r))
}

// chunkValues is about how many values a server collects for a chunk of its answer.
const chunkValues = 50_000

// copied is what copy has read.
type copied struct {
	rows, values int64
	refused      int64 // rows that cannot be line protocol, in part or as a whole
	newest       int64 // of the rows' times
}

// copy passes on the rows of a slice as line protocol.
func (s *Server) copy(ctx context.Context, m *measurement, r model.TimeRange, to mover.Lines) (copied, error) {
	if s.kind == tsdbd {
		return s.export(ctx, m, r, to)
	}
	accept := "application/json"
	if s.kind == influx1 || s.kind == influx2 {
		accept = "application/x-msgpack"
	}
	chunk := min(max(chunkValues/len(m.fields), 100), 10_000)
	resp, err := s.do(ctx, m.place, s.selection(m, r), accept, url.Values{"chunked": {"true"}, "chunk_size": {strconv.Itoa(chunk)}})
	if err != nil {
		return copied{}, err
	}
	defer resp.Body.Close()
	l := newLines(to, m, r)
	err = readAnswer(formOf(resp, resp.Body), l)
	return l.copied, err
}

// export has tsdbd write the rows as line protocol itself: InfluxQL has no infinities
// and no histograms in JSON.
func (s *Server) export(ctx context.Context, m *measurement, r model.TimeRange, to mover.Lines) (copied, error) {
	e := &exported{to: to, of: m, copied: copied{newest: model.AllTime.Min}}
	_, err := s.client.Export(ctx, e, exchange.ExportOptions{LinesOnly: true, Filter: exchange.Filter{
		Database: m.database, RetentionPolicy: m.policy, Range: r,
		Measurements: []string{strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(m.name)},
	}})
	e.values = e.rows * int64(len(m.fields))
	return e.copied, err
}

// exported passes on the lines of an export.
type exported struct {
	to   mover.Lines
	of   *measurement
	line lineproto.Line // that is not complete
	text []byte
	copied
}

// Write implements io.Writer.
func (e *exported) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		n, ended := e.line.End(rest)
		e.text, rest = append(e.text, rest[:n]...), rest[n:]
		if !ended {
			break
		}
		line := bytes.TrimSuffix(e.text, []byte{'\n'})
		if at, err := strconv.ParseInt(string(line[bytes.LastIndexByte(line, ' ')+1:]), 10, 64); err == nil {
			e.rows, e.newest = e.rows+1, max(e.newest, at)
		}
		if err := e.to.Put(&mover.Line{Database: e.of.database, Policy: e.of.policy, Text: line}); err != nil {
			return 0, err
		}
		e.text, e.line = e.text[:0], lineproto.Line{}
	}
	return len(b), nil
}
