package samples

import (
	"strconv"
	"strings"

	names "github.com/prometheus/common/model"

	"tsdbd/model"
	"tsdbd/prom"
)

// appendSeries appends the name and the labels of a series. A name that is not one of the
// old alphabet is in quotes among the labels, as Prometheus 3 reads it.
func appendSeries(b []byte, of model.Tags) []byte {
	name := ""
	for _, l := range of {
		if l.Key == prom.NameLabel {
			name = l.Value
		}
	}
	inside := !names.LegacyValidation.IsValidMetricName(name)
	if !inside {
		b = append(b, name...)
	}
	open := false
	next := func() {
		if open {
			b = append(b, ',')
		} else {
			b = append(b, '{')
		}
		open = true
	}
	if inside {
		next()
		b = appendQuoted(b, name)
	}
	for _, l := range of {
		if l.Key == prom.NameLabel {
			continue
		}
		next()
		if names.LegacyValidation.IsValidLabelName(l.Key) {
			b = append(b, l.Key...)
		} else {
			b = appendQuoted(b, l.Key)
		}
		b = appendQuoted(append(b, '='), l.Value)
	}
	if open {
		b = append(b, '}')
	}
	return b
}

// appendQuoted appends a text in quotes, in which backslashes, quotes, and line breaks are
// escaped.
func appendQuoted(b []byte, text string) []byte {
	b = append(b, '"')
	for {
		i := strings.IndexAny(text, "\\\"\n")
		if i < 0 {
			return append(append(b, text...), '"')
		}
		b = append(append(b, text[:i]...), '\\')
		if text[i] == '\n' {
			b = append(b, 'n')
		} else {
			b = append(b, text[i])
		}
		text = text[i+1:]
	}
}

// appendNumber appends a float that is a number or infinite.
func appendNumber(b []byte, f float64) []byte { return strconv.AppendFloat(b, f, 'g', -1, 64) }

// appendSeconds appends a time in milliseconds as seconds.
func appendSeconds(b []byte, ms int64) []byte {
	if ms < 0 {
		b, ms = append(b, '-'), -ms
	}
	b = append(strconv.AppendInt(b, ms/1000, 10), '.')
	return append(b, byte('0'+ms/100%10), byte('0'+ms/10%10), byte('0'+ms%10))
}
