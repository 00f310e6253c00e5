package wire

import (
	"math"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
)

// Encoder writes the rows of batches. The zero value is ready.
type Encoder struct {
	// Finite leaves out floats that are NaN or infinite, which InfluxDB cannot read,
	// and rows of nothing else.
	Finite bool

	prefixes map[*point.Layout][]string // the texts before the values
	layout   *point.Layout              // of the latest row
	latest   []string                   // its prefixes
}

func (e *Encoder) of(l *point.Layout) []string {
	if l == e.layout {
		return e.latest
	}
	p := e.prefixes[l]
	if p == nil {
		p = make([]string, len(l.Fields))
		for i := range p {
			p[i] = FieldPrefix(l.Fields[i].Key)
		}
		if e.prefixes == nil {
			e.prefixes = map[*point.Layout][]string{}
		}
		e.prefixes[l] = p
	}
	e.layout, e.latest = l, p
	return p
}

// AppendRow appends a row as a line of line protocol, time in nanoseconds.
func (e *Encoder) AppendRow(dst []byte, b *point.Batch, r *point.Row) []byte {
	prefixes := e.of(r.Layout)
	start := len(dst)
	dst = AppendSeries(dst, r.Series.Key())
	separator := byte(' ')
	for i, f := range r.Layout.Fields {
		word := b.Values[int(r.First)+i]
		if v := math.Float64frombits(word); e.Finite && f.Type == model.Float && v-v != 0 {
			continue
		}
		dst = append(append(dst, separator), prefixes[i]...)
		separator = ','
		switch f.Type {
		case model.Float:
			dst = AppendFloat(dst, math.Float64frombits(word))
		case model.Integer:
			dst = AppendInteger(dst, int64(word))
		case model.Unsigned:
			dst = AppendUnsigned(dst, word)
		case model.Boolean:
			dst = AppendBoolean(dst, word != 0)
		case model.String:
			dst = AppendString(dst, column.StringAt(word, b.Strings))
		}
	}
	if separator == ' ' {
		return dst[:start]
	}
	return AppendTime(dst, r.Time)
}
