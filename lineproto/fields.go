package lineproto

import (
	"bytes"
	"fmt"
	"strings"
	"unsafe"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
)

// field is a field of a line: its unescaped key and its value.
type field struct {
	key   []byte
	typ   model.FieldType
	value uint64
}

// scanFields checks the fields that begin at start and returns the position
// behind them.
func scanFields(b []byte, start int) (int, string) {
	quoted := false
	equals, commas := 0, 0
	i := start
	for i < len(b) {
		switch c := b[i]; {
		case c == '\\' && i+1 < len(b):
			i++
		case c == '"' && equals > commas:
			quoted = !quoted
		case quoted:
		case c == '=':
			equals++
			if i == start || (b[i-1] == ' ' || b[i-1] == ',') && b[i-2] != '\\' {
				return i, "missing field key"
			}
			if i+1 >= len(b) || b[i+1] == ',' || b[i+1] == ' ' {
				return i, "missing field value"
			}
			if next := b[i+1]; next != '"' {
				end := valueEnd(b, i+1)
				var reason string
				if isNumberStart(next) {
					_, _, reason = number(b[i+1 : end])
				} else if _, ok := booleanText(b[i+1 : end]); !ok {
					reason = "invalid boolean"
				}
				if reason != "" {
					return i, reason
				}
				i = end
				continue
			}
		case c == ',':
			commas++
		case c == ' ':
			return i, checkFields(equals, commas)
		}
		i++
	}
	if quoted {
		return i, "unbalanced quotes"
	}
	return i, checkFields(equals, commas)
}

func checkFields(equals, commas int) string {
	if equals == 0 || commas != equals-1 {
		return "invalid field format"
	}
	return ""
}

// readFields converts fields that scanFields has accepted into p.fields.
// keyLength is the length of the raw series key.
func (p *Parser) readFields(b []byte, keyLength int) string {
	// InfluxDB reads the fields a second time with slightly other rules for
	// backslashes outside of strings. Where the readings differ so much that
	// no field comes out, the line is refused.
	const invalid = "invalid field format"
	p.fields = p.fields[:0]
	longest := 0
	for i := 0; i < len(b); i++ {
		start := i
		for i < len(b) && (b[i] != '=' || i > start && b[i-1] == '\\') {
			i++
		}
		if i == start || i+1 >= len(b) {
			return invalid
		}
		key := b[start:i]
		if n := keyLength + model.FieldSeparatorLength + len(key); n > model.MaxKeyLength && longest == 0 {
			longest = n
		}
		i++
		start = i
		for quoted := false; i < len(b) && (b[i] != ',' || quoted); i++ {
			if b[i] == '"' {
				quoted = !quoted
			} else if b[i] == '\\' && i+1 < len(b) && (b[i+1] == '"' || b[i+1] == '\\') {
				i++
			}
		}
		value := b[start:min(i, len(b))]
		if len(value) == 0 || i == len(b)-1 {
			return invalid
		}
		f := field{key: key}
		if bytes.IndexByte(key, '\\') >= 0 {
			f.key = unescapeName(make([]byte, 0, len(key)), key)
		}
		switch c := value[0]; {
		case c == '"':
			if len(value) < 2 {
				return invalid
			}
			f.typ, f.value = model.String, p.appendString(value[1:len(value)-1])
		case isNumberStart(c):
			var reason string
			if f.typ, f.value, reason = number(value); reason != "" {
				return invalid
			}
		default:
			v, ok := booleanText(value)
			if !ok {
				return invalid
			}
			f.typ, f.value = model.Boolean, v
		}
		p.fields = append(p.fields, f)
	}
	if longest > 0 {
		return fmt.Sprintf("max key length exceeded: %d > %d", longest, model.MaxKeyLength)
	}
	return ""
}

// appendString copies an escaped string to the batch and returns its word. A
// string too long for a word is left out; uniqueFields finds it by its length,
// which is the word then.
func (p *Parser) appendString(s []byte) uint64 {
	b := p.batch
	start := len(b.Strings)
	for {
		i := bytes.IndexByte(s, '\\')
		if i < 0 || i+1 >= len(s) {
			break
		}
		b.Strings = append(b.Strings, s[:i]...)
		if s[i+1] == '"' || s[i+1] == '\\' {
			i++
		}
		b.Strings = append(b.Strings, s[i])
		s = s[i+1:]
	}
	b.Strings = append(b.Strings, s...)
	n := len(b.Strings) - start
	if n > maxStringBytes {
		b.Strings = b.Strings[:start]
		return longString | uint64(n)
	}
	return column.StringWord(start, n)
}

// longString marks the word of a string that has no place.
const longString = 1 << 63

// uniqueFields removes fields that stand twice: the last value wins. It
// returns why the point cannot be stored, if so.
func (p *Parser) uniqueFields(measurement string) (refused string) {
	const few = 16
	for _, f := range p.fields {
		if f.typ == model.String && f.value&longString != 0 {
			return fmt.Sprintf("input field \"%s\" on measurement \"%s\" is too long, %d > %d",
				f.key, measurement, f.value&^longString, column.MaxStringLength)
		}
	}
	kept := p.fields[:0]
	many := len(p.fields) > few
	if many && p.seen == nil {
		p.seen = make(map[string]int)
	}
	for _, f := range p.fields {
		at := -1
		if many {
			key := unsafe.String(unsafe.SliceData(f.key), len(f.key)) // the map is emptied before the line goes
			if i, ok := p.seen[key]; ok {
				at = i
			} else {
				p.seen[key] = len(kept)
			}
		} else {
			for i := range kept {
				if bytes.Equal(kept[i].key, f.key) {
					at = i
				}
			}
		}
		if at < 0 {
			kept = append(kept, f)
			continue
		}
		if kept[at].typ != f.typ {
			refused = fmt.Sprintf("field type conflict: input field \"%s\" on measurement \"%s\" is type %s, already exists as type %s",
				f.key, measurement, f.typ, kept[at].typ)
			break
		}
		kept[at] = f
	}
	if many {
		// Emptying a map costs its largest size ever.
		if clear(p.seen); len(p.fields) > 1024 {
			p.seen = nil
		}
	}
	p.fields = kept
	return refused
}

// layout returns the layout of p.fields, or the reason why a point with these
// field keys cannot be stored. Layouts of the table have been checked before.
func (p *Parser) layout(measurement string) (l *point.Layout, refused string) {
	p.signature = point.AppendLayoutMeasurement(p.signature[:0], measurement)
	for i := range p.fields {
		p.signature = point.AppendLayoutField(p.signature, p.fields[i].typ, p.fields[i].key)
	}
	if l := p.table.FindLayout(p.signature); l != nil {
		return l, ""
	}
	fields := make([]column.Field, len(p.fields))
	for i := range fields {
		fields[i] = column.Field{Key: string(p.fields[i].key), Type: p.fields[i].typ}
		key := fields[i].Key
		if key[0] != '\t' && key[0] != 0 && strings.IndexByte(key, '\n') < 0 {
			continue
		}
		if reason := model.UnstorableField(key); reason != "" {
			return nil, fmt.Sprintf("field %q of %q %s", key, measurement, reason)
		}
	}
	return p.table.Layout(measurement, fields), ""
}
