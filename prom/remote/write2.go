package remote

import (
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"tsdbd/model/point"
	"tsdbd/prom"
	"tsdbd/prom/metadata"
	"tsdbd/prom/proto"
)

// symbols are the texts that a request of remote write 2.0 refers to by number.
type symbols struct {
	request []byte
	at      []uint32            // where in request the length and the bytes of each begin
	prints  []point.Fingerprint // of each that was asked for; else zero
}

// appendPrints appends the fingerprints of the symbols that labels refer to.
func (s *symbols) appendPrints(dst, labels []byte, b *point.Builder) ([]byte, bool) {
	most := len(dst) + 2*maxLabels*len(point.Fingerprint{})
	add := func(ref uint64) bool {
		if ref >= uint64(len(s.at)) || len(dst) == most {
			return false
		}
		f := &s.prints[ref]
		if *f == (point.Fingerprint{}) {
			text, _ := protowire.ConsumeBytes(s.request[s.at[ref]:])
			*f = b.Fingerprint(text)
		}
		dst = append(dst, f[:]...)
		return true
	}
	for r := proto.Read(labels); r.Next(); {
		if r.Data == nil && !add(r.Num) {
			return dst, false
		}
		for b := r.Data; len(b) > 0; {
			ref, n := protowire.ConsumeVarint(b)
			if n < 0 || !add(ref) {
				return dst, false
			}
			b = b[n:]
		}
	}
	return dst, true
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

// Write2 reads a Request of remote write 2.0 into rows, as Write does. It also returns
// errors of rows.Charge: a small request can refer to a long symbol many times.
func Write2(b []byte, rows *prom.Rows) (Written, error) {
	rows.Credit = len(b)
	var symbols symbols
	rest, err := symbols.gather(b)
	if err != nil {
		return Written{}, err
	}
	if err := rows.Pay(len(symbols.at) * len(point.Fingerprint{})); err != nil {
		return Written{}, err
	}
	symbols.prints = make([]point.Fingerprint, len(symbols.at))
	w := newWriter(rows, numbers{samples: 2, histograms: 3, exemplars: 4}, &symbols)
	for r := proto.Read(rest); r.Next(); { // which gather has read
		if r.Field != 5 || r.Data == nil {
			continue
		}
		if err := w.timeSeries(r.Data); err != nil {
			return Written{}, err
		}
	}
	return w.written, nil
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
func (w *writer) describe(metric string, refs metadataRefs) error {
	if refs == (metadataRefs{}) || w.last.metric == metric && w.last.refs == refs {
		return nil
	}
	w.last.metric, w.last.refs = metric, refs
	help, err := w.labels.symbols.text(refs.help)
	unit, failed := w.labels.symbols.text(refs.unit)
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
