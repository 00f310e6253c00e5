package graphite

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"tsdbd/model"
	"tsdbd/services/input"
)

// Times outside of these are refused, as InfluxDB does: they come from clocks
// that are not set and from milliseconds.
var (
	minTime = time.Date(1901, 12, 13, 0, 0, 0, 0, time.UTC).Unix()
	maxTime = time.Date(2038, 1, 19, 0, 0, 0, 0, time.UTC).Unix()
)

// parser reads lines. It is used by one goroutine at a time; the templates are
// shared.
type parser struct {
	templates *templates
	tags      model.Tags // of points that have no such tag
	parts     parts
}

var (
	errFields = errors.New("line is not path, value and time")
	errValue  = errors.New("value is no number")
	errTime   = errors.New("time is no number of seconds between 1901 and 2038")
	errTag    = errors.New("tag is not tag=value")
)

// parse reads a line, which is kept in the point. now is the time of lines
// without one.
func (p *parser) parse(line string, now time.Time) (input.Point, error) {
	words := strings.Fields(line)
	if len(words) != 2 && len(words) != 3 {
		return input.Point{}, errFields
	}
	path, tagged, hasTags := strings.Cut(words[0], ";")
	value, err := strconv.ParseFloat(words[1], 64)
	if err != nil && !math.IsInf(value, 0) {
		return input.Point{}, errValue
	}
	point := input.Point{Time: now.UnixNano()}
	if len(words) == 3 {
		var ok bool
		if point.Time, ok = parseTime(words[2], now); !ok {
			return input.Point{}, errTime
		}
	}
	t := p.templates.find(path)
	t.apply(&p.parts, path)
	point.Measurement = strings.Join(p.parts.measurement, t.separator)
	if point.Measurement == "" {
		point.Measurement = path
	}
	field := p.parts.field
	if field == "" {
		field = "value"
	}
	point.Fields = []input.Field{{Key: field, Value: value}}
	tags := append(make(model.Tags, 0, len(p.parts.tags)+len(p.tags)+2), p.parts.tags...)
	if hasTags {
		for text := range strings.SplitSeq(tagged, ";") {
			key, value, ok := strings.Cut(text, "=")
			if !ok || key == "" || value == "" {
				return input.Point{}, errTag
			}
			tags = put(tags, key, value, true)
		}
	}
	for _, d := range p.tags {
		tags = put(tags, d.Key, d.Value, false)
	}
	point.Tags = tags
	return point, nil
}

// put sets a tag. One that is there with a value is replaced only if replace
// is set.
func put(tags model.Tags, key, value string, replace bool) model.Tags {
	for i := range tags {
		if tags[i].Key == key {
			if replace || tags[i].Value == "" {
				tags[i].Value = value
			}
			return tags
		}
	}
	return append(tags, model.Tag{Key: key, Value: value})
}

// parseTime reads seconds, with a fraction or without. N and -1 are now.
func parseTime(text string, now time.Time) (int64, bool) {
	if text == "N" {
		return now.UnixNano(), true
	}
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil {
		if seconds == -1 {
			return now.UnixNano(), true
		}
		if seconds < minTime || seconds > maxTime {
			return 0, false
		}
		return seconds * int64(time.Second), true
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || !(seconds >= float64(minTime) && seconds <= float64(maxTime)) {
		return 0, false
	}
	if seconds == -1 {
		return now.UnixNano(), true
	}
	whole, fraction := math.Modf(seconds)
	return int64(whole)*int64(time.Second) + int64(fraction*float64(time.Second)), true
}
