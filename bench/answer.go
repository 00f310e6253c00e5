package main

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
)

// answer is the decoded result of one InfluxQL statement.
type answer struct{ series []answerSeries }

type answerSeries struct {
	Name    string
	Tags    map[string]string
	Columns []string
	Values  [][]json.RawMessage
}

func parseAnswer(b []byte) (*answer, error) {
	var doc struct {
		Results []struct {
			Error  string
			Series []answerSeries
		}
		Error string
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		return nil, err
	}
	if doc.Error != "" || len(doc.Results) != 1 || doc.Results[0].Error != "" {
		return nil, fmt.Errorf("server says %.300s", b)
	}
	return &answer{doc.Results[0].Series}, nil
}

// one returns the only series.
func (a *answer) one() (*answerSeries, error) {
	if len(a.series) != 1 {
		return nil, fmt.Errorf("%d series, want 1", len(a.series))
	}
	return &a.series[0], nil
}

// rows returns the number of rows of all series.
func (a *answer) rows() int {
	n := 0
	for i := range a.series {
		n += len(a.series[i].Values)
	}
	return n
}

// count wants one series of one row whose last cell is the integer n.
func (a *answer) count(n int64) error {
	s, err := a.one()
	if err != nil {
		return err
	}
	if len(s.Values) != 1 {
		return fmt.Errorf("%d rows, want 1", len(s.Values))
	}
	return s.integer(0, len(s.Columns)-1, n)
}

// time returns a row's time (ns since the epoch).
func (s *answerSeries) time(row int) (int64, error) {
	cell := s.Values[row][0]
	if len(cell) > 0 && cell[0] != '"' {
		return strconv.ParseInt(string(cell), 10, 64)
	}
	var text string
	if err := json.Unmarshal(cell, &text); err != nil {
		return 0, err
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	return t.UnixNano(), err
}

// integer wants the integer n in a cell.
func (s *answerSeries) integer(row, column int, n int64) error {
	if column >= len(s.Values[row]) || string(s.Values[row][column]) != strconv.FormatInt(n, 10) {
		return fmt.Errorf("%v row %d is %s, want %d in column %d", s.Tags, row, s.Values[row], n, column)
	}
	return nil
}

// float wants a number in a cell that differs from f by no more than sums in
// another order do.
func (s *answerSeries) float(row, column int, f float64) error {
	got, err := strconv.ParseFloat(string(s.Values[row][column]), 64)
	if err != nil || math.Abs(got-f) > 1e-12*math.Abs(f) {
		return fmt.Errorf("%v row %d is %s, want %v in column %d", s.Tags, row, s.Values[row], f, column)
	}
	return nil
}

// null wants a cell without a value.
func (s *answerSeries) null(row, column int) error {
	if string(s.Values[row][column]) != "null" {
		return fmt.Errorf("%v row %d is %s, want null in column %d", s.Tags, row, s.Values[row], column)
	}
	return nil
}

// text returns the string in a cell.
func (s *answerSeries) text(row, column int) string {
	var text string
	if json.Unmarshal(s.Values[row][column], &text) != nil {
		return ""
	}
	return text
}

// windows wants the rows of all windows of some width that [from, to) touches,
// in order, and calls cell for each.
func (s *answerSeries) windows(from, to, width int64, cell func(row int, from, to int64) error) error {
	first := from - from%width
	if want := int((to - first + width - 1) / width); len(s.Values) != want {
		return fmt.Errorf("%v: %d rows, want %d", s.Tags, len(s.Values), want)
	}
	for row := range s.Values {
		at := first + int64(row)*width
		if t, err := s.time(row); err != nil || t != at {
			return fmt.Errorf("%v row %d is %s, want time %d", s.Tags, row, s.Values[row], at)
		}
		if err := cell(row, max(at, from), min(at+width, to)); err != nil {
			return err
		}
	}
	return nil
}

// matrix is the decoded result of a MetricsQL query.
type matrix []matrixSeries

type matrixSeries struct {
	Metric map[string]string
	Value  sample
	Values []sample
}

// sample is a time (s) and a value.
type sample struct {
	time  int64
	value float64
}

func (s *sample) UnmarshalJSON(b []byte) error {
	var text string
	var at float64
	if err := json.Unmarshal(b, &[]any{&at, &text}); err != nil {
		return err
	}
	v, err := strconv.ParseFloat(text, 64)
	*s = sample{int64(at), v}
	return err
}

func parseMatrix(b []byte) (matrix, error) {
	var doc struct {
		Status string
		Data   struct{ Result matrix }
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		return nil, err
	}
	if doc.Status != "success" {
		return nil, fmt.Errorf("server says %.300s", b)
	}
	return doc.Data.Result, nil
}

// count wants one series with the one value n.
func (m matrix) count(n int64) error {
	if len(m) != 1 || m[0].Value.value != float64(n) {
		return fmt.Errorf("got %v, want %d", m, n)
	}
	return nil
}
