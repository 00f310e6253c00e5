package lines

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"tsdbd/transfer/mover"
)

const (
	// maxSeriesLine bounds a line of series. VictoriaMetrics writes all samples of a
	// series into one line, unless it is asked for max_rows_per_line.
	maxSeriesLine = 64 << 20
	// wholeLine is the length of a line above which it becomes several, so that no request is
	// much larger.
	wholeLine = 1 << 20
	// seriesSamples is how many samples the parts of a long line have.
	seriesSamples = 8192
)

// Series passes on VictoriaMetrics' lines of JSON, one or more for a series. A part with them
// has Part.Series.
func Series(r *bufio.Reader, database, policy string, to mover.Lines) error {
	var line []byte
	for number := 1; ; number++ {
		long := false
		var err error
		for line = line[:0]; ; {
			var part []byte
			part, err = r.ReadSlice('\n')
			if long = long || len(line)+len(part) > maxSeriesLine; !long {
				line = append(line, part...)
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				break
			}
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read lines: %w", err)
		}
		text := bytes.TrimSpace(line)
		row := mover.Row{Number: number, Text: text}
		of := mover.Line{Database: database, Policy: policy, Text: text, From: &row}
		var perr error
		switch {
		case long:
			row.Text = text[:min(len(text), 1000)]
			perr = to.Refuse(fmt.Sprintf("the line is longer than %d bytes: export with max_rows_per_line", maxSeriesLine), &of)
		case len(text) > wholeLine:
			perr = cut(of, to)
		case len(text) > 0:
			perr = to.Put(&of)
		}
		if perr != nil || err != nil {
			return perr
		}
	}
}

// cut passes on a long line as several.
func cut(of mover.Line, to mover.Lines) error {
	row := *of.From
	row.Text = row.Text[:1000]
	refused := of
	refused.From = &row
	var whole struct{ Metric, Values, Timestamps json.RawMessage }
	if err := json.Unmarshal(of.Text, &whole); err != nil {
		return to.Refuse(err.Error()+"; max_rows_per_line makes lines shorter", &refused)
	}
	// Numbers, nulls, and names of numbers have no commas.
	values, times := bytes.Split(unbracketed(whole.Values), []byte(",")), bytes.Split(unbracketed(whole.Timestamps), []byte(","))
	if len(values) != len(times) {
		return to.Refuse(fmt.Sprintf("%d values and %d timestamps", len(values), len(times)), &refused)
	}
	for len(values) > 0 {
		n := min(seriesSamples, len(values))
		of.Text = fmt.Appendf(nil, `{"metric":%s,"values":[%s],"timestamps":[%s]}`, whole.Metric, bytes.Join(values[:n], []byte(",")), bytes.Join(times[:n], []byte(",")))
		of.From.Text = of.Text
		if err := to.Put(&of); err != nil {
			return err
		}
		values, times = values[n:], times[n:]
	}
	return nil
}

// unbracketed returns what is in an array.
func unbracketed(array []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimPrefix(bytes.TrimSpace(array), []byte("[")), []byte("]"))
}
