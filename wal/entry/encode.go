package entry

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"tsdbd/internal/binio"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
)

// The payload of a command is the command. That of a move is this (uv = unsigned varint):
//
//	database uv, changes uv, then per change:
//	  length uv, the change,
//	  shards uv, then per shard: shard uv, length uv, series bytes
//
// That of exemplars is this:
//
//	database uv, the list
//
// That of any other entry is this (zv = zigzag varint):
//
//	writes uv, then per write:  database uv, shard uv, rows uv, the rows
//	deletes uv, then per delete: database uv, shard uv, min zv, max zv,
//	                             length uv, series bytes
//
//	row:  control u8, [layout], [series zv], [time zv], lengths, values
//	      control: bits 0-1 series, 2-3 time, 4 layout; 5-7 zero
//
// Series, time and layout are relative to the row before: the state
// starts at series 0 with step 1, time 0 with step 0, no layout, in every write.
//
//   - series 0: same series; 1: plus the last step; 2: a step follows
//   - time: likewise
//   - layout bit set: a layout number follows (uv). Layouts are numbered from 0
//     in the order of first use within the entry; a number not used before is
//     followed by its definition: measurement (uv length, bytes), fields uv,
//     per field type u8 and key (uv length, bytes)
//   - lengths: 4 bits per field, low nibble first: how many bytes of the
//     value follow; for a boolean the value itself, 0 or 1
//   - values, little-endian without the high zero bytes: integers zigzag,
//     unsigned as they are, floats with their 8 bytes reversed (so that trailing
//     zero bytes of the mantissa are the ones dropped), strings as the length of
//     the text, followed by the text

const (
	stepSame     = 0
	stepLast     = 1
	stepExplicit = 2

	controlTimeShift = 2
	controlLayout    = 1 << 4
	controlKnown     = 0x1f
)

// plan is what encoder and decoder have to know of a layout.
type plan struct {
	layout *point.Layout
	types  []model.FieldType
	// only is the type of all fields, or Unknown when they differ.
	only model.FieldType
	// bound is the most bytes a row's lengths and values take, strings' text
	// apart; for the encoder.
	bound int
}

// Encoder turns entries into their payloads, one after the other. Payload and IDs
// are valid until the next Encode. The zero value works.
type Encoder struct {
	Payload []byte
	IDs     []uint32 // the series id of every row, in order of writes and rows
	plans   []plan
	index   map[*point.Layout]int // used when there are many plans
}

const manyPlans = 8

// maxRowHead bounds control, layout number, series step and time step.
const maxRowHead = 1 + 3*binary.MaxVarintLen64

// Encode replaces Payload and IDs by those of e. It refuses what a reader could
// not give back: rows out of bounds, series without an id, over-long strings.
func (c *Encoder) Encode(e *Entry) error {
	clear(c.plans)
	c.Payload, c.IDs, c.plans = c.Payload[:0], c.IDs[:0], c.plans[:0]
	clear(c.index)
	kinds := 0
	for _, has := range [...]bool{len(e.Writes)+len(e.Deletes) > 0, len(e.Command) > 0, e.Move != nil, e.Exemplars != nil} {
		if has {
			kinds++
		}
	}
	if kinds > 1 {
		return errors.New("an entry has points, a command, a move, or exemplars, and nothing else")
	}
	switch e.Kind() {
	case KindCommand:
		c.Payload = append(c.Payload, e.Command...)
	case KindExemplars:
		c.Payload = append(binary.AppendUvarint(c.Payload, uint64(e.Exemplars.Database)), e.Exemplars.List...)
	case KindMove:
		c.move(e.Move)
	default:
		return c.points(e)
	}
	return nil
}

func (c *Encoder) points(e *Entry) error {
	c.Payload = binary.AppendUvarint(c.Payload, uint64(len(e.Writes)))
	for i := range e.Writes {
		if err := c.write(&e.Writes[i]); err != nil {
			return err
		}
	}
	c.Payload = binary.AppendUvarint(c.Payload, uint64(len(e.Deletes)))
	for i := range e.Deletes {
		d := &e.Deletes[i]
		c.Payload = binary.AppendUvarint(c.Payload, uint64(d.Database))
		c.Payload = binary.AppendUvarint(c.Payload, d.Shard)
		c.Payload = binary.AppendUvarint(c.Payload, binio.ZigZag(d.Range.Min))
		c.Payload = binary.AppendUvarint(c.Payload, binio.ZigZag(d.Range.Max))
		c.Payload = binary.AppendUvarint(c.Payload, uint64(len(d.Series)))
		c.Payload = append(c.Payload, d.Series...)
	}
	return nil
}

func (c *Encoder) move(m *Move) {
	b := binary.AppendUvarint(c.Payload, uint64(m.Database))
	b = binary.AppendUvarint(b, uint64(len(m.Changes)))
	for i := range m.Changes {
		x := &m.Changes[i]
		b = binary.AppendUvarint(b, uint64(len(x.Change)))
		b = append(b, x.Change...)
		b = binary.AppendUvarint(b, uint64(len(x.Shards)))
		for _, s := range x.Shards {
			b = binary.AppendUvarint(b, s.Shard)
			b = binary.AppendUvarint(b, uint64(len(s.Series)))
			b = append(b, s.Series...)
		}
	}
	c.Payload = b
}

func (c *Encoder) write(w *Write) error {
	b := binary.AppendUvarint(c.Payload, uint64(w.Database))
	b = binary.AppendUvarint(b, w.Shard)
	b = binary.AppendUvarint(b, uint64(len(w.Rows)))
	var (
		layout             *point.Layout
		pl                 *plan
		series             *point.Series
		id                 uint32
		idStep             int64 = 1
		time, timeStep     int64
		sharedValues, text = w.Values, w.Strings
	)
	for i := range w.Rows {
		row := &w.Rows[i]
		control := byte(0)
		number, known := 0, true
		if row.Layout != layout || pl == nil {
			var err error
			if number, known, err = c.plan(row.Layout); err != nil {
				return fmt.Errorf("row %d of shard %d: %w", i, w.Shard, err)
			}
			layout, pl = row.Layout, &c.plans[number]
			control = controlLayout
		}
		n := len(pl.types)
		if uint64(row.First)+uint64(n) > uint64(len(sharedValues)) {
			return fmt.Errorf("row %d of shard %d: values end at %d, row needs %d", i, w.Shard, len(sharedValues), uint64(row.First)+uint64(n))
		}
		if need := maxRowHead + pl.bound; cap(b)-len(b) < need {
			b = grow(b, need)
		}

		at := len(b)
		b = append(b, 0)
		if control != 0 {
			b = binary.AppendUvarint(b, uint64(number))
			if !known {
				b = appendLayout(b, layout)
				if need := maxRowHead + pl.bound; cap(b)-len(b) < need {
					b = grow(b, need)
				}
			}
		}
		if row.Series != series || series == nil {
			series = row.Series
			if series == nil || series.ID() == 0 {
				return fmt.Errorf("row %d of shard %d: series has no id", i, w.Shard)
			}
			if n := series.KeyLength(); n > model.MaxKeyLength {
				return fmt.Errorf("row %d of shard %d: series key of %d bytes exceeds %d", i, w.Shard, n, model.MaxKeyLength)
			}
			next := uint32(series.ID())
			if step := int64(next) - int64(id); step == idStep {
				control |= stepLast
			} else if step != 0 {
				control |= stepExplicit
				b = binary.AppendUvarint(b, binio.ZigZag(step))
				idStep = step
			}
			id = next
		}
		c.IDs = append(c.IDs, id)
		if step := row.Time - time; step == 0 {
			// Same instant as the row before: the usual case in a scrape.
		} else if step == timeStep {
			control |= stepLast << controlTimeShift
		} else {
			control |= stepExplicit << controlTimeShift
			b = binary.AppendUvarint(b, binio.ZigZag(step))
			timeStep = step
		}
		time = row.Time
		b[at] = control

		values := sharedValues[row.First : uint64(row.First)+uint64(n)]
		switch pl.only {
		case model.Integer, model.Float:
			b = appendWords(b, values, pl.only == model.Float)
		default:
			var err error
			if b, err = appendMixed(b, pl.types, values, text); err != nil {
				return fmt.Errorf("row %d of shard %d: %w", i, w.Shard, err)
			}
		}
	}
	c.Payload = b
	return nil
}

// Trim gives up what an encode left behind except for the buffers, and these as well
// if the payload takes more than keep bytes.
func (c *Encoder) Trim(keep int) {
	clear(c.plans)
	clear(c.index)
	if cap(c.Payload) > keep {
		*c = Encoder{}
	}
}

// plan finds or makes the plan of a layout; known is false when it was made.
func (c *Encoder) plan(l *point.Layout) (number int, known bool, err error) {
	if len(c.plans) <= manyPlans {
		for i := range c.plans {
			if c.plans[i].layout == l {
				return i, true, nil
			}
		}
	} else if i, ok := c.index[l]; ok {
		return i, true, nil
	}
	if l == nil || len(l.Fields) == 0 {
		return 0, false, fmt.Errorf("row has no fields")
	}
	p := plan{layout: l, types: make([]model.FieldType, len(l.Fields)), only: l.Fields[0].Type}
	for i := range l.Fields {
		t := l.Fields[i].Type
		if !t.Valid() {
			return 0, false, fmt.Errorf("field %q has type %v", l.Fields[i].Key, t)
		}
		p.types[i] = t
		if t != p.only {
			p.only = model.Unknown
		}
	}
	p.bound = (len(l.Fields)+1)/2 + 8*len(l.Fields) + 8
	c.plans = append(c.plans, p)
	number = len(c.plans) - 1
	if len(c.plans) > manyPlans {
		if c.index == nil {
			c.index = make(map[*point.Layout]int)
		}
		if len(c.index) == 0 {
			for i := range c.plans {
				c.index[c.plans[i].layout] = i
			}
		}
		c.index[l] = number
	}
	return number, false, nil
}

func appendLayout(dst []byte, l *point.Layout) []byte {
	dst = binio.AppendString(dst, l.Measurement)
	dst = binary.AppendUvarint(dst, uint64(len(l.Fields)))
	for i := range l.Fields {
		dst = append(dst, byte(l.Fields[i].Type))
		dst = binio.AppendString(dst, l.Fields[i].Key)
	}
	return dst
}

// grow returns b with room for n more bytes; it at least doubles.
func grow(b []byte, n int) []byte {
	g := make([]byte, len(b), max(2*cap(b), len(b)+n, 4096))
	copy(g, b)
	return g
}

// byteLength returns how many bytes v takes without its high zero bytes.
func byteLength(v uint64) int { return (bits.Len64(v) + 7) >> 3 }

// appendWords appends lengths and values of a row of integers, or of floats. There must
// be room for (n+1)/2 + 8n + 8 bytes.
func appendWords(b []byte, values []uint64, float bool) []byte {
	n := len(values)
	lengths := b[len(b) : len(b)+(n+1)/2]
	p := len(b) + len(lengths)
	out := b[:cap(b)]
	for len(values) >= 2 {
		u, v := values[0], values[1]
		if float {
			u, v = bits.ReverseBytes64(u), bits.ReverseBytes64(v)
		} else {
			u = u<<1 ^ uint64(int64(u)>>63)
			v = v<<1 ^ uint64(int64(v)>>63)
		}
		lu, lv := byteLength(u), byteLength(v)
		binary.LittleEndian.PutUint64(out[p:], u)
		p += lu
		binary.LittleEndian.PutUint64(out[p:], v)
		p += lv
		lengths[0] = byte(lu | lv<<4)
		lengths, values = lengths[1:], values[2:]
	}
	if len(values) > 0 {
		u := values[0]
		if float {
			u = bits.ReverseBytes64(u)
		} else {
			u = binio.ZigZag(int64(u))
		}
		binary.LittleEndian.PutUint64(out[p:], u)
		l := byteLength(u)
		p += l
		lengths[0] = byte(l)
	}
	return b[:p]
}

// appendMixed is appendWords for fields of any types; the room does not
// include the strings' text.
func appendMixed(b []byte, types []model.FieldType, values []uint64, text []byte) ([]byte, error) {
	at := len(b)
	b = b[:at+(len(types)+1)/2]
	clear(b[at:])
	for i, t := range types {
		v := values[i]
		l := 0
		switch t {
		case model.Integer:
			v = binio.ZigZag(int64(v))
			l = byteLength(v)
		case model.Float:
			v = bits.ReverseBytes64(v)
			l = byteLength(v)
		case model.Unsigned:
			l = byteLength(v)
		case model.Boolean:
			if v != 0 {
				b[at+i>>1] |= 1 << (4 * (i & 1))
			}
			continue
		case model.String:
			offset, length := v>>24, v&(1<<24-1)
			if length > column.MaxStringLength || offset+length > uint64(len(text)) {
				return nil, fmt.Errorf("string of %d bytes at %d exceeds its limit or its buffer", length, offset)
			}
			l = byteLength(length)
			// Room for what is left of the row after this text.
			if need := int(length) + 8*(len(types)-i) + 16; cap(b)-len(b) < need {
				b = grow(b, need)
			}
			n := len(b)
			binary.LittleEndian.PutUint64(b[n:n+8], length)
			b = append(b[:n+l], text[offset:offset+length]...)
			b[at+i>>1] |= byte(l) << (4 * (i & 1))
			continue
		}
		n := len(b)
		binary.LittleEndian.PutUint64(b[n:n+8], v)
		b = b[:n+l]
		b[at+i>>1] |= byte(l) << (4 * (i & 1))
	}
	return b, nil
}
