package transfer

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
)

const (
	// maxSeriesLine bounds a line of series. VictoriaMetrics writes all samples of a
	// series into one line, unless it is asked for max_rows_per_line.
	maxSeriesLine = 64 << 20
	// seriesSamples is how many samples the parts of a long line have.
	seriesSamples = 8192
)

// readSeries reads VictoriaMetrics' lines of JSON in place of line protocol.
func (im *importer) readSeries(r *bufio.Reader) error {
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
		switch {
		case long:
			im.refuseRow(&tableRow{line: number, row: text[:min(len(text), 1000)]}, fmt.Sprintf("the line is longer than %d bytes: export with max_rows_per_line", maxSeriesLine))
		case len(text) > 0:
			if herr := im.seriesLine(text, number); herr != nil {
				return herr
			}
		}
		if err != nil {
			return nil
		}
	}
}

// seriesLine adds a line to the present batch. A line that is larger than a batch becomes
// several.
func (im *importer) seriesLine(text []byte, number int) error {
	if len(text) <= im.opt.BatchBytes {
		return im.addSeries(text, number)
	}
	var whole struct{ Metric, Values, Timestamps json.RawMessage }
	if err := json.Unmarshal(text, &whole); err != nil {
		im.refuseRow(&tableRow{line: number, row: text[:min(len(text), 1000)]}, err.Error()+"; max_rows_per_line makes lines shorter")
		return nil
	}
	// Numbers, nulls, and names of numbers have no commas.
	values, times := bytes.Split(unbracketed(whole.Values), []byte(",")), bytes.Split(unbracketed(whole.Timestamps), []byte(","))
	if len(values) != len(times) {
		im.refuseRow(&tableRow{line: number, row: text[:min(len(text), 1000)]}, fmt.Sprintf("%d values and %d timestamps", len(values), len(times)))
		return nil
	}
	for len(values) > 0 {
		n := min(seriesSamples, len(values))
		part := fmt.Appendf(nil, `{"metric":%s,"values":[%s],"timestamps":[%s]}`, whole.Metric, bytes.Join(values[:n], []byte(",")), bytes.Join(times[:n], []byte(",")))
		if err := im.addSeries(part, number); err != nil {
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

func (im *importer) addSeries(text []byte, number int) error {
	b := &im.batch
	b.db, b.rp = im.db, im.rp
	b.body = append(append(b.body, text...), '\n')
	b.lines++
	b.ends = append(b.ends, len(b.body))
	from := tableRow{line: number}
	if im.opt.Failed != nil {
		from.row = bytes.Clone(text)
	}
	b.sources = append(b.sources, from)
	if len(b.body) < im.opt.BatchBytes {
		return nil
	}
	return im.hand()
}

// lineOfBody is what the server says about a line of a body.
var lineOfBody = regexp.MustCompile(`^partial write: line \d+: (.*) dropped=\d+ for database: .*$`)
