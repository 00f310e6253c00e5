package influxhttp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"tsdbd/model"
	"tsdbd/transfer/compare"
	"tsdbd/transfer/mover"
)

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// counts counts the values of windows, by the names of the columns of count(*). With a
// window of 0 all of r is one window.
func (s *Server) counts(ctx context.Context, m *measurement, r model.TimeRange, window time.Duration) (map[int64]map[string]int64, error) {
	q := fmt.Sprintf("SELECT count(*) FROM %s%s", s.source(m.place, m.name), where(r))
	if window > 0 {
		q += fmt.Sprintf(" GROUP BY time(%dms)", window.Milliseconds())
	}
	tables, err := s.ask(ctx, m.place, q)
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

// Survey counts what there is, without a change. took estimates how long reading it
// takes, by a sample of the largest measurement. It is 0 if there is nothing. progress gets the
// share that is counted.
func (s *Source) Survey(ctx context.Context, progress func(share float64)) (found []Found, took time.Duration, err error) {
	var largest *measurement
	var most, total int64
	all, err := s.measurements(ctx, s.catalog)
	if err != nil {
		return nil, 0, err
	}
	for i, m := range all {
		n, err := s.count(ctx, m, s.opt.Filter.Times())
		if err != nil {
			return nil, 0, explain(fmt.Errorf("count %s: %w", m, err))
		}
		if n > 0 {
			found = append(found, Found{m.database, m.policy, m.name, len(m.fields), n})
		}
		if n > most {
			largest, most = m, n
		}
		total += n
		progress(float64(i+1) / float64(len(all)))
	}
	if largest == nil {
		return found, 0, nil
	}
	rate, err := s.sample(ctx, largest)
	if err != nil || rate <= 0 {
		return found, 0, err
	}
	return found, time.Duration(float64(total) / rate * float64(time.Second)), nil
}

// count counts the values of a measurement, by halves if the server cannot otherwise.
func (s *Source) count(ctx context.Context, m *measurement, r model.TimeRange) (n int64, err error) {
	windows, err := retry(ctx, s, func() (map[int64]map[string]int64, error) { return s.server.counts(ctx, m, r, 0) })
	if err != nil {
		if length := r.Max - r.Min; judge(err) != split || length >= 0 && length < 2*shortest {
			return 0, err
		}
		early, late := halves(r)
		before, err := s.count(ctx, m, early)
		if err != nil {
			return 0, err
		}
		after, err := s.count(ctx, m, late)
		return before + after, err
	}
	for _, counts := range windows {
		n += total(counts)
	}
	return n, nil
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
	if here, err = compare.Ask(ctx, s.target.client, at.database, at.policy, times, wanted); err != nil {
		return nil, nil, fmt.Errorf("ask the new server: %w", err)
	}
	return there, here, nil
}

// totals counts what the source has of a policy, by the names that the target has.
func (s *Source) totals(ctx context.Context, at place, times model.TimeRange, wanted func(string) bool) (compare.Totals, error) {
	all, err := compare.Ask(ctx, s.server, s.server.database(at), s.server.policy(at), times, wanted)
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
