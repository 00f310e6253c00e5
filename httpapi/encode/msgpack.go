package encode

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/tinylib/msgp/msgp"

	"tsdbd/query/result"
)

// msgpackEncoder renders an answer as MessagePack. Arrays begin with their length,
// so the encoder keeps the document in memory and fills in lengths at the end;
// Output.extend bounds the memory. Without an epoch, times are extensions of type 5
// (seconds and nanoseconds), as 1.x clients expect.
type msgpackEncoder struct {
	out  *Output
	unit int64 // nanoseconds per unit of times; 0: as extensions

	results   int // offset of the length of results, 0 before the first
	nResults  int
	statement int
	body      int // offset of the open result
	members   int // members of the open result's map
	seriesAt  int // offset of the length of its series, 0 when there is none
	nSeries   int
	mapAt     int            // offset of the last series' map
	series    *result.Series // the series whose values may continue
	rowsAt    int            // offset of the length of its values, 0 when it has none
	nRows     int
	messages  []result.Message
	cells     []cell
}

func newMsgpackEncoder(out *Output, unit int64) *msgpackEncoder {
	out.keep = true
	return &msgpackEncoder{out: out, unit: unit, statement: -1}
}

func (e *msgpackEncoder) Result(r *result.Result) error {
	if e.statement != r.StatementID {
		e.closeResult()
		e.openResult(r.StatementID)
	}
	if r.Err != nil {
		// A failed result is the error and nothing else.
		b := msgp.AppendMapHeader(e.out.buf[:e.body], 1)
		b = msgp.AppendString(b, "error")
		e.out.buf = msgp.AppendString(b, r.Err.Error())
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
		b := msgp.AppendMapHeader(e.out.buf, 1)
		b = msgp.AppendString(b, "results")
		e.out.buf, e.results = appendMsgpackArray(b)
	}
	e.nResults++
	e.statement, e.body = id, len(e.out.buf)
	e.seriesAt, e.nSeries, e.series, e.messages = 0, 0, nil, e.messages[:0]
	b := msgp.AppendMapHeader(e.out.buf, 0)
	b = msgp.AppendString(b, "statement_id")
	e.out.buf = msgp.AppendInt64(b, int64(id))
	e.members = 1
}

func (e *msgpackEncoder) closeResult() {
	if e.statement < 0 {
		return
	}
	e.patch(e.seriesAt, e.nSeries)
	b := e.out.buf
	if len(e.messages) > 0 {
		b = msgp.AppendArrayHeader(msgp.AppendString(b, "messages"), uint32(len(e.messages)))
		for _, m := range e.messages {
			b = msgp.AppendMapHeader(b, 2)
			b = msgp.AppendString(msgp.AppendString(b, "level"), m.Level)
			b = msgp.AppendString(msgp.AppendString(b, "text"), m.Text)
		}
		e.members++
	}
	b[e.body] = 0x80 | byte(e.members)
	e.out.buf, e.statement, e.seriesAt = b, -1, 0
}

// patch fills in the length at offset at.
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
	return e.out.eachRow(s.Rows, func(i int) error {
		size := 5 + maxMsgpackCell*len(e.cells)
		for j := range e.cells {
			switch c := &e.cells[j]; c.kind {
			case cellString:
				size += len(c.Strings[i])
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
		return nil
	})
}

// maxMsgpackCell is the largest size of a cell without the bytes of its text.
const maxMsgpackCell = 15

// Truncate adds the member partial to the map of the last series.
func (e *msgpackEncoder) Truncate() {
	if e.series == nil {
		return
	}
	e.out.buf[e.mapAt]++
	e.out.buf = msgp.AppendBool(msgp.AppendString(e.out.buf, "partial"), true)
	e.series = nil
}

func (e *msgpackEncoder) openSeries(s *result.Series) {
	b := e.out.buf
	if e.seriesAt == 0 {
		b = msgp.AppendString(b, "series")
		b, e.seriesAt = appendMsgpackArray(b)
		e.members++
	}
	e.nSeries++
	members := 1
	for _, has := range []bool{s.Name != "", len(s.Tags) > 0, s.Rows > 0} {
		if has {
			members++
		}
	}
	e.mapAt = len(b)
	b = msgp.AppendMapHeader(b, uint32(members))
	if s.Name != "" {
		b = msgp.AppendString(msgp.AppendString(b, "name"), s.Name)
	}
	if len(s.Tags) > 0 {
		b = msgp.AppendString(b, "tags")
		b = msgp.AppendMapHeader(b, uint32(len(s.Tags)))
		for i := range s.Tags {
			b = msgp.AppendString(msgp.AppendString(b, s.Tags[i].Key), s.Tags[i].Value)
		}
	}
	b = msgp.AppendArrayHeader(msgp.AppendString(b, "columns"), uint32(len(s.Columns)))
	for _, c := range s.Columns {
		b = msgp.AppendString(b, c)
	}
	e.rowsAt, e.nRows = 0, s.Rows
	if s.Rows > 0 {
		b = msgp.AppendString(b, "values")
		b, e.rowsAt = appendMsgpackArray(b)
	}
	e.out.buf = b
}

func (e *msgpackEncoder) appendRow(b []byte, i int) []byte {
	b = msgp.AppendArrayHeader(b, uint32(len(e.cells)))
	for j := range e.cells {
		c := &e.cells[j]
		if c.null(i) {
			b = msgp.AppendNil(b)
			continue
		}
		switch c.kind {
		case cellTime:
			if e.unit == 0 {
				b = msgp.AppendTime(b, time.Unix(0, c.Ints[i]))
			} else {
				b = msgp.AppendInt64(b, c.Ints[i]/e.unit)
			}
		case cellFloat:
			if math.IsNaN(c.Floats[i]) {
				b = msgp.AppendNil(b)
				continue
			}
			b = msgp.AppendFloat64(b, c.Floats[i])
		case cellInt:
			b = msgp.AppendInt64(b, c.Ints[i])
		case cellUint:
			b = msgp.AppendUint64(b, c.Uints[i])
		case cellString:
			b = msgp.AppendString(b, c.Strings[i])
		case cellList:
			b = msgp.AppendArrayHeader(b, uint32(len(c.lists[i])))
			for _, text := range c.lists[i] {
				b = msgp.AppendString(b, text)
			}
		case cellBool:
			b = msgp.AppendBool(b, c.Bools[i])
		}
	}
	return b
}

func (e *msgpackEncoder) Finish() error {
	if e.results == 0 {
		e.out.buf = msgp.AppendMapHeader(e.out.buf, 0)
		return nil
	}
	e.closeResult()
	e.patch(e.results, e.nResults)
	return nil
}

func (e *msgpackEncoder) Fail(err error) bool { return e.out.fail(appendErrorMsgpack, err) }

func appendErrorMsgpack(dst []byte, message string) []byte {
	return msgp.AppendString(msgp.AppendString(msgp.AppendMapHeader(dst, 1), "error"), message)
}

// appendMsgpackArray appends an array32 header of length 0 and returns the
// offset of the length.
func appendMsgpackArray(dst []byte) ([]byte, int) {
	dst = append(dst, 0xdd, 0, 0, 0, 0)
	return dst, len(dst) - 4
}
