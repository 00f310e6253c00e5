package tsm1

import (
	"github.com/cespare/xxhash/v2"

	"tsdbd/model"
	"tsdbd/transfer/tsm1/catalog"
)

// kindTable finds the fields of measurements that have several types in a shard. InfluxDB
// keeps fields to one type in a shard, but its files may differ after a damage or a
// restore.
//
// A shard may have as many measurements as series. So the table first notes the types by
// the hash of the field only. If a hash has several types, which may be chance, the values
// of its fields are counted in a second round.
type kindTable struct {
	seen   []uint8 // by hash: a bit for each type
	clash  bool    // a hash has several types
	counts map[string]*kindCount
	buf    []byte
}

type kindCount [model.Boolean + 1]int64

const (
	minKinds = 1 << 20
	maxKinds = 1 << 27
	// indexBytesOfKind is how many bytes of an index a place in the table is for. A key
	// takes 100, so that few fields share a place.
	indexBytesOfKind = 8
)

// newKindTable returns a table for an index of so many bytes. Places that no field has
// take no memory.
func newKindTable(indexBytes int64) *kindTable {
	n := int64(minKinds)
	for n < indexBytes/indexBytesOfKind && n < maxKinds {
		n *= 2
	}
	return &kindTable{seen: make([]uint8, n)}
}

// fieldOf appends the measurement of a canonical key, escaped, and a field.
func fieldOf(dst, key, field []byte) []byte {
	return catalog.AppendField(dst, key[:measurementEnd(key)], field)
}

// measurementEnd returns the length of the measurement that a key begins with.
func measurementEnd(key []byte) int {
	end := 0
	for end < len(key) && (key[end] != ',' || end > 0 && key[end-1] == '\\') {
		end++
	}
	return end
}

// add notes n values of a field.
func (k *kindTable) add(key, field []byte, kind model.FieldType, n int64) {
	k.buf = fieldOf(k.buf[:0], key, field)
	seen := &k.seen[xxhash.Sum64(k.buf)&uint64(len(k.seen)-1)]
	bit := uint8(1) << kind
	if k.counts == nil {
		k.clash = k.clash || *seen|bit != bit
		*seen |= bit
		return
	}
	if *seen|bit == bit {
		return
	}
	c := k.counts[string(k.buf)]
	if c == nil {
		c = &kindCount{}
		k.counts[string(k.buf)] = c
	}
	c[kind] += n
}

// recount begins the second round.
func (k *kindTable) recount() { k.counts = map[string]*kindCount{} }

// clashes returns the type of the most values of each field that has several types.
func (k *kindTable) clashes() map[string]model.FieldType {
	out := map[string]model.FieldType{}
	for field, c := range k.counts {
		most, types := model.Unknown, 0
		for kind, n := range c {
			if n == 0 {
				continue
			}
			types++
			if n > c[most] {
				most = model.FieldType(kind)
			}
		}
		if types > 1 {
			out[field] = most
		}
	}
	return out
}

// fieldNames keeps one string for each field key.
type fieldNames map[string]string

// maxFieldNames bounds the strings that are kept.
const maxFieldNames = 1 << 16

func (n fieldNames) of(field []byte) string {
	if s, ok := n[string(field)]; ok {
		return s
	}
	if len(n) >= maxFieldNames {
		clear(n)
	}
	s := string(field)
	n[s] = s
	return s
}
