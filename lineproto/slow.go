package lineproto

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unsafe"

	"tsdbd/column"
	"tsdbd/model"
)

// tag is a raw tag within a line.
type tag struct{ key, value []byte }

// field is a field of a line: its unescaped key and its value.
type field struct {
	key   []byte
	typ   model.FieldType
	value uint64
}

// slow reads the line at pos by the rules of InfluxDB 1.x, all of them, and
// returns the position behind it.
func (p *Parser) slow(body []byte, pos int) int {
	start := skipBlanks(body, pos)
	if start >= len(body) {
		return len(body)
	}
	if body[start] == '\n' {
		return start + 1
	}
	if body[start] == '#' {
		// InfluxDB looks for quotes in comments too, and one that opens a
		// string there swallows the lines behind it. Here a comment ends.
		n := bytes.IndexByte(body[start:], '\n')
		if n < 0 {
			return len(body)
		}
		return start + n + 1
	}
	end := lineEnd(body, pos)
	line := body[start:end]
	if line[len(line)-1] == '\n' { // an open quote at the end of the body
		line = line[:len(line)-1]
	}
	b := p.batch
	values, strings := len(b.Values), len(b.Strings)
	bad, refused := p.point(line)
	if bad != "" || refused != "" {
		b.Values, b.Strings = b.Values[:values], b.Strings[:strings]
		if p.errs == nil {
			p.errs = new(Errors)
		}
		if bad != "" {
			p.errs.addBad(line, bad, p.opt.MaxErrorBytes)
		} else {
			p.errs.addRefused(refused)
		}
	}
	return end + 1
}

// skipBlanks skips what may stand before a line, its fields and its time.
func skipBlanks(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == 0) {
		i++
	}
	return i
}

// lineEnd returns the position of the newline that ends the line at i, or
// len(b). A newline within a quoted field value does not, nor does one behind
// a backslash.
func lineEnd(b []byte, i int) int {
	quoted, fields := false, false
	equals, commas := 0, 0
	for i < len(b) {
		c := b[i]
		switch {
		case c == '\\' && i+2 < len(b):
			i++
		case c == '\n' && !quoted:
			return i
		case c == ' ':
			fields = true
		case !fields:
		case c == '=' && !quoted:
			equals++
		case c == ',' && !quoted:
			commas++
		case c == '"' && equals > commas:
			quoted = !quoted
		}
		i++
	}
	return len(b)
}

// oneReading reports whether lineEnd sees in raw nothing that could end a line
// or open its fields, so that a line that begins with raw is cut the same way
// wherever the fast path finds it.
func oneReading(raw []byte) bool {
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			if i++; i >= len(raw) || raw[i] == '\n' {
				return false
			}
		case ' ', '\n':
			return false
		}
	}
	return true
}

// point reads one line. bad is the reason why it does not parse, refused why
// its point cannot be stored though it does; else the point is appended.
func (p *Parser) point(line []byte) (bad, refused string) {
	end, bad := p.scanKey(line)
	if bad != "" {
		return bad, ""
	}
	raw := line[:end]
	if len(raw) > model.MaxKeyLength {
		return fmt.Sprintf("max key length exceeded: %d > %d", len(raw), model.MaxKeyLength), ""
	}
	start := skipBlanks(line, end)
	end, bad = scanFields(line, start)
	if bad != "" {
		return bad, ""
	}
	if bad = p.readFields(line[start:end], len(raw)); bad != "" {
		return bad, ""
	}
	t, bad := p.readTime(line, end)
	if bad != "" {
		return bad, ""
	}
	p.unescapeMeasurement()
	measurement := p.measurement()
	if refused = p.uniqueFields(measurement); refused != "" {
		return "", refused
	}
	p.appendKey()
	if len(p.key) > model.MaxKeyLength {
		return fmt.Sprintf("max key length exceeded: %d > %d", len(p.key), model.MaxKeyLength), ""
	}

	layout := p.layout(measurement)
	b := p.batch
	first := len(b.Values)
	for i := range p.fields {
		b.Values = append(b.Values, p.fields[i].value)
	}
	row := column.Row{Layout: layout, Time: t, First: uint32(first)}
	if !oneReading(raw) {
		row.Series = p.table.Series(unsafe.String(unsafe.SliceData(p.key), len(p.key))) // copies it
	} else {
		var number uint32
		row.Series, number, p.view = p.remember(raw, layout)
		if number != 0 {
			if prev := p.view.Entry(p.last); prev != nil && prev.Next() != number {
				prev.SetNext(number)
			}
			p.last = number
		}
	}
	b.Rows = append(b.Rows, row)
	return "", ""
}

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

// valueEnd returns the end of an unquoted value.
func valueEnd(b []byte, i int) int {
	for i < len(b) && b[i] != ',' && b[i] != ' ' {
		i++
	}
	return i
}

func isNumberStart(c byte) bool {
	return c >= '0' && c <= '9' || c == '.' || c == '-' || c == 'n' || c == 'N'
}

// number reads a whole integer, unsigned or float value.
func number(b []byte) (model.FieldType, uint64, string) {
	const invalid = "invalid number"
	digits := b
	if digits[0] == '-' {
		digits = digits[1:]
	}
	points, exponent, suffix, count := 0, false, byte(0), 0
	for i, c := range digits {
		switch {
		case c >= '0' && c <= '9':
			count++
		case c == '.':
			if points++; points > 1 {
				return 0, 0, invalid
			}
		case (c == 'i' || c == 'u') && suffix == 0 && (i > 0 || len(digits) < len(b)):
			suffix = c
		case (c == 'e' || c == 'E') && (i > 0 || len(digits) < len(b)):
			exponent = true
		case (c == '+' || c == '-') && i > 0 && (digits[i-1] == 'e' || digits[i-1] == 'E'):
		default:
			return 0, 0, invalid
		}
	}
	text := unsafe.String(unsafe.SliceData(b), len(b)) // strconv's errors copy it
	switch {
	case suffix == 0:
		if count == 0 && !exponent {
			return 0, 0, invalid
		}
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return 0, 0, "invalid float"
		}
		return model.Float, math.Float64bits(f), ""
	case points > 0 || exponent || count == 0 || b[len(b)-1] != suffix:
		return 0, 0, invalid
	case suffix == 'i':
		v, err := strconv.ParseInt(text[:len(text)-1], 10, 64)
		if err != nil {
			return 0, 0, fmt.Sprintf("unable to parse integer %s: %s", text[:len(text)-1], err)
		}
		return model.Integer, uint64(v), ""
	case len(digits) < len(b):
		return 0, 0, invalid
	}
	v, err := strconv.ParseUint(text[:len(text)-1], 10, 64)
	if err != nil {
		return 0, 0, fmt.Sprintf("unable to parse unsigned %s: %s", text[:len(text)-1], err)
	}
	return model.Unsigned, v, ""
}

// booleanText reads a whole boolean value.
func booleanText(b []byte) (value uint64, ok bool) {
	value, size := boolean(load(b, 0))
	return value, size > 0 && size == len(b)
}

// readFields converts fields that scanFields has accepted into p.fields.
// keyLength is the length of the raw series key.
func (p *Parser) readFields(b []byte, keyLength int) string {
	// InfluxDB reads the fields a second time with slightly other rules for
	// backslashes outside of strings. Where the readings differ so much that
	// no field comes out, the line is refused.
	const invalid = "invalid field format"
	const separator = 4 // between series key and field key in a column key
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
		if n := keyLength + separator + len(key); n > model.MaxKeyLength && longest == 0 {
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

// layout returns the layout of p.fields.
func (p *Parser) layout(measurement string) *column.Layout {
	p.signature = column.AppendLayoutMeasurement(p.signature[:0], measurement)
	for i := range p.fields {
		p.signature = column.AppendLayoutField(p.signature, p.fields[i].typ, p.fields[i].key)
	}
	if l := p.table.FindLayout(p.signature); l != nil {
		return l
	}
	fields := make([]column.Field, len(p.fields))
	for i := range fields {
		fields[i] = column.Field{Key: string(p.fields[i].key), Type: p.fields[i].typ}
	}
	return p.table.Layout(measurement, fields)
}

// readTime reads the time behind the fields, which end at i, and what stands
// behind it.
func (p *Parser) readTime(line []byte, i int) (int64, string) {
	start := skipBlanks(line, i)
	for i = start; i < len(line) && line[i] != ' ' && line[i] != '\n'; i++ {
		if (line[i] < '0' || line[i] > '9') && (line[i] != '-' || i > start) {
			return 0, "bad timestamp"
		}
	}
	if i == start {
		return p.opt.Now, ""
	}
	t, err := strconv.ParseInt(string(line[start:i]), 10, 64)
	if err != nil {
		return 0, err.Error()
	}
	t, ok := scale(t, p.opt.Unit)
	if !ok {
		return 0, fmt.Sprintf("time outside range %d - %d", model.MinTime, model.MaxTime)
	}
	for ; i < len(line); i++ {
		if line[i] != ' ' {
			return 0, "point is invalid"
		}
	}
	return t, ""
}
