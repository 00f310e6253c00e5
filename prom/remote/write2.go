package remote

import (
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"tsdbd/model"
	"tsdbd/prom"
	"tsdbd/prom/metadata"
	"tsdbd/prom/proto"
)

// symbols are the texts that a request of remote write 2.0 refers to by number.
type symbols struct {
	request []byte
	at      []uint32 // where in request the length and the bytes of each begin
}

// text returns a symbol. The request is known to be well-formed.
func (s *symbols) text(ref uint64) (string, error) {
	if ref >= uint64(len(s.at)) {
		return "", fmt.Errorf("reference %d is outside of the %d symbols", ref, len(s.at))
	}
	b, _ := protowire.ConsumeBytes(s.request[s.at[ref]:])
	return proto.Text(b), nil
}

// gather finds the symbols and the first series of a request.
func (s *symbols) gather(b []byte) (first []byte, err error) {
	if uint64(len(b)) > math.MaxUint32 {
		return nil, errors.New("the message is too large")
	}
	s.request = b
	r := proto.Read(b)
	for at := b; r.Next(); at = r.Rest {
		switch {
		case r.Data == nil:
		case r.Field == 4:
			if len(s.at) == 0 && len(r.Data) > 0 {
				return nil, errors.New("the first symbol is not the empty string")
			}
			_, _, tag := protowire.ConsumeTag(at)
			s.at = append(s.at, uint32(len(b)-len(at)+tag))
		case r.Field == 5:
			if first == nil {
				first = at
			}
		case r.Field == 1 || r.Field == 3:
			return nil, errors.New("the message is one of remote write 1.0, but its Content-Type is that of 2.0")
		}
	}
	if r.Err == nil && len(s.at) == 0 && first != nil {
		return nil, errors.New("the message has no symbols")
	}
	return first, r.Err
}

// metadataRefs is a Metadata message.
type metadataRefs struct{ kind, help, unit uint64 }

// writer2 reads a request of remote write 2.0.
type writer2 struct {
	writer
	symbols symbols
	last    struct { // the latest metadata; the series of a metric follow each other
		metric string
		refs   metadataRefs
	}
}

// Write2 reads a Request of remote write 2.0 into rows, as Write does. It also returns
// errors of rows.Charge: a small request can refer to a long symbol many times.
func Write2(b []byte, rows *prom.Rows) (Written, error) {
	rows.Credit = len(b)
	w := writer2{writer: writer{rows: rows}}
	w.label = w.exemplarLabel
	rest, err := w.symbols.gather(b)
	if err != nil {
		return Written{}, err
	}
	for r := proto.Read(rest); r.Next(); { // which gather has read
		if r.Field != 5 || r.Data == nil {
			continue
		}
		w.series++
		if err := w.timeSeries(r.Data); err != nil {
			return Written{}, err
		}
	}
	return w.written, nil
}

// timeSeries reads a TimeSeries message of version 2.0.
func (w *writer2) timeSeries(b []byte) error {
	refs := refReader{w: w, tags: w.labels[:0]}
	var about metadataRefs
	var start int64
	var first []byte
	described := false
	r := proto.Read(b)
	for at := b; r.Next(); at = r.Rest {
		var err error
		switch {
		case r.Field == 1:
			err = refs.read(&r.Member)
		case r.Field == 5 && r.Data != nil:
			described = true
			err = about.read(r.Data)
		case r.Field == 6: // of senders before the version was final
			start = int64(r.Num)
		case first == nil:
			first = at
		}
		if err != nil {
			return err
		}
	}
	if r.Err != nil {
		return r.Err
	}
	w.labels = refs.tags
	refused := refs.end()
	if described && refused == nil {
		if err := w.describe(refs.metric, about); err != nil {
			return err
		}
	}
	return w.add(first, numbers{samples: 2, histograms: 3, exemplars: 4}, start, refused)
}

// read reads a Metadata message.
func (m *metadataRefs) read(b []byte) error {
	r := proto.Read(b)
	for r.Next() {
		switch r.Field {
		case 1:
			m.kind = r.Num
		case 3:
			m.help = r.Num
		case 4:
			m.unit = r.Num
		}
	}
	return r.Err
}

// describe keeps the metadata of a series. Many may refer to the same long text, of
// which each gets a copy when it is written.
func (w *writer2) describe(metric string, refs metadataRefs) error {
	if refs == (metadataRefs{}) || w.last.metric == metric && w.last.refs == refs {
		return nil
	}
	w.last.metric, w.last.refs = metric, refs
	help, err := w.symbols.text(refs.help)
	unit, failed := w.symbols.text(refs.unit)
	if err = errors.Join(err, failed); err != nil {
		w.blame(fmt.Errorf("metadata: %w", err))
		return nil
	}
	if err := w.rows.Pay(len(metric) + len(help) + len(unit)); err != nil {
		return err
	}
	w.entry(metadata.Entry{Metric: metric, Type: metadata.Type(refs.kind), Help: help, Unit: unit})
	return nil
}

// exemplarLabel reads references of an exemplar.
func (w *writer2) exemplarLabel(labels model.Tags, m *proto.Member) (model.Tags, error) {
	r := refReader{w: w, tags: labels}
	if err := r.read(m); err != nil {
		return labels, err
	}
	if r.refused == nil && r.count%2 == 1 {
		r.refused = errOddReferences
	}
	if r.refused != nil {
		r.refused = fmt.Errorf("exemplar: %w", r.refused)
	}
	return r.tags, r.refused
}

var errOddReferences = errors.New("an odd number of references is no list of labels")

// refReader turns references into labels.
type refReader struct {
	w       *writer2
	tags    model.Tags
	count   int
	name    string // of the label whose value comes next
	metric  string
	refused error // the first reason
}

// read reads references, which come packed or one by one.
func (r *refReader) read(m *proto.Member) error {
	if m.Data == nil {
		r.add(m.Num)
		return nil
	}
	for b := m.Data; len(b) > 0; {
		ref, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return proto.ErrInvalid
		}
		r.add(ref)
		b = b[n:]
	}
	return nil
}

func (r *refReader) add(ref uint64) {
	if r.refused != nil {
		return
	}
	s, err := r.w.symbols.text(ref)
	if err != nil {
		r.refused = fmt.Errorf("labels: %w", err)
		return
	}
	if r.count++; r.count%2 == 1 {
		if r.name = s; s == "" {
			r.refused = errors.New("a label has an empty name")
		}
		return
	}
	if len(r.tags) == maxLabels {
		r.refused = errLabels
		return
	}
	if r.name == prom.NameLabel {
		r.metric = s
	}
	r.tags = append(r.tags, model.Tag{Key: r.name, Value: s})
}

// end returns why the series cannot be stored, or nil.
func (r *refReader) end() error {
	switch {
	case r.refused != nil:
		return r.refused
	case r.count%2 == 1:
		return errOddReferences
	case r.metric == "":
		return errors.New("there is no label " + prom.NameLabel)
	}
	return nil
}
