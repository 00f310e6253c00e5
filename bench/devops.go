package main

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tsdbd/internal/testkit/load"
)

// devops asks what the TSBS suite asks of its cpu-only data.
type devops struct{ *load.Devops }

const hour = 60 * minute

func (d devops) next(dst []byte, n int) ([]byte, int) { return d.Next(dst, n) }
func (d devops) fields() int                          { return len(load.DevopsFields) }
func (d devops) rows() int64                          { return int64(d.Hosts() * d.Steps()) }

func (d devops) count() question {
	return question{
		text:    "SELECT count(usage_user) FROM cpu",
		check:   func(a *answer) error { return a.count(d.rows()) },
		metrics: instant("sum(count_over_time(cpu_usage_user[40d]))", load.DevopsTime(d.Steps())/1e9, func(m matrix) error { return m.count(d.rows()) }),
	}
}

func (d devops) probe() question {
	last := d.Steps() - 1
	return question{
		text:  "SELECT last(usage_user) FROM cpu WHERE hostname = 'host_0'",
		check: func(a *answer) error { return a.count(d.Value(0, last, 0)) },
		metrics: instant(`last_over_time(cpu_usage_user{hostname="host_0"}[1m])`, load.DevopsTime(last)/1e9, func(m matrix) error {
			return m.count(d.Value(0, last, 0))
		}),
	}
}

func (d devops) queries() []query {
	var out []query
	for _, s := range []struct{ fields, hosts, hours int }{{1, 1, 1}, {1, 1, 12}, {1, 8, 1}, {5, 1, 1}, {5, 1, 12}, {5, 8, 1}} {
		out = append(out, query{fmt.Sprintf("single-groupby-%d-%d-%d", s.fields, s.hosts, s.hours), func(r *rand.Rand) question {
			return d.highest(r, s.fields, s.hosts, int64(s.hours)*hour, minute)
		}})
	}
	for _, hosts := range []int{1, 8} {
		out = append(out, query{fmt.Sprintf("cpu-max-all-%d", hosts), func(r *rand.Rand) question {
			return d.highest(r, len(load.DevopsFields), hosts, 8*hour, hour)
		}})
	}
	for _, s := range []struct {
		name   string
		fields int
	}{{"1", 1}, {"5", 5}, {"all", len(load.DevopsFields)}} {
		out = append(out, query{"double-groupby-" + s.name, func(r *rand.Rand) question { return d.doubleGroupBy(r, s.fields) }})
	}
	return append(
		out,
		query{"groupby-orderby-limit", d.firstMinutes},
		query{"high-cpu-1", func(r *rand.Rand) question { return d.highCPU(r, r.IntN(d.Hosts())) }},
		query{"high-cpu-all", func(r *rand.Rand) question { return d.highCPU(r, -1) }},
		query{"lastpoint", d.lastPoint},
	)
}

// window returns a random range of time of some width (ns), of whole
// milliseconds, inside of the data if that is long enough.
func (d devops) window(r *rand.Rand, width int64) (from, to int64) {
	from = load.DevopsTime(0)
	if room := load.DevopsTime(d.Steps()) - from - width; room > 0 {
		from += r.Int64N(room/1e6) * 1e6
	}
	return from, from + width
}

func timeText(ns int64) string { return time.Unix(0, ns).UTC().Format("2006-01-02T15:04:05.999Z") }

func bounds(from, to int64) string {
	return fmt.Sprintf("time >= '%s' and time < '%s'", timeText(from), timeText(to))
}

// calls returns function(field) for the first fields.
func calls(function string, fields int) string {
	var parts []string
	for _, f := range load.DevopsFields[:fields] {
		parts = append(parts, function+"("+f+")")
	}
	return strings.Join(parts, ", ")
}

// metricsRange asks MetricsQL for a value of every step.
func metricsRange(text string, from, to, step int64) *metricsQuestion {
	return &metricsQuestion{"/api/v1/query_range", url.Values{
		"query": {text}, "step": {strconv.FormatInt(step/1e9, 10)},
		"start": {strconv.FormatInt(from/1e9, 10)}, "end": {strconv.FormatInt(to/1e9, 10)},
	}, nil}
}

// selector returns the names of the first fields for MetricsQL.
func selector(fields int) string {
	return `__name__=~"cpu_(` + strings.Join(load.DevopsFields[:fields], "|") + `)"`
}

// highest asks for the maxima of some fields of some hosts by windows.
func (d devops) highest(r *rand.Rand, fields, hosts int, width, step int64) question {
	of := r.Perm(d.Hosts())[:hosts]
	from, to := d.window(r, width)
	var conditions, names []string
	for _, h := range of {
		names = append(names, "host_"+strconv.Itoa(h))
		conditions = append(conditions, "hostname = '"+names[len(names)-1]+"'")
	}
	return question{
		text: fmt.Sprintf("SELECT %s from cpu where (%s) and %s group by time(%dm)", calls("max", fields), strings.Join(conditions, " or "), bounds(from, to), step/minute),
		check: func(a *answer) error {
			s, err := a.one()
			if err != nil {
				return err
			}
			return s.windows(from, to, step, func(row int, from, to int64) error {
				first, last := d.Between(from, to)
				for f := range fields {
					if v, ok := d.Max(of, f, first, last); ok {
						err = s.integer(row, f+1, v)
					} else {
						err = s.null(row, f+1)
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
		},
		metrics: metricsRange(fmt.Sprintf(`max(max_over_time({%s,hostname=~"%s"}[%dm])) by (__name__)`, selector(fields), strings.Join(names, "|"), step/minute), from, to, step),
	}
}

// doubleGroupBy asks for the means of some fields by host and hour.
func (d devops) doubleGroupBy(r *rand.Rand, fields int) question {
	from, to := d.window(r, 12*hour)
	return question{
		text: fmt.Sprintf("SELECT %s from cpu where %s group by time(1h),hostname", calls("mean", fields), bounds(from, to)),
		check: func(a *answer) error {
			seen, err := d.byHost(a)
			if err != nil {
				return err
			}
			for host, s := range seen {
				err := s.windows(from, to, hour, func(row int, from, to int64) (err error) {
					first, last := d.Between(from, to)
					for f := range fields {
						if v, ok := d.Mean(host, f, first, last); ok {
							err = s.float(row, f+1, v)
						} else {
							err = s.null(row, f+1)
						}
						if err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					return err
				}
			}
			return nil
		},
		metrics: metricsRange(fmt.Sprintf(`avg(avg_over_time({%s}[1h])) by (__name__,hostname)`, selector(fields)), from, to, hour),
	}
}

// byHost wants one series of every host.
func (d devops) byHost(a *answer) (map[int]*answerSeries, error) {
	out := map[int]*answerSeries{}
	for i := range a.series {
		s := &a.series[i]
		h, err := d.host(s.Tags["hostname"])
		if err != nil {
			return nil, err
		}
		out[h] = s
	}
	if len(out) != d.Hosts() || len(a.series) != d.Hosts() {
		return nil, fmt.Errorf("%d series of %d hosts, want %d", len(a.series), len(out), d.Hosts())
	}
	return out, nil
}

func (d devops) host(name string) (int, error) {
	number, ok := strings.CutPrefix(name, "host_")
	h, err := strconv.Atoi(number)
	if !ok || err != nil || h < 0 || h >= d.Hosts() {
		return 0, fmt.Errorf("unknown host %q", name)
	}
	return h, nil
}

// firstMinutes asks for maxima by minute from the beginning on, and takes five.
func (d devops) firstMinutes(r *rand.Rand) question {
	_, to := d.window(r, 12*hour)
	all := make([]int, d.Hosts())
	for h := range all {
		all[h] = h
	}
	return question{
		text: fmt.Sprintf("SELECT max(usage_user) from cpu WHERE time < '%s' group by time(1m) limit 5", timeText(to)),
		check: func(a *answer) error {
			s, err := a.one()
			if err != nil {
				return err
			}
			from := load.DevopsTime(0)
			return s.windows(from, min(from+5*minute, to), minute, func(row int, from, to int64) error {
				first, last := d.Between(from, to)
				if v, ok := d.Max(all, 0, first, last); ok {
					return s.integer(row, 1, v)
				}
				return s.null(row, 1)
			})
		},
	}
}

// highCPU asks for all rows of twelve hours whose usage_user is above 90, of
// one host, or of all if host is -1.
func (d devops) highCPU(r *rand.Rand, host int) question {
	from, to := d.window(r, 12*hour)
	text := "SELECT * from cpu where usage_user > 90.0 and "
	if host >= 0 {
		text += "(hostname = 'host_" + strconv.Itoa(host) + "') and "
	}
	return question{text: text + bounds(from, to), check: func(a *answer) error {
		want := map[rowID]bool{}
		first, last := d.Between(from, to)
		for step := first; step < last; step++ {
			for h := range d.Hosts() {
				if (host < 0 || h == host) && d.Value(h, step, 0) > 90 {
					want[rowID{h, step}] = true
				}
			}
		}
		if a.rows() != len(want) {
			return fmt.Errorf("%d rows, want %d", a.rows(), len(want))
		}
		if len(want) == 0 {
			return nil
		}
		s, err := a.one()
		if err != nil {
			return err
		}
		column := slices.Index(s.Columns, "hostname")
		before := int64(0)
		for row := range s.Values {
			if column < 0 {
				return fmt.Errorf("no column hostname in %v", s.Columns)
			}
			h, err := d.host(s.text(row, column))
			if err != nil {
				return err
			}
			id, at, err := d.wholeRow(s, row, h)
			if err != nil {
				return err
			}
			if !want[id] || at < before {
				return fmt.Errorf("row %d: %s is wrong, twice, or out of order", row, s.Values[row])
			}
			delete(want, id)
			before = at
		}
		return nil
	}}
}

// rowID is a row of the workload.
type rowID struct{ host, step int }

// wholeRow wants all tags and fields of a host at the row's time.
func (d devops) wholeRow(s *answerSeries, row, host int) (rowID, int64, error) {
	at, err := s.time(row)
	if err != nil {
		return rowID{}, 0, err
	}
	step, last := d.Between(at, at+1)
	if last != step+1 {
		return rowID{}, 0, fmt.Errorf("no row has time %d", at)
	}
	if want := 1 + len(load.DevopsFields) + len(load.DevopsTags) - len(s.Tags); len(s.Columns) != want {
		return rowID{}, 0, fmt.Errorf("columns are %v, want %d", s.Columns, want)
	}
	for i, c := range s.Columns[1:] {
		if f := slices.Index(load.DevopsFields[:], c); f >= 0 {
			if err := s.integer(row, i+1, d.Value(host, step, f)); err != nil {
				return rowID{}, 0, err
			}
		} else if v, ok := d.Tag(host, c); !ok || s.text(row, i+1) != v {
			return rowID{}, 0, fmt.Errorf("row %d is %s, want %q in column %s", row, s.Values[row], v, c)
		}
	}
	return rowID{host, step}, at, nil
}

// lastPoint asks for the last row of every host.
func (d devops) lastPoint(*rand.Rand) question {
	return question{text: `SELECT * from cpu group by "hostname" order by time desc limit 1`, check: func(a *answer) error {
		seen, err := d.byHost(a)
		if err != nil {
			return err
		}
		for host, s := range seen {
			if len(s.Values) != 1 {
				return fmt.Errorf("%v: %d rows, want 1", s.Tags, len(s.Values))
			}
			id, _, err := d.wholeRow(s, 0, host)
			if err != nil {
				return err
			}
			if id.step != d.Steps()-1 {
				return fmt.Errorf("%v: %s is not the last row", s.Tags, s.Values[0])
			}
		}
		return nil
	}}
}
