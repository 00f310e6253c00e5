package lineproto

import (
	"bytes"
	"slices"
	"unsafe"

	"tsdbd/model"
)

// tag is a raw tag within a line.
type tag struct{ key, value []byte }

// scanKey scans measurement and tags of a line into p.tags and returns the
// position of the space behind them. A backslash escapes the byte behind it
// as far as it would end something, also when it is itself escaped.
func (p *Parser) scanKey(line []byte) (int, string) {
	p.tags = p.tags[:0]
	if line[0] == ',' {
		return 0, "missing measurement"
	}
	i := 1
	for ; ; i++ {
		if i >= len(line) {
			return i, "missing fields"
		}
		if (line[i] == ',' || line[i] == ' ') && line[i-1] != '\\' {
			break
		}
	}
	p.unescaped = append(p.unescaped[:0], line[:i]...)
	sorted := true
	for line[i] == ',' {
		i++
		start := i
		if i >= len(line) || line[i] == ' ' || line[i] == ',' || line[i] == '=' {
			return i, "missing tag key"
		}
		for i++; ; i++ {
			if i >= len(line) || (line[i] == ' ' || line[i] == ',') && line[i-1] != '\\' {
				return i, "missing tag value"
			}
			if line[i] == '=' && line[i-1] != '\\' {
				break
			}
		}
		key := line[start:i]
		i++
		start = i
		if i >= len(line) || line[i] == ',' || line[i] == ' ' {
			return i, "missing tag value"
		}
		for i++; ; i++ {
			if i >= len(line) {
				return i, "missing fields"
			}
			if line[i] == '=' && line[i-1] != '\\' {
				return i, "invalid tag format"
			}
			if (line[i] == ',' || line[i] == ' ') && line[i-1] != '\\' {
				break
			}
		}
		if n := len(p.tags); n > 0 && sorted {
			sorted = compareTagKeys(p.tags[n-1].key, key) < 0
		}
		p.tags = append(p.tags, tag{key, line[start:i]})
	}
	if !sorted {
		slices.SortStableFunc(p.tags, func(a, b tag) int { return compareTagKeys(a.key, b.key) })
		for j := 1; j < len(p.tags); j++ {
			if bytes.Equal(p.tags[j-1].key, p.tags[j].key) {
				return i, "duplicate tags"
			}
		}
	}
	return i, ""
}

// compareTagKeys compares raw tag keys in the order of the unescaped ones.
func compareTagKeys(a, b []byte) int {
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		if escapes(a, i) {
			i++
		}
		if escapes(b, j) {
			j++
		}
		if a[i] != b[j] {
			return int(a[i]) - int(b[j])
		}
		i++
		j++
	}
	return (len(a) - i) - (len(b) - j)
}

// escapes reports whether the byte at i of a tag key or value is a backslash
// that stands for the byte behind it.
func escapes(b []byte, i int) bool {
	return b[i] == '\\' && i+1 < len(b) && (b[i+1] == ',' || b[i+1] == '=' || b[i+1] == ' ')
}

// unescapeMeasurement unescapes what scanKey put into p.unescaped. Here, as in
// field keys, a quote may be escaped too.
func (p *Parser) unescapeMeasurement() {
	if bytes.IndexByte(p.unescaped, '\\') >= 0 {
		p.unescaped = unescapeName(p.unescaped[:0], p.unescaped)
	}
}

// measurement returns the unescaped measurement; it is valid until the next
// line.
func (p *Parser) measurement() string {
	return unsafe.String(unsafe.SliceData(p.unescaped), len(p.unescaped))
}

// unescapeName appends a measurement or field key without the backslashes that
// stand before commas, quotes, spaces and equals signs. dst may be the
// beginning of src.
func unescapeName(dst, src []byte) []byte {
	for i := 0; i < len(src); i++ {
		if src[i] == '\\' && i+1 < len(src) {
			switch src[i+1] {
			case ',', '"', ' ', '=':
				i++
			}
		}
		dst = append(dst, src[i])
	}
	return dst
}

// appendKey sets p.key to the canonical series key; see model.AppendSeriesKey.
// A raw tag differs from its canonical form only where its value begins with
// an equals sign, which needs no backslash there.
func (p *Parser) appendKey() {
	p.key = model.AppendSeriesKey(p.key[:0], p.measurement(), nil)
	for _, t := range p.tags {
		p.key = append(p.key, ',')
		p.key = append(p.key, t.key...)
		p.key = append(p.key, '=')
		if t.value[0] == '=' {
			p.key = append(p.key, '\\')
		}
		p.key = append(p.key, t.value...)
	}
}
