package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strconv"

	"tsdbd/internal/testkit/load"
)

// workload is lines to load and queries with known answers.
type workload interface {
	// next appends about n lines and returns their number, 0 at the end.
	next(dst []byte, n int) ([]byte, int)
	// fields is the number of values of a row; 0 if rows differ.
	fields() int
	// count asks for all rows.
	count() question
	// probe asks something cheap, for the first answer after a start.
	probe() question
	queries() []query
}

// phase is a part of a load that is measured by itself.
type phase struct {
	name   string
	bodies [][]byte
	rows   int
	size   int64
}

// query is a kind of question.
type query struct {
	name string
	ask  func(*rand.Rand) question
}

// question is a query's text with a check of its answer; nil: none.
type question struct {
	text    string
	check   func(*answer) error
	metrics *metricsQuestion // what a server of MetricsQL is asked; nil: nothing
}

// metricsQuestion is a request of the Prometheus API.
type metricsQuestion struct {
	path   string
	params url.Values
	check  func(matrix) error
}

// instant asks MetricsQL for one time (s).
func instant(text string, at int64, check func(matrix) error) *metricsQuestion {
	return &metricsQuestion{"/api/v1/query", url.Values{"query": {text}, "time": {strconv.FormatInt(at, 10)}}, check}
}

// always is a query that asks the same every time.
func always(name string, q question) query {
	return query{name, func(*rand.Rand) question { return q }}
}

// newWorkload returns a workload, cut to a share of its size.
func newWorkload(name string, o *options) (workload, error) {
	switch name {
	case "devops":
		return devops{load.NewDevops(load.DevopsHosts, max(1, int(o.scale*load.DevopsSteps)))}, nil
	case "month":
		return month{devops{load.NewDevops(monthHosts, max(360, int(o.scale*monthSteps)))}}, nil
	case "wide":
		return &wide{rows: max(1, int(o.scale*wideRows))}, nil
	case "hicard":
		return hicard{load.NewHicard(max(50, int(o.scale*load.HicardSeries)), max(1, o.rounds))}, nil
	case "seed":
		g := load.NewSeed()
		g.Periods = max(1, int(o.scale*load.SeedPeriods))
		return seed{g}, nil
	case "telegraf":
		return telegraf{load.NewTelegraf(o.hosts, max(1, int(o.scale*o.hours*360)), telegrafStart)}, nil
	}
	return nil, fmt.Errorf("unknown workload %q: it is devops, month, wide, hicard, seed, telegraf, small or mixed", name)
}

// collect makes all request bodies beforehand, so that the load's time is the
// server's.
func collect(w workload, n int) []phase {
	phases := []phase{{name: "load"}}
	var scratch []byte
	for {
		var k int
		if scratch, k = w.next(scratch[:0], n); k == 0 {
			break
		}
		p := &phases[len(phases)-1]
		if h, ok := w.(hicard); ok && p.rows == h.Series() {
			phases = append(phases, phase{name: "known series"})
			phases[0].name = "new series"
			p = &phases[len(phases)-1]
		}
		p.bodies = append(p.bodies, bytes.Clone(scratch))
		p.rows += k
		p.size += int64(len(scratch))
	}
	return phases
}

type seed struct{ *load.Seed }

func (s seed) next(dst []byte, n int) ([]byte, int) { return s.Next(dst, n) }
func (s seed) fields() int                          { return 2 }

const minute = int64(60_000_000_000)

func (s seed) rows() (n int64) {
	for _, c := range s.Counts {
		n += c
	}
	return n
}

func (s seed) count() question {
	return question{
		text:    "SELECT count(totalCount) FROM proc",
		check:   func(a *answer) error { return a.count(s.rows()) },
		metrics: instant("sum(count_over_time(proc_totalCount[1d]))", load.SeedStart+60*load.SeedPeriods, func(m matrix) error { return m.count(s.rows()) }),
	}
}

func (s seed) probe() question {
	return question{
		text: fmt.Sprintf("SELECT count(totalCount) FROM proc WHERE time >= %ds AND time < %ds", load.SeedStart, load.SeedStart+60),
		check: func(a *answer) error {
			return a.count(s.Counts[0])
		},
		metrics: instant("sum(count_over_time(proc_totalCount[1m]))", load.SeedStart+59, func(m matrix) error { return m.count(s.Counts[0]) }),
	}
}

// bounds are the bounds of the workload's time in the queries' text.
func (s seed) bounds() string {
	return fmt.Sprintf("time >= %d AND time < %d", load.SeedStart*int64(1e9), s.end())
}

func (s seed) end() int64 { return (load.SeedStart + 60*int64(s.Periods)) * 1e9 }

// periods asks MetricsQL for a value of every period: windows of a minute that
// end with the last second of each. Without nocache the times would be rounded.
func (s seed) periods(text string, check func(matrix) error) *metricsQuestion {
	return &metricsQuestion{"/api/v1/query_range", url.Values{
		"query": {text}, "step": {"60"}, "nocache": {"1"},
		"start": {strconv.Itoa(load.SeedStart + 59)}, "end": {strconv.Itoa(load.SeedStart + 60*s.Periods - 1)},
	}, check}
}

// periodOf returns the period of a sample at its end.
func (s seed) periodOf(at int64) int { return int((at - load.SeedStart) / 60) }

// present returns the number of a vCmdid's rows in answer B.
func (s seed) present(cmd string) (n int) {
	for _, has := range s.Has[cmd] {
		if has {
			n++
		}
	}
	return n
}

func (s seed) queries() []query {
	return []query{
		always("A: count per period", question{
			text: "SELECT count(totalCount) FROM proc WHERE " + s.bounds() + " GROUP BY time(1m)",
			check: func(a *answer) error {
				sr, err := a.one()
				if err != nil {
					return err
				}
				return sr.windows(load.SeedStart*1e9, s.end(), minute, func(row int, _, _ int64) error {
					return sr.integer(row, 1, s.Counts[row])
				})
			},
			metrics: s.periods("sum(count_over_time(proc_totalCount[1m]))", func(m matrix) error {
				if len(m) != 1 || len(m[0].Values) != s.Periods {
					return fmt.Errorf("%d series", len(m))
				}
				for _, v := range m[0].Values {
					if p := s.periodOf(v.time); v.value != float64(s.Counts[p]) {
						return fmt.Errorf("period %d: %v, want %d", p, v.value, s.Counts[p])
					}
				}
				return nil
			}),
		}),
		always("B: sum by period and vCmdid", question{
			text: "SELECT sum(totalCount) FROM proc WHERE vAppid != '' AND " + s.bounds() + " GROUP BY time(1m), vCmdid fill(none)",
			check: func(a *answer) error {
				if len(a.series) != len(s.Sums) {
					return fmt.Errorf("%d series, want %d", len(a.series), len(s.Sums))
				}
				for i := range a.series {
					sr := &a.series[i]
					cmd := sr.Tags["vCmdid"]
					if s.Sums[cmd] == nil || len(sr.Values) != s.present(cmd) {
						return fmt.Errorf("vCmdid %s has %d rows, want %d", cmd, len(sr.Values), s.present(cmd))
					}
					for row := range sr.Values {
						at, err := sr.time(row)
						if err != nil {
							return err
						}
						if err := sr.integer(row, 1, s.Sums[cmd][s.periodOf(at/1e9)]); err != nil {
							return err
						}
					}
				}
				return nil
			},
			metrics: s.periods(`sum(sum_over_time(proc_totalCount{vAppid!=""}[1m])) by (vCmdid)`, func(m matrix) error {
				if len(m) != len(s.Sums) {
					return fmt.Errorf("%d series, want %d", len(m), len(s.Sums))
				}
				for _, sr := range m {
					cmd := sr.Metric["vCmdid"]
					if s.Sums[cmd] == nil || len(sr.Values) != s.present(cmd) {
						return fmt.Errorf("vCmdid %s has %d rows, want %d", cmd, len(sr.Values), s.present(cmd))
					}
					for _, v := range sr.Values {
						if want := s.Sums[cmd][s.periodOf(v.time)]; v.value != float64(want) {
							return fmt.Errorf("vCmdid %s at %d: %v, want %d", cmd, v.time, v.value, want)
						}
					}
				}
				return nil
			}),
		}),
	}
}

type telegraf struct{ *load.Telegraf }

const telegrafStart = 1_700_000_000 // s

func (t telegraf) next(dst []byte, n int) ([]byte, int) {
	start := len(dst)
	for {
		var more bool
		if dst, more = t.Next(dst); !more {
			break
		}
		if len(dst)-start > 150*n {
			break
		}
	}
	return dst, bytes.Count(dst[start:], []byte{'\n'})
}

func (t telegraf) fields() int { return 0 }

func (t telegraf) count() question { return t.points("cpu", "usage_user") }

func (t telegraf) probe() question { return question{text: "SHOW MEASUREMENTS"} }

func (t telegraf) points(measurement, field string) question {
	return question{
		text:  fmt.Sprintf("SELECT count(%s) FROM %s", field, measurement),
		check: func(a *answer) error { return a.count(t.Points[measurement]) },
	}
}

func (t telegraf) queries() []query {
	var out []query
	for _, m := range []struct{ measurement, field string }{{"cpu", "usage_user"}, {"mem", "used"}, {"disk", "used"}, {"net", "bytes_recv"}, {"system", "uptime_format"}} {
		out = append(out, always("count "+m.measurement, t.points(m.measurement, m.field)))
	}
	return append(out,
		always("mean by host and hour", question{text: fmt.Sprintf("SELECT mean(usage_user), max(usage_system) FROM cpu WHERE time >= %ds AND time < %ds GROUP BY time(1h), host", telegrafStart, telegrafStart+86400)}),
		always("last of every host", question{text: "SELECT last(uptime_format) FROM system GROUP BY host"}),
		always("rate of a counter", question{text: fmt.Sprintf("SELECT non_negative_derivative(mean(bytes_recv), 1s) FROM net WHERE host = 'host-007.example.com' AND time >= %ds AND time < %ds GROUP BY time(1m)", telegrafStart, telegrafStart+21600)}),
	)
}
