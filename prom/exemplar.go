package prom

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"unicode/utf8"

	"tsdbd/internal/binio"
	"tsdbd/model"
)

// maxExemplarLabels is how many characters the names and values of the labels of an
// exemplar may have together, as OpenMetrics says.
const maxExemplarLabels = 128

// maxExemplars bounds the exemplars that are read of a request.
const maxExemplars = 1 << 16

// exemplarBytes is what an exemplar takes in a batch in addition to its texts.
const exemplarBytes = 64

var (
	errExemplarLabels = fmt.Errorf("the labels of an exemplar have more than %d characters", maxExemplarLabels)
	errExemplarText   = errors.New("the labels of an exemplar are not valid: names twice or empty, or no UTF-8")
)

// Exemplar adds an exemplar of a series, whose labels come in any order, as do those of
// the exemplar. bad is why it cannot be stored, err an error of Charge.
func (p *Rows) Exemplar(series, labels model.Tags, ms int64, value float64) (bad, err error) {
	if len(p.Exemplars) == maxExemplars || p.Builder.Series(Measurement(series), series) != nil {
		return nil, nil // or its samples are refused
	}
	size := 0
	characters := 0
	labels.Sort()
	for i, l := range labels {
		if l.Value == "" {
			continue
		}
		size += 2*binary.MaxVarintLen16 + len(l.Key) + len(l.Value)
		if characters += utf8.RuneCountInString(l.Key) + utf8.RuneCountInString(l.Value); characters > maxExemplarLabels {
			return errExemplarLabels, nil
		}
		if l.Key == "" || i > 0 && labels[i-1].Key == l.Key || !utf8.ValidString(l.Key) || !utf8.ValidString(l.Value) {
			return errExemplarText, nil
		}
	}
	key := p.Builder.Key()
	fresh := string(key) != p.key
	if fresh {
		size += len(key)
	}
	if err := p.Pay(exemplarBytes + size); err != nil {
		return nil, err
	}
	if fresh {
		p.key = string(key)
	}
	text := make([]byte, 0, size)
	for _, l := range labels {
		if l.Value != "" {
			text = binio.AppendString(binio.AppendString(text, l.Key), l.Value)
		}
	}
	p.Exemplars = append(p.Exemplars, model.Exemplar{Series: p.key, Time: ms, Value: value, Labels: string(text)})
	return nil, nil
}

// ExemplarLabels yields the labels of an exemplar, sorted by name.
func ExemplarLabels(e *model.Exemplar) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for d := binio.NewDecoder([]byte(e.Labels)); d.Len() > 0; {
			name, value := d.String(), d.String()
			if d.Err() != nil || !yield(name, value) {
				return
			}
		}
	}
}
