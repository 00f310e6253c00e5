package tsm

import "tsdbd/tsm/codec"

// ColumnEncoding says how a column of a chunk is written.
type ColumnEncoding struct {
	Field  int    // place in Series.Fields; -1: the times
	Name   string // as codec.EncodingName has it, or one of the three below
	Values int
	Bytes  int // of the values
}

// Encodings of columns that have no block.
const (
	// RegularTimes follow from the first time and the step in the index.
	RegularTimes = "regular"
	// SharedTimes are those of a chunk before, and the column is a reference.
	SharedTimes = "shared"
	// LoneValue is a value written as it is, the only one of its column.
	LoneValue = "lone"
)

// Encodings appends to dst the encodings of the chunk's columns that have values.
// It reads headers of blocks and verifies checksums, but decodes no values.
func (c *Chunk) Encodings(dst []ColumnEncoding) ([]ColumnEncoding, error) {
	at := c.timeColumns()
	if at == 0 {
		dst = append(dst, ColumnEncoding{Field: -1, Name: RegularTimes, Values: c.e.Rows})
	} else {
		b, _, err := c.timeBlock()
		if err != nil {
			return dst, err
		}
		e := ColumnEncoding{Field: -1, Name: SharedTimes, Values: c.e.Rows, Bytes: int(c.places[0].size)}
		if !c.places[0].sparse {
			e.Name = codec.EncodingName(b, c.e.Rows, codec.Integers)
		}
		dst = append(dst, e)
	}
	for i := range c.fields {
		b, err := c.raw(at + i)
		if err != nil {
			return dst, err
		}
		if len(b) == 0 {
			continue
		}
		d := c.column(i)
		d.ready = false // valid is not that of the vector any more
		count, off, err := c.presence(at+i, b, &d.valid)
		if err != nil {
			return dst, err
		}
		e := ColumnEncoding{Field: i, Name: LoneValue, Values: count, Bytes: len(b) - off}
		if count > 1 {
			e.Name = codec.EncodingName(b[off:], count, kindOf(c.fields[i].Type))
		}
		dst = append(dst, e)
	}
	return dst, nil
}
