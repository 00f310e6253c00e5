package jsonline

import (
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"tsdbd/model"
)

// ExtraLabels returns the labels of the parameters extra_label, NAME=VALUE each.
func ExtraLabels(q url.Values) (tags model.Tags, err error) {
	for _, text := range q["extra_label"] {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("extra_label must be NAME=VALUE, not %q", text)
		}
		tags = append(tags, model.Tag{Key: name, Value: value})
	}
	return tags, nil
}

// Export is what the parameters of an export ask for.
type Export struct {
	Start, End int64 // ms since the epoch, both inclusive
	Rows       int   // of a line; 0: as many as a Writer allows
	Match      []string
}

// ParseExport reads the parameters of an export: match[], start, end, which are seconds
// or RFC 3339, max_rows_per_line, and format, which is empty.
func ParseExport(q url.Values) (e Export, err error) {
	e.Match = append(q["match[]"], q["match"]...)
	if len(e.Match) == 0 {
		return e, fmt.Errorf("match[] is missing")
	}
	if format := q.Get("format"); format != "" {
		return e, fmt.Errorf("format %q is not supported, leave it out for lines of JSON", format)
	}
	if e.Start, err = milliseconds(q.Get("start"), model.MinTime/int64(time.Millisecond)); err != nil {
		return e, fmt.Errorf("start: %w", err)
	}
	if e.End, err = milliseconds(q.Get("end"), model.MaxTime/int64(time.Millisecond)); err != nil {
		return e, fmt.Errorf("end: %w", err)
	}
	if text := q.Get("max_rows_per_line"); text != "" {
		if e.Rows, err = strconv.Atoi(text); err != nil || e.Rows < 0 {
			return e, fmt.Errorf("max_rows_per_line must be a number, not %q", text)
		}
	}
	return e, nil
}

// milliseconds reads a time. An empty text is another time.
func milliseconds(text string, empty int64) (int64, error) {
	if text == "" {
		return empty, nil
	}
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(seconds) <= float64(model.MaxTime/int64(time.Second)) {
		return int64(math.Round(seconds * 1000)), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0, fmt.Errorf("%q is neither seconds since 1970 nor a time such as 2006-01-02T15:04:05Z", text)
	}
	return t.UnixMilli(), nil
}
