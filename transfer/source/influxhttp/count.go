package influxhttp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"tsdbd/exchange"
	"tsdbd/model"
	"tsdbd/transfer/compare"
	"tsdbd/transfer/mover"
)

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// counts counts the values of windows, by the names of the columns of count(*).
func (s *Server) counts(ctx context.Context, m *measurement, r model.TimeRange, window time.Duration) (map[int64]map[string]int64, error) {
	tables, err := s.ask(ctx, m.place, fmt.Sprintf("SELECT count(*) FROM %s%s GROUP BY time(%dms)", s.source(m.place, m.name), where(r), window.Milliseconds()))
	if err != nil {
		return nil, err
	}
	out := map[int64]map[string]int64{}
	for _, t := range tables {
		for _, row := range t.Values {
			at := value{kind: number, text: fmt.Append(nil, t.At(row, "time"))}
			start, err := at.time()
			if err != nil {
				return nil, fmt.Errorf("%w: %w", errForm, err)
			}
			counts := map[string]int64{}
			for i, v := range row {
				if n, ok := v.(json.Number); ok && i < len(t.Columns) && t.Columns[i] != "time" {
					count, err := n.Float64()
					if err != nil || count < 0 || count > math.MaxInt64/2 {
						return nil, fmt.Errorf("%w: a count of %s", errForm, n)
					}
					counts[t.Columns[i]] = int64(count)
				}
			}
			out[start] = counts
		}
	}
	return out, nil
}

// Found is a measurement that Survey has found.
type Found struct {
	Database, Policy, Measurement string
	Fields                        int
	Values                        int64
}

// asker asks a server for a comparison, as long as it may recover.
type asker struct {
	*Source
	server *Server
}

// Tables implements compare.Server.
func (a asker) Tables(ctx context.Context, database, q string) ([]exchange.Table, error) {
	var syntax *json.SyntaxError // of a sum that is infinite
	var final error
	tables, err := retry(ctx, a.Source, func() ([]exchange.Table, error) {
		tables, err := a.server.ask(ctx, place{database: database}, q)
		if errors.As(err, &syntax) {
			final, err = err, nil
		}
		return tables, err
	})
	return tables, cmp.Or(err, final)
}

// TooLarge implements compare.Halver.
func (a asker) TooLarge(err error) bool { return judge(err) == split }

// Survey counts what there is, without a change. took estimates how long reading it
// takes, by a sample of the largest measurement. It is 0 if there is nothing.
func (s *Source) Survey(ctx context.Context) (found []Found, took time.Duration, err error) {
	all, err := s.measurements(ctx, s.catalog)
	if err != nil {
		return nil, 0, err
	}
	var largest *measurement
	var most int64
	var counts compare.Totals
	for i, m := range all {
		if i == 0 || m.place != all[i-1].place {
			if counts, err = s.totals(ctx, m.place, s.opt.Filter.Times(), s.opt.Filter.Wanted()); err != nil {
				return nil, 0, explain(err)
			}
		}
		of := counts[compare.Name{Database: m.database, Policy: m.policy, Measurement: m.name}]
		if of == nil {
			continue
		}
		n := of.Values()
		found = append(found, Found{m.database, m.policy, m.name, len(m.fields), n})
		if n > most {
			largest, most = m, n
		}
	}
	if largest == nil {
		return nil, 0, nil
	}
	rate, err := s.sample(ctx, largest)
	if err != nil || rate <= 0 {
		return found, 0, err
	}
	total := int64(0)
	for _, f := range found {
		total += f.Values
	}
	return found, time.Duration(float64(total) / rate * float64(time.Second)), nil
}

// sampleTime is how long Survey reads to learn the rate of the source.
const sampleTime = 2 * time.Second

// sample returns how many values of a measurement the server gives in a second.
func (s *Source) sample(ctx context.Context, m *measurement) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, sampleTime)
	defer cancel()
	began := time.Now()
	c, err := s.server.copy(ctx, m, s.opt.Filter.Times(), discard{})
	if err != nil && ctx.Err() == nil {
		return 0, fmt.Errorf("read %s: %w", m, err)
	}
	return float64(c.values) / time.Since(began).Seconds(), nil
}

// discard is mover.Lines that keeps nothing.
type discard struct{ mover.Lines }

// Put implements mover.Lines.
func (discard) Put(*mover.Line) error { return nil }

// Refuse implements mover.Lines.
func (discard) Refuse(string, *mover.Line) error { return nil }

// Compare counts what both servers have of the policies of the catalog. It counts without
// bounds of time where nothing sets them, so that rows are missed that a bound hides. While
// writers write, both differ by the rows of the present. So where there are such rows and a
// difference, it counts what is before the present.
func (s *Source) Compare(ctx context.Context) (source, target compare.Totals, err error) {
	source, target = compare.Totals{}, compare.Totals{}
	wanted := s.opt.Filter.Wanted()
	for _, d := range s.catalog.Data.Databases {
		for _, rp := range d.RetentionPolicies {
			if !s.opt.Filter.WantsPolicy(d, rp) {
				continue
			}
			at := place{d.Name, rp.Name}
			times, err := s.kept(ctx, at)
			if err != nil {
				return nil, nil, err
			}
			there, here, err := s.both(ctx, at, times, wanted)
			if err != nil {
				return nil, nil, err
			}
			if present := s.began.UnixNano(); s.newest.Load() >= present && times.Max >= present && len(compare.Differences(there, here)) > 0 {
				if there, here, err = s.before(ctx, at, times, present, there, wanted); err != nil {
					return nil, nil, err
				}
			}
			maps.Copy(source, there)
			maps.Copy(target, here)
		}
	}
	return source, target, nil
}

// before counts what both servers have before the present. Values that are among all of the
// source, and neither before the present nor after it, count as well: no bound reaches them.
func (s *Source) before(ctx context.Context, at place, times model.TimeRange, present int64, all compare.Totals, wanted func(string) bool) (there, here compare.Totals, err error) {
	if there, here, err = s.both(ctx, at, model.TimeRange{Min: times.Min, Max: present - 1}, wanted); err != nil {
		return nil, nil, err
	}
	// Rows that writers have written since all was counted are after the present.
	after, err := s.totals(ctx, at, model.TimeRange{Min: present, Max: times.Max}, wanted)
	if err != nil {
		return nil, nil, err
	}
	for name, m := range all {
		for key, f := range m.Fields {
			if hidden := f.Count - after.Count(name, key) - there.Count(name, key); hidden > 0 {
				there.Of(name).Fields[key] = &compare.Field{Count: there.Count(name, key) + hidden} // their sum is not known
			}
		}
	}
	return there, here, nil
}

// both counts what both servers have of a policy.
func (s *Source) both(ctx context.Context, at place, times model.TimeRange, wanted func(string) bool) (there, here compare.Totals, err error) {
	if there, err = s.totals(ctx, at, times, wanted); err != nil {
		return nil, nil, err
	}
	if here, err = compare.Ask(ctx, asker{s, s.target}, at.database, at.policy, times, wanted); err != nil {
		return nil, nil, fmt.Errorf("ask the new server: %w", err)
	}
	return there, here, nil
}

// totals counts what the source has of a policy, by the names that the target has.
func (s *Source) totals(ctx context.Context, at place, times model.TimeRange, wanted func(string) bool) (compare.Totals, error) {
	all, err := compare.Ask(ctx, asker{s, s.server}, s.server.database(at), s.server.policy(at), times, wanted)
	if err != nil {
		return nil, fmt.Errorf("ask the old server: %w", err)
	}
	out := compare.Totals{}
	for n, m := range all {
		if !s.server.countsSeries() {
			m.Series = -1
		}
		out[compare.Name{Database: at.database, Policy: at.policy, Measurement: n.Measurement}] = m
	}
	return out, nil
}
