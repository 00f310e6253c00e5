package lineproto

import (
	"bytes"
	"fmt"
	"strconv"
	"unsafe"

	"tsdbd/model"
	"tsdbd/model/point"
)

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
	var l Line
	n, _ := l.End(body[pos:])
	end := pos + n
	if body[start] == '#' {
		return end
	}
	line := bytes.TrimSuffix(body[start:end], []byte{'\n'})
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
	return end
}

// skipBlanks skips what may stand before a line, its fields and its time.
func skipBlanks(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == 0) {
		i++
	}
	return i
}

// oneReading reports whether a Line sees in raw nothing that could end a line
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

	if bytes.IndexByte(raw, '\n') >= 0 {
		if refused = model.Unstorable(model.ParseSeriesKey(string(p.key), nil)); refused != "" {
			return "", refused
		}
	}
	layout, refused := p.layout(measurement)
	if refused != "" {
		return "", refused
	}
	b := p.batch
	first := len(b.Values)
	for i := range p.fields {
		b.Values = append(b.Values, p.fields[i].value)
	}
	row := point.Row{Layout: layout, Time: t, First: uint32(first)}
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
