package influxhttp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/transfer/compare"
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
// takes, by a sample of the largest measurement. It is 0 if there is nothing.
func (p *Pull) Survey(ctx context.Context, c *Catalog) (found []Found, took time.Duration, err error) {
	var largest *measurement
	var most, total int64
	err = p.places(ctx, c, func(d *meta.Database, rp *meta.RetentionPolicy, names []string) error {
		for _, name := range names {
			m, err := retry(ctx, p, func() (*measurement, error) { return p.source.measurement(ctx, place{d.Name, rp.Name}, name) })
			if err != nil {
				return err
			}
			var n int64
			if len(m.fields) > 0 {
				if n, err = p.count(ctx, m, p.opt.Filter.Times()); err != nil {
					return fmt.Errorf("count %s: %w", m, err)
				}
			}
			if n > 0 {
				found = append(found, Found{d.Name, rp.Name, name, len(m.fields), n})
			}
			if n > most {
				largest, most = m, n
			}
			total += n
			p.add(func(s *Stats) { s.Done += whole })
		}
		return nil
	})
	if err != nil || largest == nil {
		return found, 0, err
	}
	rate, err := p.sample(ctx, largest)
	if err != nil || rate <= 0 {
		return found, 0, err
	}
	return found, time.Duration(float64(total) / rate * float64(time.Second)), nil
}

// count counts the values of a measurement, by halves if the server cannot otherwise.
func (p *Pull) count(ctx context.Context, m *measurement, r model.TimeRange) (n int64, err error) {
	windows, err := retry(ctx, p, func() (map[int64]map[string]int64, error) { return p.source.counts(ctx, m, r, 0) })
	if err != nil {
		if length := r.Max - r.Min; judge(err) != split || length >= 0 && length < 2*shortest {
			return 0, err
		}
		middle := r.Min + int64(uint64(r.Max-r.Min)/2)
		left, err := p.count(ctx, m, model.TimeRange{Min: r.Min, Max: middle})
		if err != nil {
			return 0, err
		}
		right, err := p.count(ctx, m, model.TimeRange{Min: middle + 1, Max: r.Max})
		return left + right, err
	}
	for _, counts := range windows {
		for _, c := range counts {
			n += c
		}
	}
	return n, nil
}

// sampleTime is how long Survey reads to learn the rate of the source.
const sampleTime = 2 * time.Second

// sample returns how many values of a measurement the source gives in a second.
func (p *Pull) sample(ctx context.Context, m *measurement) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, sampleTime)
	defer cancel()
	began := time.Now()
	c, err := p.source.copy(ctx, m, p.opt.Filter.Times(), io.Discard, io.Discard)
	if err != nil && ctx.Err() == nil {
		return 0, fmt.Errorf("read %s: %w", m, err)
	}
	return float64(c.values) / time.Since(began).Seconds(), nil
}

// Compare counts what both servers have of the policies of c. It counts without bounds of
// time where nothing sets them, so that rows are missed that a bound hides. While writers
// still write to the source, it compares what is older than the beginning of this Pull.
func (p *Pull) Compare(ctx context.Context, c *Catalog) (source, target compare.Totals, err error) {
	source, target = compare.Totals{}, compare.Totals{}
	wanted := p.opt.Filter.Wanted()
	for _, d := range c.Data.Databases {
		for _, rp := range d.RetentionPolicies {
			if !p.opt.Filter.WantsPolicy(d, rp) {
				continue
			}
			at := place{d.Name, rp.Name}
			times, err := p.kept(ctx, at)
			if err != nil {
				return nil, nil, err
			}
			there, err := p.totals(ctx, at, times, wanted)
			if err != nil {
				return nil, nil, err
			}
			here, err := p.totalsHere(ctx, at, times, wanted)
			if err != nil {
				return nil, nil, err
			}
			if present := p.began.UnixNano(); p.Stats().newest >= present && times.Max >= present && len(compare.Differences(there, here)) > 0 {
				if there, here, err = p.before(ctx, at, times, present, there, wanted); err != nil {
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
func (p *Pull) before(ctx context.Context, at place, times model.TimeRange, present int64, all compare.Totals, wanted func(string) bool) (there, here compare.Totals, err error) {
	past := model.TimeRange{Min: times.Min, Max: present - 1}
	if there, err = p.totals(ctx, at, past, wanted); err != nil {
		return nil, nil, err
	}
	if here, err = p.totalsHere(ctx, at, past, wanted); err != nil {
		return nil, nil, err
	}
	// Rows that writers have written since all was counted are after the present.
	after, err := p.totals(ctx, at, model.TimeRange{Min: present, Max: times.Max}, wanted)
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

// totals counts what the source has of a policy, by the names that the target has.
func (p *Pull) totals(ctx context.Context, at place, times model.TimeRange, wanted func(string) bool) (compare.Totals, error) {
	all, err := compare.Ask(ctx, p.source, p.source.database(at), p.source.policy(at), times, wanted)
	if err != nil {
		return nil, fmt.Errorf("ask the old server: %w", err)
	}
	out := compare.Totals{}
	for n, m := range all {
		if !p.source.countsSeries() {
			m.Series = -1
		}
		out[compare.Name{Database: at.database, Policy: at.policy, Measurement: n.Measurement}] = m
	}
	return out, nil
}

// totalsHere counts what the target has of a policy.
func (p *Pull) totalsHere(ctx context.Context, at place, times model.TimeRange, wanted func(string) bool) (compare.Totals, error) {
	all, err := compare.Ask(ctx, p.client, at.database, at.policy, times, wanted)
	if err != nil {
		return nil, fmt.Errorf("ask the new server: %w", err)
	}
	return all, nil
}
