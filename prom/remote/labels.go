package remote

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"tsdbd/model"
	"tsdbd/prom"
	"tsdbd/prom/proto"
)

// errLabels refuses a series.
var errLabels = fmt.Errorf("more than %d labels", maxLabels)

// labelReader reads the labels of a series or an exemplar: messages in version 1.0,
// references to symbols in 2.0.
type labelReader struct {
	symbols *symbols // nil: version 1.0
	most    int      // of labels
	tags    model.Tags
	refused error  // the first reason why the labels cannot be stored
	count   int    // of references
	name    string // of the label whose value comes next
}

func (l *labelReader) reset() { l.tags, l.refused, l.count = l.tags[:0], nil, 0 }

// read reads a label, or references, which come packed or one by one.
func (l *labelReader) read(m *proto.Member) (err error) {
	switch {
	case l.symbols != nil && m.Data == nil:
		l.add(m.Num)
	case l.symbols != nil:
		for b := m.Data; len(b) > 0; {
			ref, n := protowire.ConsumeVarint(b)
			if n < 0 {
				return proto.ErrInvalid
			}
			l.add(ref)
			b = b[n:]
		}
	case m.Data == nil:
	case len(l.tags) == l.most:
		l.refused = errLabels
	default:
		l.tags, err = appendLabel(l.tags, m.Data)
	}
	return err
}

func (l *labelReader) add(ref uint64) {
	if l.refused != nil {
		return
	}
	s, err := l.symbols.text(ref)
	if err != nil {
		l.refused = fmt.Errorf("labels: %w", err)
		return
	}
	if l.count++; l.count%2 == 1 {
		if l.name = s; s == "" {
			l.refused = errors.New("a label has an empty name")
		}
		return
	}
	if len(l.tags) == l.most {
		l.refused = errLabels
		return
	}
	l.tags = append(l.tags, model.Tag{Key: l.name, Value: s})
}

// end returns why the labels cannot be stored, or nil.
func (l *labelReader) end() error {
	if l.refused == nil && l.count%2 == 1 {
		return errors.New("an odd number of references is no list of labels")
	}
	return l.refused
}

// metric returns the name of the metric, or "".
func (l *labelReader) metric() string {
	for _, t := range l.tags {
		if t.Key == prom.NameLabel && t.Value != "" {
			return t.Value
		}
	}
	return ""
}
