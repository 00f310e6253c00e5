package jsonline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"tsdbd/model"
	"tsdbd/prom"
)

// staleMarker is what a null becomes: VictoriaMetrics exports stale markers as null.
const staleMarker = 0x7ff0000000000002

// line is a line as JSON has it.
type line struct {
	Metric     map[string]string `json:"metric"`
	Values     []value           `json:"values"`
	Timestamps []int64           `json:"timestamps"`
}

// value is a number, null, or the name of a value that JSON cannot write.
type value float64

// UnmarshalJSON implements json.Unmarshaler.
func (v *value) UnmarshalJSON(b []byte) error {
	switch text := string(b); text {
	case "null":
		*v = value(math.Float64frombits(staleMarker))
	case `"NaN"`:
		*v = value(math.NaN())
	case `"Infinity"`, `"Inf"`, `"+Inf"`:
		*v = value(math.Inf(1))
	case `"-Infinity"`, `"-Inf"`:
		*v = value(math.Inf(-1))
	default:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || b[0] == '"' {
			return fmt.Errorf("%.50s is no value", text)
		}
		*v = value(f)
	}
	return nil
}

// Read adds the series of lines to rows. extra are labels that all series get. They
// replace labels of the same name. The error is one of rows.Charge: a short line gets
// long labels by extra.
func Read(b []byte, extra model.Tags, rows *prom.Rows) (prom.BadLines, error) {
	rows.Credit = len(b)
	var labels model.Tags
	var samples []prom.Sample
	return prom.ReadLines(b, func(text []byte) (bad, err error) {
		if labels, samples, bad = parse(text, extra, labels[:0], samples[:0]); bad == nil {
			err = rows.Add(labels, samples, nil)
		}
		return bad, err
	})
}

// parse appends the labels and the samples of a line.
func parse(text []byte, extra, labels model.Tags, samples []prom.Sample) (model.Tags, []prom.Sample, error) {
	var l line
	err := json.Unmarshal(text, &l)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		if quoted := quoteNumbers(text); len(quoted) > len(text) {
			l = line{}
			err = json.Unmarshal(quoted, &l)
		}
	}
	switch {
	case err != nil:
		return labels, samples, err
	case len(l.Values) != len(l.Timestamps):
		return labels, samples, fmt.Errorf("%d values have %d timestamps", len(l.Values), len(l.Timestamps))
	}
	for _, e := range extra {
		if l.Metric == nil {
			l.Metric = map[string]string{}
		}
		l.Metric[e.Key] = e.Value
	}
	if l.Metric[prom.NameLabel] == "" {
		return labels, samples, errors.New("the metric has no " + prom.NameLabel)
	}
	for name, text := range l.Metric {
		labels = append(labels, model.Tag{Key: name, Value: text})
	}
	labels.Sort() // a map has no order
	for i, v := range l.Values {
		samples = append(samples, prom.Sample{Value: float64(v), Time: l.Timestamps[i]})
	}
	return labels, samples, nil
}

// quoteNumbers returns a line with +Inf, -Inf, and NaN in quotes: VictoriaMetrics
// 1.79 writes them as they are, which is no JSON.
func quoteNumbers(text []byte) []byte {
	out := make([]byte, 0, len(text)+16)
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\' && i+1 < len(text):
			out = append(out, c)
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == '+' || c == '-' || c == 'N' || c == 'I'):
			if name := bareNumber(text[i:]); name != "" {
				out = append(append(append(out, '"'), name...), '"')
				i += len(name) - 1
				continue
			}
		}
		out = append(out, text[i])
	}
	return out
}

// bareNumber returns the name of a number that text begins with, or "".
func bareNumber(text []byte) string {
	for _, name := range []string{"+Inf", "-Inf", "Inf", "NaN"} {
		if bytes.HasPrefix(text, []byte(name)) && !bytes.HasPrefix(text[len(name):], []byte("inity")) {
			return name
		}
	}
	return ""
}
