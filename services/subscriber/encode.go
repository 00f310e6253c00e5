package subscriber

import (
	"math"

	"tsdbd/lineproto/wire"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
)

// encoder writes the rows of a batch. The zero value is ready.
type encoder struct {
	prefixes map[*point.Layout][]string // the texts before the values
	layout   *point.Layout              // of the latest row
	latest   []string                   // its prefixes
}

func (e *encoder) of(l *point.Layout) []string {
	if l == e.layout {
		return e.latest
	}
	p := e.prefixes[l]
	if p == nil {
		p = make([]string, len(l.Fields))
		for i := range p {
			p[i] = wire.FieldPrefix(l.Fields[i].Key)
		}
		if e.prefixes == nil {
			e.prefixes = map[*point.Layout][]string{}
		}
		e.prefixes[l] = p
	}
	e.layout, e.latest = l, p
	return p
}

// append appends a row as a line of line protocol, time in nanoseconds.
func (e *encoder) append(dst []byte, b *point.Batch, r *point.Row) []byte {
	prefixes := e.of(r.Layout)
	dst = wire.AppendSeries(dst, r.Series.Key())
	for i, f := range r.Layout.Fields {
		if i == 0 {
			dst = append(dst, ' ')
		} else {
			dst = append(dst, ',')
		}
		dst = append(dst, prefixes[i]...)
		switch word := b.Values[int(r.First)+i]; f.Type {
		case model.Float:
			dst = wire.AppendFloat(dst, math.Float64frombits(word))
		case model.Integer:
			dst = wire.AppendInteger(dst, int64(word))
		case model.Unsigned:
			dst = wire.AppendUnsigned(dst, word)
		case model.Boolean:
			dst = wire.AppendBoolean(dst, word != 0)
		case model.String:
			dst = wire.AppendString(dst, column.StringAt(word, b.Strings))
		}
	}
	return wire.AppendTime(dst, r.Time)
}
