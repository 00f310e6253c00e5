package otlp

import (
	"cmp"
	"encoding/hex"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"tsdbd/model"
)

// Labels of exemplars that OpenTelemetry has fields for.
const (
	traceLabel = "trace_id"
	spanLabel  = "span_id"
)

// maxExemplarAttributes is how many characters the labels of an exemplar may have with its
// attributes: with more it has only the ids.
const maxExemplarAttributes = 128

// exemplar is an exemplar of a data point.
type exemplar struct {
	ms     int64
	value  float64
	labels model.Tags
}

// readExemplars reads the exemplars of the data point, in the order of their times.
func (p *point) readExemplars() (list []exemplar, err error) {
	for _, b := range p.exemplars {
		var e exemplar
		var filtered attributes
		f := read(b, "Exemplar")
		for f.Next() {
			switch f.Field {
			case 2:
				e.ms = int64(f.fixed() / 1e6)
			case 3:
				e.value = f.double()
			case 4:
				e.id(spanLabel, f.message())
			case 5:
				e.id(traceLabel, f.message())
			case 6:
				e.value = float64(int64(f.fixed()))
			case 7:
				if err := filtered.add(f.message()); err != nil {
					return nil, err
				}
			}
		}
		if f.Err != nil {
			return nil, f.Err
		}
		characters := 0
		for _, l := range e.labels {
			characters += len(l.Key) + len(l.Value)
		}
		for _, a := range filtered.list {
			characters += utf8.RuneCountInString(a.key) + utf8.RuneCountInString(a.value)
		}
		if characters <= maxExemplarAttributes {
			for _, a := range filtered.list {
				e.labels = set(e.labels, a.key, a.value)
			}
		}
		list = append(list, e)
	}
	slices.SortStableFunc(list, func(a, b exemplar) int { return cmp.Compare(a.ms, b.ms) })
	return list, nil
}

// id adds an id that is not zero.
func (e *exemplar) id(label string, id []byte) {
	if strings.Trim(string(id), "\x00") != "" {
		e.labels = set(e.labels, label, hex.EncodeToString(id))
	}
}

// addExemplars gives those of the exemplars to the series that was added last whose value is
// above one and not above another.
func (t *translation) addExemplars(list []exemplar, above, most float64) error {
	for _, e := range list {
		if e.value <= above || e.value > most && !math.IsInf(most, 1) {
			continue
		}
		if _, err := t.sink.Rows.Exemplar(t.series, e.labels, e.ms, e.value); err != nil {
			return err
		}
	}
	return nil
}

// addAllExemplars gives all exemplars to the series that was added last.
func (t *translation) addAllExemplars() error {
	list, err := t.point.readExemplars()
	if err != nil || t.point.stale {
		return err
	}
	return t.addExemplars(list, math.Inf(-1), math.Inf(1))
}
