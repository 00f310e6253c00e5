// Package block decodes the blocks of InfluxDB's TSM files of version 1: times and
// values of one field of one series. docs/formats/influxdb-tsm1.md draws the bytes.
//
// Parse checks a block and finds its two columns. A Decoder decodes them. No input makes
// it panic, and what it allocates is bounded by MaxRows.
//
// The package does not know of files and keys. A Decoder belongs to one goroutine.
package block

import (
	"encoding/binary"
	"hash/crc32"

	"tsdbd/internal/binio"
	"tsdbd/model"
	"tsdbd/model/column"
)

// MaxRows bounds the values of a block. InfluxDB writes 1,000 of them, in some settings
// 100,000. A run length is only a number, so that a damaged one needs a bound.
const MaxRows = 1 << 20

// types are the types of values by the number that blocks and index entries have.
var types = [...]model.FieldType{model.Float, model.Integer, model.Boolean, model.String, model.Unsigned}

// TypeOf returns the type that a number means, or model.Unknown.
func TypeOf(number byte) model.FieldType {
	if int(number) < len(types) {
		return types[number]
	}
	return model.Unknown
}

// Block is a block whose checksum is right.
type Block struct {
	Type  model.FieldType
	Times []byte // encoded
	Data  []byte // encoded values
}

// checksumBytes precede what they cover.
const checksumBytes = 4

// Parse checks a block as it is in a file, with its checksum.
func Parse(b []byte) (Block, error) {
	if len(b) < checksumBytes+2 {
		return Block{}, binio.Corruptf("", -1, "block of %d bytes", len(b))
	}
	sum, b := binary.BigEndian.Uint32(b), b[checksumBytes:]
	if crc32.ChecksumIEEE(b) != sum {
		return Block{}, binio.Corruptf("", -1, "checksum mismatch")
	}
	t := TypeOf(b[0])
	n, at := binio.Uvarint(b, 1)
	if t == model.Unknown || at < 0 || n > uint64(len(b)-at) {
		return Block{}, binio.Corruptf("", -1, "block of type %d with %d bytes of times", b[0], n)
	}
	return Block{Type: t, Times: b[at : at+int(n)], Data: b[at+int(n):]}, nil
}

// Decoder decodes blocks. The zero value is ready.
type Decoder struct {
	words [240]uint64 // of one word of Simple-8b, which has no more
}

// Values decodes the values of a block with n times into v, whose memory it uses
// again. Strings share memory that belongs to them.
func (d *Decoder) Values(b *Block, v *column.Vector, n int) error {
	v.Reset(b.Type)
	var err error
	switch b.Type {
	case model.Float:
		v.Floats, err = appendFloats(v.Floats, b.Data, n)
	case model.Integer:
		v.Ints, err = appendIntegers(d, v.Ints, b.Data, n)
	case model.Unsigned:
		v.Uints, err = appendIntegers(d, v.Uints, b.Data, n)
	case model.Boolean:
		v.Bools, err = appendBooleans(v.Bools, b.Data, n)
	case model.String:
		v.Strings, err = appendStrings(v.Strings, b.Data, n)
	}
	if err == nil && v.Len() != n {
		err = binio.Corruptf("", -1, "%d values for %d times", v.Len(), n)
	}
	return err
}

// Count returns the number of rows of a block, by its times.
func (b *Block) Count() (int, error) { return countTimes(b.Times) }
