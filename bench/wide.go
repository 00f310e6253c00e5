package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"tsdbd/internal/testkit/load"
)

// wide is one series of very many fields.
type wide struct {
	rows int
	row  int // of the next line
}

const (
	wideFields = 5000
	wideRows   = 400
	wideLines  = 20 // of a request, a megabyte
)

// value is that of a field in a row.
func (w *wide) value(row, field int) int64 {
	return int64(uint64(row*wideFields+field) * 0x9e3779b97f4a7c15 >> 50 % 1000)
}

func (w *wide) next(dst []byte, _ int) ([]byte, int) {
	made := min(wideLines, w.rows-w.row)
	for range made {
		dst = append(dst, "wide,host=a "...)
		for f := range wideFields {
			dst = strconv.AppendInt(append(dst, 'f'), int64(f), 10)
			dst = strconv.AppendInt(append(dst, '='), w.value(w.row, f), 10)
			dst = append(dst, "i,"...)
		}
		dst[len(dst)-1] = ' '
		dst = append(strconv.AppendInt(dst, load.DevopsTime(w.row), 10), '\n')
		w.row++
	}
	return dst, made
}

func (w *wide) fields() int { return wideFields }

// last is the time of the last row in s.
func (w *wide) last() int64 { return load.DevopsTime(w.rows-1) / 1e9 }

func (w *wide) count() question {
	return question{
		text:    "SELECT count(f17) FROM wide",
		check:   func(a *answer) error { return a.count(int64(w.rows)) },
		metrics: instant("count_over_time(wide_f17[1d])", w.last(), func(m matrix) error { return m.count(int64(w.rows)) }),
	}
}

func (w *wide) probe() question { return w.count() }

// mean is that of a field.
func (w *wide) mean(field int) float64 {
	sum := int64(0)
	for row := range w.rows {
		sum += w.value(row, field)
	}
	return float64(sum) / float64(w.rows)
}

func (w *wide) queries() []query {
	return []query{
		always("mean of one field", w.means("mean(f17) AS mean_f17", `"wide_f17"`, 1)),
		always("mean of all fields", w.means("mean(*)", `~"wide_f.+"`, wideFields)),
		always("ten rows of all fields", question{text: "SELECT * FROM wide LIMIT 10", check: func(a *answer) error {
			return wideAnswer(a, min(10, w.rows), wideFields, "f", func(row, field int) float64 { return float64(w.value(row, field)) })
		}}),
	}
}

// means asks for the means of n fields.
func (w *wide) means(call, names string, n int) question {
	return question{
		text: "SELECT " + call + " FROM wide",
		check: func(a *answer) error {
			return wideAnswer(a, 1, n, "mean_f", func(_, field int) float64 { return w.mean(field) })
		},
		metrics: instant("avg_over_time({__name__="+names+"}[1d]) keep_metric_names", w.last(), func(m matrix) error {
			if len(m) != n {
				return fmt.Errorf("%d series, want %d", len(m), n)
			}
			for _, s := range m {
				field, err := strconv.Atoi(strings.TrimPrefix(s.Metric["__name__"], "wide_f"))
				if want := w.mean(field); err != nil || math.Abs(s.Value.value-want) > 1e-9*want {
					return fmt.Errorf("%v is %v, want %v", s.Metric, s.Value.value, want)
				}
			}
			return nil
		}),
	}
}

// wideAnswer wants rows of the values of n fields, whose columns have names of their numbers.
func wideAnswer(a *answer, rows, n int, prefix string, value func(row, field int) float64) error {
	s, err := a.one()
	if err != nil {
		return err
	}
	if len(s.Values) != rows {
		return fmt.Errorf("%d rows, want %d", len(s.Values), rows)
	}
	for column, name := range s.Columns {
		field, err := strconv.Atoi(strings.TrimPrefix(name, prefix))
		if err != nil {
			continue // the time or a tag
		}
		n--
		for row := range s.Values {
			if err := s.float(row, column, value(row, field)); err != nil {
				return err
			}
		}
	}
	if n != 0 {
		return fmt.Errorf("%d fields are missing", n)
	}
	return nil
}
