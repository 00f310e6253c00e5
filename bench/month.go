package main

import (
	"fmt"
	"math/rand/v2"

	"tsdbd/internal/testkit/load"
)

// month is thirty days of few hosts of devops, asked for panels that show all of it.
type month struct{ devops }

const (
	monthHosts = 10
	monthSteps = 30 * 24 * 3600 / load.DevopsInterval
)

func (m month) queries() []query {
	return []query{
		{"mean by minute of one host", func(r *rand.Rand) question { return m.means(r.IntN(m.Hosts()), minute) }},
		{"mean by minute by host", func(*rand.Rand) question { return m.means(-1, minute) }},
		{"mean by hour by host", func(*rand.Rand) question { return m.means(-1, hour) }},
	}
}

// means asks for means of all time by windows, of one host, or of each if host is -1.
func (m month) means(host int, step int64) question {
	from, to := load.DevopsTime(0), load.DevopsTime(m.Steps())
	condition, names := "", ""
	if host >= 0 {
		condition, names = fmt.Sprintf("hostname = 'host_%d' and ", host), fmt.Sprintf(`{hostname="host_%d"}`, host)
	}
	width := fmt.Sprintf("%dm", step/minute)
	q := metricsRange("avg(avg_over_time(cpu_usage_user"+names+"["+width+"])) by (hostname)", from+step, to, step)
	q.params.Set("nocache", "1")
	return question{
		text: "SELECT mean(usage_user) from cpu where " + condition + bounds(from, to) + " group by time(" + width + "),hostname",
		check: func(a *answer) error {
			want := m.Hosts()
			if host >= 0 {
				want = 1
			}
			if len(a.series) != want {
				return fmt.Errorf("%d series, want %d", len(a.series), want)
			}
			for i := range a.series {
				s := &a.series[i]
				of, err := m.host(s.Tags["hostname"])
				if err != nil || host >= 0 && of != host {
					return fmt.Errorf("a series of %s: %v", s.Tags, err)
				}
				if err := s.windows(from, to, step, func(row int, from, to int64) error {
					first, last := m.Between(from, to)
					mean, _ := m.Mean(of, 0, first, last)
					return s.float(row, 1, mean)
				}); err != nil {
					return err
				}
			}
			return nil
		},
		metrics: q,
	}
}
