package tsm1

import (
	"tsdbd/model"
)

// kindCounts counts the values of each field of each measurement of a shard by their
// type. InfluxDB keeps fields to one type in a shard, but its files may differ after a
// damage or a restore.
type kindCounts struct {
	counts map[string]*kindCount
	buf    []byte
}

type kindCount [model.Boolean + 1]int64

// fieldOf appends the measurement of a canonical key, escaped, and a field.
func fieldOf(dst, key, field []byte) []byte {
	end := 0
	for end < len(key) && (key[end] != ',' || end > 0 && key[end-1] == '\\') {
		end++
	}
	return append(append(append(dst, key[:end]...), 0), field...)
}

func (k *kindCounts) add(key, field []byte, kind model.FieldType, n int64) {
	k.buf = fieldOf(k.buf[:0], key, field)
	c := k.counts[string(k.buf)]
	if c == nil {
		c = &kindCount{}
		k.counts[string(k.buf)] = c
	}
	c[kind] += n
}

// clashes returns the type of the most values of each field that has several types.
func (k *kindCounts) clashes() map[string]model.FieldType {
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
