package lineproto

import (
	"math"
	"unsafe"

	"tsdbd/model"
	"tsdbd/model/point"
)

// Options says how bodies are read. The zero value reads nanoseconds and
// stamps lines without a time with 0.
type Options struct {
	Unit int64 // ns per unit of the timestamps, see Unit; 0 means 1
	Now  int64 // time of lines that have none, ns; rounded down to Unit unless it is point.NoTime

	// MaxErrorBytes bounds the bytes of bad lines that are kept for the error
	// text (1 MiB if 0). The first bad line is always kept.
	MaxErrorBytes int
}

const defaultMaxErrorBytes = 1 << 20

// maxStringBytes is the longest string a batch can represent; see
// column.StringWord.
const maxStringBytes = 1<<24 - 1

// Parser reads bodies of line protocol into batches. It holds only scratch
// memory and what it saw last; it is used by one goroutine at a time, and any
// number of parsers may share a table. The zero value is ready.
type Parser struct {
	table *point.Table
	view  *point.View
	last  uint32 // number of the entry of the latest line, 0 if none
	batch *point.Batch
	opt   Options
	errs  *Errors

	// space is the position of the first space at or behind the place that
	// was last searched, so that a body without spaces is searched once.
	space int

	tags      []tag
	fields    []field
	seen      map[string]int
	key       []byte
	signature []byte
	unescaped []byte
}

// Parse appends the points of body to batch in their order and sets
// batch.Database. Series and layouts are interned in table. Nothing of body is
// kept: strings are copied to batch.Strings. It returns the number of points
// appended. The error is nil or an *Errors; good lines are appended whatever
// the others are.
func (p *Parser) Parse(batch *point.Batch, table *point.Table, body []byte, opt Options) (int, error) {
	if opt.Unit <= 0 {
		opt.Unit = 1
	}
	if opt.MaxErrorBytes <= 0 {
		opt.MaxErrorBytes = defaultMaxErrorBytes
	}
	if opt.Now != point.NoTime {
		opt.Now = truncate(opt.Now, opt.Unit)
	}
	if p.table != table {
		p.table, p.last = table, 0
	}
	p.view = table.View()
	p.batch, p.opt, p.errs, p.space = batch, opt, nil, -1
	batch.Database = table.Database()
	before := len(batch.Rows)
	for pos := 0; pos < len(body); {
		if pos = p.fast(body, pos); pos < len(body) {
			pos = p.slow(body, pos)
		}
	}
	errs := p.errs
	p.batch, p.errs, p.view = nil, nil, nil
	p.forget()
	n := len(batch.Rows) - before
	if errs != nil {
		return n, errs
	}
	return n, nil
}

// forget drops references into the body, and scratch memory that a monstrous
// line has grown.
func (p *Parser) forget() {
	const most = 256 // clearing them costs at every body
	if cap(p.tags) > most || cap(p.fields) > most {
		p.tags, p.fields, p.seen = nil, nil, nil
	}
	clear(p.tags[:cap(p.tags)])
	clear(p.fields[:cap(p.fields)])
	if cap(p.key) > 1<<20 || cap(p.signature) > 1<<20 || cap(p.unescaped) > 1<<20 {
		p.key, p.signature, p.unescaped = nil, nil, nil
	}
}

// fast reads lines of the common shape from pos on: "measurement,tags", one
// space, fields whose keys and values need no unescaping, one space and a
// timestamp or none, newline. It returns the position of the first line that
// is not so, or is at fault. Such lines end where the slow path ends them too:
// raw bytes with another reading are not put into the table.
func (p *Parser) fast(body []byte, pos int) int {
	b, v, last := p.batch, p.view, p.last
	for pos < len(body) {
		// The series: the one that followed last time, the same again, or by
		// the hash of its bytes.
		var number uint32
		var e *point.Entry
		n := 0
		prev := v.Entry(last)
		if prev != nil {
			number = prev.Next()
			if e = v.Entry(number); e != nil {
				n = v.Match(e, body[pos:])
			}
			if n == 0 {
				if n = v.Match(prev, body[pos:]); n != 0 {
					number, e = last, prev
				}
			}
		}
		if n == 0 {
			raw := p.rawKey(body, pos)
			if len(raw) == 0 {
				break
			}
			number, v = p.table.Find(raw)
			e, n = v.Entry(number), len(raw)
		}
		if n > longName {
			break
		}

		// The fields: those of the series' previous line, or others.
		first, firstString := len(b.Values), len(b.Strings)
		var layout *point.Layout
		i := 0
		if e != nil {
			if layout = v.Layout(e); layout == nil {
				v = p.table.View()
				layout = v.Layout(e)
			}
			if layout == nil {
				break
			}
			i = p.predicted(body, pos+n+1, layout.Wire())
			if i == 0 {
				b.Values, b.Strings = b.Values[:first], b.Strings[:firstString]
				if layout, i = p.plainFields(layout.Measurement, body, pos+n+1); layout != nil {
					e.SetLayout(layout)
				}
			}
		} else if p.newSeries(body[pos : pos+n+1]) {
			layout, i = p.plainFields(p.measurement(), body, pos+n+1)
		}
		var t int64
		if layout != nil {
			t, i = p.fastTime(body, i)
		}
		if layout == nil || i == 0 {
			b.Values, b.Strings = b.Values[:first], b.Strings[:firstString]
			break
		}
		row := point.Row{Layout: layout, Time: t, First: uint32(first)}
		if e != nil {
			row.Series = v.Series(e)
		} else {
			row.Series, number, v = p.remember(body[pos:pos+n], layout)
		}
		if number != 0 {
			if prev != nil && prev.Next() != number {
				prev.SetNext(number)
			}
			last = number
		}
		b.Rows = append(b.Rows, row)
		pos = i
	}
	p.view, p.last = v, last
	return pos
}

// newSeries takes apart a spelling that it has not seen before, with the space behind it,
// and sets p.key. It reports whether the line may be read by the fast path.
func (p *Parser) newSeries(raw []byte) bool {
	end, bad := p.scanKey(raw)
	if bad != "" || end != len(raw)-1 || raw[0] == '#' || raw[0] == '\t' || raw[0] == 0 || !oneReading(raw[:end]) {
		return false
	}
	p.unescapeMeasurement()
	p.appendKey()
	return len(p.key) <= model.MaxKeyLength
}

// remember puts a spelling of the series p.key into the table.
func (p *Parser) remember(raw []byte, layout *point.Layout) (*point.Series, uint32, *point.View) {
	key := unsafe.String(unsafe.SliceData(p.key), len(p.key)) // the table copies it
	s, number, v := p.table.Insert(raw, key)
	if number != 0 {
		v.Entry(number).SetLayout(layout)
	}
	return s, number, v
}

// fastTime reads what stands behind the fields: nothing, or a space and a
// timestamp, then newline or the end. It returns the time and the position of
// the next line, 0 if the slow path has to look.
func (p *Parser) fastTime(body []byte, i int) (t int64, next int) {
	if i >= len(body) || body[i] == '\n' {
		return p.opt.Now, i + 1
	}
	if body[i] != ' ' {
		return 0, 0
	}
	i++
	negative := i < len(body) && body[i] == '-'
	if negative {
		i++
	}
	var u uint64
	n := 0
	if i+24 <= len(body) {
		// The 19 digits of nanoseconds, or 17 or 18 of them.
		x, y, z := load8(body, i), load8(body, i+8), load8(body, i+16)
		if m := digits(z); digits(x) == 8 && digits(y) == 8 && m-1 < 3 && m > 0 {
			u = (decimal(x, 8)*1e8+decimal(y, 8))*pow10[m&15] + decimal(z, m)
			n = 16 + m
			i += n
		}
	}
	if n == 0 {
		u, n, i = scanDigits(body, i)
	}
	if n == 0 || n > 19 || u > math.MaxInt64 || i < len(body) && body[i] != '\n' {
		return 0, 0
	}
	t = int64(u)
	if negative {
		t = -t
	}
	t, ok := scale(t, p.opt.Unit)
	if !ok {
		return 0, 0
	}
	return t, i + 1
}

// scale multiplies a timestamp by the unit. ok is false outside the legal
// range of times.
func scale(t, unit int64) (int64, bool) {
	if unit != 1 {
		if t > model.MaxTime/unit || t < model.MinTime/unit {
			return 0, false
		}
		t *= unit
	}
	return t, t >= model.MinTime && t <= model.MaxTime
}
