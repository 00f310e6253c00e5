package encode

import (
	"encoding/binary"
	"math"

	"tsdbd/query"
	"tsdbd/query/result"
)

// msgpackEncoder renders the answer tree as MessagePack. Arrays are announced
// with their length, so a document is built in memory as a whole and lengths
// are filled in at its end; output.extend bounds it. Without an epoch, times
// are extensions of type 5 (seconds and nanoseconds), as 1.x clients know.
type msgpackEncoder struct {
	out    *Output
	times  timeFormat
	native bool // times as extensions

	results   int // offset of the length of results, 0 before the first
	nResults  int
	statement int
	body      int // offset of the open result
	members   int // members of the open result's map
	seriesAt  int // offset of the length of its series, 0 when there is none
	nSeries   int
	mapAt     int            // offset of the last series' map
	series    *result.Series // the series whose values may go on
	rowsAt    int            // offset of the length of its values, 0 when it has none
	nRows     int
	messages  []result.Message
	cells     []cell
}

func newMsgpackEncoder(out *Output, unit int64) *msgpackEncoder {
	out.keep = true
	return &msgpackEncoder{out: out, times: timeFormat{unit: unit}, native: unit == 0, statement: -1}
}

func (e *msgpackEncoder) Result(r *result.Result) error {
	if e.statement != r.StatementID {
		e.closeResult()
		e.openResult(r.StatementID)
	}
	if r.Err != nil {
		// A failed result is the error and nothing else.
		b := append(e.out.buf[:e.body], 0x81)
		b = appendMsgpackString(b, "error")
		e.out.buf = appendMsgpackString(b, r.Err.Error())
		e.statement = -1
		e.messages = e.messages[:0]
	} else {
		e.messages = append(e.messages, r.Messages...)
		for _, s := range r.Series {
			if err := e.rows(s); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *msgpackEncoder) openResult(id int) {
	if e.results == 0 {
		b := append(e.out.buf, 0x81)
		b = appendMsgpackString(b, "results")
		e.out.buf, e.results = appendMsgpackArray(b)
		e.nResults = 0
	}
	e.nResults++
	e.statement, e.body = id, len(e.out.buf)
	e.seriesAt, e.nSeries, e.series, e.messages = 0, 0, nil, e.messages[:0]
	b := append(e.out.buf, 0x80)
	b = appendMsgpackString(b, "statement_id")
	e.out.buf = appendMsgpackInt(b, int64(id))
	e.members = 1
}

func (e *msgpackEncoder) closeResult() {
	if e.statement < 0 {
		return
	}
	e.patch(e.seriesAt, e.nSeries)
	b := e.out.buf
	if len(e.messages) > 0 {
		b = appendMsgpackString(b, "messages")
		var at int
		b, at = appendMsgpackArray(b)
		binary.BigEndian.PutUint32(b[at:], uint32(len(e.messages)))
		for _, m := range e.messages {
			b = append(b, 0x82)
			b = appendMsgpackString(appendMsgpackString(b, "level"), m.Level)
			b = appendMsgpackString(appendMsgpackString(b, "text"), m.Text)
		}
		e.members++
	}
	b[e.body] = 0x80 | byte(e.members)
	e.out.buf, e.statement, e.seriesAt = b, -1, 0
}

func (e *msgpackEncoder) closeDocument() {
	e.patch(e.results, e.nResults)
	e.results = 0
}

// patch fills in the length announced at offset at.
func (e *msgpackEncoder) patch(at, n int) {
	if at > 0 {
		binary.BigEndian.PutUint32(e.out.buf[at:], uint32(n))
	}
}

func (e *msgpackEncoder) rows(s *result.Series) error {
	if e.series != nil && e.series.Partial && e.rowsAt > 0 && s.Rows > 0 && sameSeries(e.series, s) {
		e.nRows += s.Rows
	} else {
		size := 64 + len(s.Name)
		for i := range s.Tags {
			size += 2*maxMsgpackCell + len(s.Tags[i].Key) + len(s.Tags[i].Value)
		}
		for _, c := range s.Columns {
			size += maxMsgpackCell + len(c)
		}
		if err := e.out.extend(size); err != nil {
			return err
		}
		e.openSeries(s)
	}
	e.series = s
	e.patch(e.rowsAt, e.nRows)
	e.cells = appendCells(e.cells[:0], s)
	defer clear(e.cells)
	for i := range s.Rows {
		if i%rowsPerSpill == 0 && e.out.ended() {
			return query.ErrStopped
		}
		size := 5 + maxMsgpackCell*len(e.cells)
		for j := range e.cells {
			switch c := &e.cells[j]; c.kind {
			case cellString:
				size += len(c.strings[i])
			case cellList:
				for _, text := range c.lists[i] {
					size += maxMsgpackCell + len(text)
				}
			}
		}
		if err := e.out.extend(size); err != nil {
			return err
		}
		e.out.buf = e.appendRow(e.out.buf, i)
	}
	return nil
}

// maxMsgpackCell is the largest size of a cell without the bytes of its text.
const maxMsgpackCell = 15

// Truncate adds a member to the map of the last series, whose values are
// complete now.
func (e *msgpackEncoder) Truncate() {
	if e.series == nil {
		return
	}
	e.out.buf[e.mapAt]++
	e.out.buf = append(appendMsgpackString(e.out.buf, "partial"), 0xc3)
	e.series = nil
}

func (e *msgpackEncoder) openSeries(s *result.Series) {
	b := e.out.buf
	if e.seriesAt == 0 {
		b = appendMsgpackString(b, "series")
		b, e.seriesAt = appendMsgpackArray(b)
		e.members++
	}
	e.nSeries++
	members := byte(1)
	for _, has := range []bool{s.Name != "", len(s.Tags) > 0, s.Rows > 0} {
		if has {
			members++
		}
	}
	e.mapAt = len(b)
	b = append(b, 0x80|members)
	if s.Name != "" {
		b = appendMsgpackString(appendMsgpackString(b, "name"), s.Name)
	}
	if len(s.Tags) > 0 {
		b = appendMsgpackString(b, "tags")
		b = binary.BigEndian.AppendUint32(append(b, 0xdf), uint32(len(s.Tags)))
		for i := range s.Tags {
			b = appendMsgpackString(appendMsgpackString(b, s.Tags[i].Key), s.Tags[i].Value)
		}
	}
	b = appendMsgpackString(b, "columns")
	var at int
	b, at = appendMsgpackArray(b)
	binary.BigEndian.PutUint32(b[at:], uint32(len(s.Columns)))
	for _, c := range s.Columns {
		b = appendMsgpackString(b, c)
	}
	e.rowsAt, e.nRows = 0, s.Rows
	if s.Rows > 0 {
		b = appendMsgpackString(b, "values")
		b, e.rowsAt = appendMsgpackArray(b)
	}
	e.out.buf = b
}

func (e *msgpackEncoder) appendRow(b []byte, i int) []byte {
	b = binary.BigEndian.AppendUint32(append(b, 0xdd), uint32(len(e.cells)))
	for j := range e.cells {
		c := &e.cells[j]
		if c.null(i) {
			b = append(b, 0xc0)
			continue
		}
		switch c.kind {
		case cellTime:
			if e.native {
				b = appendMsgpackTime(b, c.ints[i])
			} else {
				b = appendMsgpackInt(b, c.ints[i]/e.times.unit)
			}
		case cellFloat:
			if math.IsNaN(c.floats[i]) {
				b = append(b, 0xc0)
				continue
			}
			b = binary.BigEndian.AppendUint64(append(b, 0xcb), math.Float64bits(c.floats[i]))
		case cellInt:
			b = appendMsgpackInt(b, c.ints[i])
		case cellUint:
			b = appendMsgpackUint(b, c.uints[i])
		case cellString:
			b = appendMsgpackString(b, c.strings[i])
		case cellList:
			b = binary.BigEndian.AppendUint16(append(b, 0xdc), uint16(len(c.lists[i])))
			for _, text := range c.lists[i] {
				b = appendMsgpackString(b, text)
			}
		case cellBool:
			if c.bools[i] {
				b = append(b, 0xc3)
			} else {
				b = append(b, 0xc2)
			}
		}
	}
	return b
}

func (e *msgpackEncoder) Finish() error {
	if e.results == 0 {
		e.out.buf = append(e.out.buf, 0x80)
		return nil
	}
	e.closeResult()
	e.closeDocument()
	return nil
}

func (e *msgpackEncoder) Fail(err error) bool {
	if e.out.sent > 0 {
		return false
	}
	e.out.buf = appendErrorMsgpack(e.out.buf[:0], err.Error())
	return true
}

func appendErrorMsgpack(dst []byte, message string) []byte {
	return appendMsgpackString(appendMsgpackString(append(dst, 0x81), "error"), message)
}

// appendMsgpackArray appends an array32 header of length 0 and returns the
// offset of the length.
func appendMsgpackArray(dst []byte) ([]byte, int) {
	dst = append(dst, 0xdd, 0, 0, 0, 0)
	return dst, len(dst) - 4
}

func appendMsgpackString(dst []byte, s string) []byte {
	switch n := len(s); {
	case n < 32:
		dst = append(dst, 0xa0|byte(n))
	case n < 1<<8:
		dst = append(dst, 0xd9, byte(n))
	case n < 1<<16:
		dst = binary.BigEndian.AppendUint16(append(dst, 0xda), uint16(n))
	default:
		dst = binary.BigEndian.AppendUint32(append(dst, 0xdb), uint32(n))
	}
	return append(dst, s...)
}

func appendMsgpackInt(dst []byte, v int64) []byte {
	switch {
	case v >= 0:
		return appendMsgpackUint(dst, uint64(v))
	case v >= -32:
		return append(dst, byte(v))
	}
	return binary.BigEndian.AppendUint64(append(dst, 0xd3), uint64(v))
}

func appendMsgpackUint(dst []byte, v uint64) []byte {
	if v < 128 {
		return append(dst, byte(v))
	}
	return binary.BigEndian.AppendUint64(append(dst, 0xcf), v)
}

// appendMsgpackTime appends extension 5: seconds (int64) and nanoseconds (int32).
func appendMsgpackTime(dst []byte, ns int64) []byte {
	sec, frac := ns/1e9, ns%1e9
	if frac < 0 {
		sec, frac = sec-1, frac+1e9
	}
	dst = binary.BigEndian.AppendUint64(append(dst, 0xc7, 12, 5), uint64(sec))
	return binary.BigEndian.AppendUint32(dst, uint32(frac))
}
