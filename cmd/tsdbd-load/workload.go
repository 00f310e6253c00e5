package main

import (
	"bytes"
	"fmt"
	"strconv"

	"tsdbd/internal/load"
)

// workload is lines to load and queries with known answers.
type workload interface {
	// next appends about n lines and returns their number, 0 at the end.
	next(dst []byte, n int) ([]byte, int)
	queries() []query
}

// query is a question with a check of its answer.
type query struct {
	name  string
	text  string
	check func(*answer) error
}

func newWorkload(name string, o *options) (workload, error) {
	switch name {
	case "seed":
		return seed{load.NewSeed()}, nil
	case "telegraf":
		return telegraf{load.NewTelegraf(o.hosts, int(o.hours*360), 1_700_000_000)}, nil
	}
	return nil, fmt.Errorf("unknown workload %q: it is seed or telegraf", name)
}

type seed struct{ *load.Seed }

func (s seed) next(dst []byte, n int) ([]byte, int) { return s.Next(dst, n) }

const minute = int64(60_000_000_000)

// seedBounds are the bounds of the workload's time in the queries' text.
func seedBounds() string {
	return fmt.Sprintf("time >= %d AND time < %d", load.SeedStart*int64(1e9), (load.SeedStart+60*load.SeedPeriods)*int64(1e9))
}

// periodOf returns the period whose rows a window of one minute holds.
func periodOf(window int64) int {
	first := load.SeedStart * int64(1e9) / minute * minute
	return int((window - first) / minute)
}

func (s seed) queries() []query {
	return []query{
		{"A: count per period", "SELECT count(totalCount) FROM proc WHERE " + seedBounds() + " GROUP BY time(1m)", func(a *answer) error {
			if len(a.series) != 1 || len(a.series[0].rows) != load.SeedPeriods {
				return fmt.Errorf("%d series, %d rows; want 1 and %d", len(a.series), a.rows(), load.SeedPeriods)
			}
			for _, row := range a.series[0].rows {
				p := periodOf(row.time)
				if p < 0 || p >= load.SeedPeriods || row.value != s.Counts[p] {
					return fmt.Errorf("count at %d is %d, want %d", row.time, row.value, s.Counts[p])
				}
			}
			return nil
		}},
		{"B: sum by period and vCmdid", "SELECT sum(totalCount) FROM proc WHERE vAppid != '' AND " + seedBounds() + " GROUP BY time(1m), vCmdid fill(none)", func(a *answer) error {
			if len(a.series) != len(s.Sums) {
				return fmt.Errorf("%d series, want %d", len(a.series), len(s.Sums))
			}
			for _, sr := range a.series {
				sums, has := s.Sums[sr.tags["vCmdid"]], s.Has[sr.tags["vCmdid"]]
				if sums == nil {
					return fmt.Errorf("unexpected vCmdid %q", sr.tags["vCmdid"])
				}
				want := 0
				for _, h := range has {
					if h {
						want++
					}
				}
				if len(sr.rows) != want {
					return fmt.Errorf("vCmdid %s has %d rows, want %d", sr.tags["vCmdid"], len(sr.rows), want)
				}
				for _, row := range sr.rows {
					if p := periodOf(row.time); row.value != sums[p] {
						return fmt.Errorf("vCmdid %s: sum at %d is %d, want %d", sr.tags["vCmdid"], row.time, row.value, sums[p])
					}
				}
			}
			return nil
		}},
	}
}

type telegraf struct{ *load.Telegraf }

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

func (t telegraf) queries() []query {
	var out []query
	for _, m := range []struct{ measurement, field string }{{"cpu", "usage_user"}, {"mem", "used"}, {"disk", "used"}, {"net", "bytes_recv"}, {"system", "uptime_format"}} {
		out = append(out, query{"count " + m.measurement, fmt.Sprintf("SELECT count(%s) FROM %s", m.field, m.measurement), func(a *answer) error {
			want := t.Points[m.measurement]
			if len(a.series) != 1 || len(a.series[0].rows) != 1 || a.series[0].rows[0].value != want {
				return fmt.Errorf("got %s, want %s points", a, strconv.FormatInt(want, 10))
			}
			return nil
		}})
	}
	out = append(out,
		query{"mean by host and hour", "SELECT mean(usage_user), max(usage_system) FROM cpu WHERE time >= 1700000000s AND time < 1700086400s GROUP BY time(1h), host", nil},
		query{"last of every host", "SELECT last(uptime_format) FROM system GROUP BY host", nil},
		query{"rate of a counter", "SELECT non_negative_derivative(mean(bytes_recv), 1s) FROM net WHERE host = 'host-007.example.com' AND time >= 1700000000s AND time < 1700021600s GROUP BY time(1m)", nil},
	)
	return out
}
