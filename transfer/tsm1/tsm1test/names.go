package tsm1test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// SeriesKey returns a key as a series file has it: a measurement, and keys and values of tags
// in turn.
func SeriesKey(measurement string, tags ...string) []byte {
	b := append(binary.BigEndian.AppendUint16(nil, uint16(len(measurement))), measurement...)
	b = binary.AppendUvarint(b, uint64(len(tags)/2))
	for _, t := range tags {
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(t))), t...)
	}
	return b
}

// SeriesSegment returns a segment of a series file, with room behind its entries.
func SeriesSegment(keys ...[]byte) []byte {
	b := append([]byte("SSEG"), 1)
	for i, key := range keys {
		b = binary.BigEndian.AppendUint64(append(b, 1), uint64(8*i+1))
		b = append(binary.AppendUvarint(b, uint64(len(key))), key...)
	}
	b = binary.BigEndian.AppendUint64(append(b, 2), 1) // the first one was deleted
	return append(b, make([]byte, 100)...)
}

// Fields returns fields.idx with one measurement after the other: its name, then its fields,
// in one text each.
func Fields(measurements ...string) []byte {
	b := []byte{0, 6, 1, 3}
	for _, m := range measurements {
		name, fields, _ := strings.Cut(m, " ")
		of := Message{}.Text(1, name)
		for f := range strings.FieldsSeq(fields) {
			of = of.With(2, Message{}.Text(1, f).Number(2, 1))
		}
		b = protowire.AppendBytes(protowire.AppendTag(b, 1, protowire.BytesType), of)
	}
	return b
}

// FieldChange returns a change as fields.idxl has it.
func FieldChange(measurement, field string) []byte {
	change := Message{}.With(1, Message{}.Text(1, measurement).With(2, Message{}.Text(1, field).Number(2, 1)))
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(change))), change...)
}

// WriteFile writes a file below a directory that may not be there yet.
func WriteFile(t testing.TB, b []byte, path ...string) {
	t.Helper()
	name := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
