package encode

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"

	"tsdbd/model"
	"tsdbd/prom"
	"tsdbd/prom/remote"
	"tsdbd/query"
	"tsdbd/query/result"
)

// headRoom is the room for the head of a ReadResponse or of one of its series: a tag
// and a length.
const headRoom = 16

// ReadResponse renders results as a ReadResponse of Prometheus. It keeps the message
// in memory, because a message begins with its length: each message is written
// behind room for its head.
type ReadResponse struct {
	out    *Output
	series int // where the open TimeSeries begins, 0: there is none
	last   *result.Series
	failed error
}

// NewReadResponse returns a ReadResponse in out.
func NewReadResponse(out *Output) *ReadResponse {
	out.keep = true
	out.buf = append(out.buf, make([]byte, headRoom)...)
	return &ReadResponse{out: out}
}

// Result adds a result with two columns, the time and the value.
func (a *ReadResponse) Result(res *result.Result) error {
	if res.Err != nil {
		a.failed = errors.Join(a.failed, res.Err)
		return nil
	}
	for _, s := range res.Series {
		if a.out.ended() {
			return query.ErrStopped
		}
		if len(s.Columns) != 2 || s.Rows == 0 {
			continue
		}
		if a.last == nil || !a.last.Partial || !sameSeries(a.last, s) {
			a.close()
			if err := a.open(s); err != nil {
				return err
			}
		}
		a.last = s
		times, values := &s.Values[0], &s.Values[1]
		if values.Type != model.Float {
			continue
		}
		if err := a.out.extend(s.Rows * remote.MaxSample); err != nil {
			return err
		}
		for i := range s.Rows {
			if values.IsValid(i) {
				a.out.buf = remote.AppendSample(a.out.buf, prom.Sample{Value: values.Floats[i], Time: prom.Milliseconds(times.Ints[i])})
			}
		}
	}
	return nil
}

// open begins a series with its labels.
func (a *ReadResponse) open(s *result.Series) error {
	size := headRoom
	for name, value := range prom.Labels(s.Name, s.Tags) {
		size += remote.MaxLabel + len(name) + len(value)
	}
	if err := a.out.extend(size); err != nil {
		return err
	}
	a.out.buf = append(a.out.buf, make([]byte, headRoom)...)
	a.series = len(a.out.buf)
	for name, value := range prom.Labels(s.Name, s.Tags) {
		a.out.buf = remote.AppendLabel(a.out.buf, name, value)
	}
	return nil
}

// close writes the head of the open series.
func (a *ReadResponse) close() {
	if a.series == 0 {
		return
	}
	buf := a.out.buf
	at := a.series - headRoom
	n := copy(buf[at:], messageHead(len(buf)-a.series))
	a.out.buf = append(buf[:at+n], buf[a.series:]...)
	a.series = 0
}

// Finish returns the message. It is valid until the output is freed.
func (a *ReadResponse) Finish() ([]byte, error) {
	if a.failed != nil {
		return nil, a.failed
	}
	a.close()
	head := messageHead(len(a.out.buf) - headRoom)
	message := a.out.buf[headRoom-len(head):]
	copy(message, head)
	return message, nil
}

// messageHead is the head of a message of n bytes as member 1 of another.
func messageHead(n int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(make([]byte, 0, headRoom), 1, protowire.BytesType), uint64(n))
}
