package opentsdb

import (
	"math"
	"strconv"
	"strings"
	"time"

	"tsdbd/model"
	"tsdbd/services/input"
)

// fault is what is wrong with a line.
type fault int

const (
	noFault fault = iota
	badLine
	badTime
	badTag
	badValue
	faults
)

// parseLine reads "put metric time value tag=value ...".
func parseLine(line string) (input.Point, fault) {
	words := strings.Fields(line)
	if len(words) < 4 || words[0] != "put" {
		return input.Point{}, badLine
	}
	stamp, err := strconv.ParseInt(words[2], 10, 64)
	if err != nil {
		return input.Point{}, badTime
	}
	p := input.Point{Measurement: words[1]}
	var ok bool
	if p.Time, ok = parseTime(stamp); !ok {
		return input.Point{}, badTime
	}
	value, err := strconv.ParseFloat(words[3], 64)
	if err != nil && !math.IsInf(value, 0) {
		return input.Point{}, badValue
	}
	p.Fields = []input.Field{{Key: "value", Value: value}}
	p.Tags = make(model.Tags, 0, len(words)-4)
	for _, w := range words[4:] {
		key, value, ok := strings.Cut(w, "=")
		if !ok || key == "" || value == "" {
			return input.Point{}, badTag
		}
		p.Tags = append(p.Tags, model.Tag{Key: key, Value: value})
	}
	return p, noFault
}

// mostSeconds is the largest time of ten digits: longer ones are milliseconds.
const mostSeconds = 9_999_999_999

// parseTime returns a time in ns.
func parseTime(stamp int64) (int64, bool) {
	unit := int64(time.Second)
	if stamp > mostSeconds {
		unit = int64(time.Millisecond)
	}
	if stamp < 0 || stamp > model.MaxTime/unit {
		return 0, false
	}
	return stamp * unit, true
}
