package main

import (
	"fmt"
	"math"
	"strconv"

	"tsdbd/internal/testkit/load"
)

// hicard asks about very many series.
type hicard struct{ *load.Hicard }

func (h hicard) next(dst []byte, n int) ([]byte, int) { return h.Next(dst, n) }
func (h hicard) fields() int                          { return 1 }
func (h hicard) end() int64                           { return load.HicardTime(h.Rounds()) / 1e9 }

func (h hicard) count() question {
	n := int64(h.Series() * h.Rounds())
	return question{
		text:    "SELECT count(value) FROM m",
		check:   func(a *answer) error { return a.count(n) },
		metrics: instant("sum(count_over_time(m_value[1m]))", h.end(), func(m matrix) error { return m.count(n) }),
	}
}

func (h hicard) probe() question {
	i := h.Series() / 7
	host := load.HicardHost(i)
	return question{
		text: "SELECT value FROM m WHERE host = '" + host + "'",
		check: func(a *answer) error {
			s, err := a.one()
			if err != nil {
				return err
			}
			if len(s.Values) != h.Rounds() {
				return fmt.Errorf("%d rows, want %d", len(s.Values), h.Rounds())
			}
			for round := range s.Values {
				if t, err := s.time(round); err != nil || t != load.HicardTime(round) {
					return fmt.Errorf("row %d is %s", round, s.Values[round])
				}
				if err := s.float(round, 1, h.Value(round, i)); err != nil {
					return err
				}
			}
			return nil
		},
		metrics: instant(`m_value{host="`+host+`"}[1m]`, h.end(), func(m matrix) error {
			if len(m) != 1 || len(m[0].Values) != h.Rounds() {
				return fmt.Errorf("got %v", m)
			}
			for round, v := range m[0].Values {
				if v.value != h.Value(round, i) {
					return fmt.Errorf("round %d is %v, want %v", round, v.value, h.Value(round, i))
				}
			}
			return nil
		}),
	}
}

func (h hicard) queries() []query {
	means := h.MeanByRegion(3)
	series := int64(h.Series())
	return []query{
		always("count over all series", h.count()),
		always("mean of dc3 by region", question{
			text: "SELECT mean(value) FROM m WHERE dc = 'dc3' GROUP BY region",
			check: func(a *answer) error {
				if len(a.series) != len(means) {
					return fmt.Errorf("%d series, want %d", len(a.series), len(means))
				}
				for i := range a.series {
					s := &a.series[i]
					if len(s.Values) != 1 {
						return fmt.Errorf("%v: %d rows, want 1", s.Tags, len(s.Values))
					}
					if err := s.float(0, 1, means[s.Tags["region"]]); err != nil {
						return err
					}
				}
				return nil
			},
			metrics: instant(`avg(avg_over_time(m_value{dc="dc3"}[1m])) by (region)`, h.end(), func(m matrix) error {
				if len(m) != len(means) {
					return fmt.Errorf("%d series, want %d", len(m), len(means))
				}
				for _, s := range m {
					if want := means[s.Metric["region"]]; math.Abs(s.Value.value-want) > 1e-9*want {
						return fmt.Errorf("%v is %v, want %v", s.Metric, s.Value.value, want)
					}
				}
				return nil
			}),
		}),
		always("one series", h.probe()),
		always("exact series cardinality", question{text: "SHOW SERIES EXACT CARDINALITY", check: func(a *answer) error { return a.count(series) }}),
		always("exact cardinality of host", question{text: "SHOW TAG VALUES EXACT CARDINALITY WITH KEY = host", check: func(a *answer) error { return a.count(series) }}),
		always("ten values of host", question{text: "SHOW TAG VALUES FROM m WITH KEY = host LIMIT 10", check: func(a *answer) error {
			return tagValues(a, "host", 10, load.HicardHost)
		}}),
		always("values of region", question{text: "SHOW TAG VALUES FROM m WITH KEY = region", check: func(a *answer) error {
			return tagValues(a, "region", 40, func(int) string { return "" })
		}}),
	}
}

// tagValues wants n rows of a key, in order, with the values that value
// returns; an empty one is not looked at.
func tagValues(a *answer, key string, n int, value func(int) string) error {
	s, err := a.one()
	if err != nil {
		return err
	}
	if len(s.Values) != n {
		return fmt.Errorf("%d values, want %d", len(s.Values), n)
	}
	for row := range s.Values {
		if k, v, want := s.text(row, 0), s.text(row, 1), value(row); k != key || want != "" && v != want {
			return fmt.Errorf("row %s is %s", strconv.Itoa(row), s.Values[row])
		}
	}
	return nil
}
