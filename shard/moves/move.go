package moves

import (
	"encoding/binary"
	"fmt"

	"tsdbd/internal/binio"
	"tsdbd/model"
)

// Move is a change of series or of the name of a field, as of a sequence of the log.
type Move struct {
	Sequence uint64       `json:"sequence"`
	Change   model.Change `json:"change"`
	Pairs    *Pairs       `json:"-"` // empty where a field is renamed
}

// Append appends the encoded change and pairs of a move, without its sequence:
//
//	measurement, to
//	tags set uv, then key and value of each; tags dropped uv, then the key of each
//	tag renamed from, to; field renamed from, to
//	the pairs, see appendPairs
//
// A string is its length (uv) and its bytes.
func (m *Move) Append(dst []byte) []byte {
	c := &m.Change
	dst = binio.AppendString(dst, c.Measurement)
	dst = binio.AppendString(dst, c.To)
	dst = binary.AppendUvarint(dst, uint64(len(c.Set)))
	for _, t := range c.Set {
		dst = binio.AppendString(dst, t.Key)
		dst = binio.AppendString(dst, t.Value)
	}
	dst = binary.AppendUvarint(dst, uint64(len(c.Drop)))
	for _, key := range c.Drop {
		dst = binio.AppendString(dst, key)
	}
	for _, s := range []string{c.RenameTag.From, c.RenameTag.To, c.RenameField.From, c.RenameField.To} {
		dst = binio.AppendString(dst, s)
	}
	return appendPairs(dst, m.Pairs)
}

// Read reads a move as Append has written it. It copies what it keeps.
func Read(d *binio.Decoder) *Move {
	m := &Move{}
	c := &m.Change
	c.Measurement, c.To = d.String(), d.String()
	for range d.Count(2) {
		c.Set = append(c.Set, model.Tag{Key: d.String(), Value: d.String()})
	}
	for range d.Count(1) {
		c.Drop = append(c.Drop, d.String())
	}
	c.RenameTag = model.Rename{From: d.String(), To: d.String()}
	c.RenameField = model.Rename{From: d.String(), To: d.String()}
	m.Pairs = decodePairs(d)
	return m
}

// Decode reads the bytes of Append.
func Decode(sequence uint64, b []byte) (*Move, error) {
	d := binio.NewDecoder(b)
	m := Read(&d)
	m.Sequence = sequence
	if d.Err() == nil && d.Len() > 0 {
		d.Fail("bytes after the move")
	}
	if err := d.Err(); err != nil {
		return nil, fmt.Errorf("decode move: %w", err)
	}
	return m, nil
}

// to returns the name that a series has after the move.
func (m *Move) to(id model.SeriesID) model.SeriesID {
	if to, ok := m.Pairs.To(id); ok {
		return to
	}
	return id
}
