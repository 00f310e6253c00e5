package collectd

import (
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"tsdbd/model"
	"tsdbd/services/input"
)

// The parts of a packet. Each begins with its kind and its length, this header
// counted, of 2 bytes each.
const (
	partHost           = 0x0000
	partTime           = 0x0001 // s
	partPlugin         = 0x0002
	partPluginInstance = 0x0003
	partType           = 0x0004
	partTypeInstance   = 0x0005
	partValues         = 0x0006
	partTimeHigh       = 0x0008 // 2^-30 s
	partSigned         = 0x0200
	partEncrypted      = 0x0210
)

const headerBytes = 4

// The kinds of values.
const (
	kindCounter  = 0
	kindGauge    = 1
	kindDerive   = 2
	kindAbsolute = 3
)

var (
	errMalformed   = errors.New("packet is malformed")
	errUnprotected = errors.New("packet is not signed or encrypted as security-level demands, or its user or password is wrong")
)

// decoder turns packets into points. It is used by one goroutine at a time.
type decoder struct {
	types Types
	users map[string]string
	level Level
	split bool

	points    []input.Point
	notNumber int // values left out
}

// state is the current texts and time.
type state struct {
	host, plugin, instance, kind, kindInstance string
	time                                       int64 // ns
}

// decode returns the points of a packet. They are valid until the next call. With an
// error it returns the points before the malformed part.
func (d *decoder) decode(packet []byte, now time.Time) ([]input.Point, error) {
	clear(d.points)
	d.points, d.notNumber = d.points[:0], 0
	err := d.parts(packet, None, &state{time: now.UnixNano()})
	return d.points, err
}

// parts reads parts with the protection level.
func (d *decoder) parts(b []byte, level Level, s *state) error {
	skipped := false
	for len(b) > 0 {
		if len(b) < headerBytes {
			return errMalformed
		}
		kind, n := binary.BigEndian.Uint16(b), int(binary.BigEndian.Uint16(b[2:]))
		if n < headerBytes || n > len(b) {
			return errMalformed
		}
		part := b[headerBytes:n]
		b = b[n:]
		switch kind {
		case partSigned:
			if level < Sign && d.verify(part, b) {
				level = Sign
			}
			continue
		case partEncrypted:
			plain, ok := d.decrypt(part)
			if !ok || level == Encrypt { // never one in another
				skipped = true
				continue
			}
			inner := *s
			if err := d.parts(plain, Encrypt, &inner); err != nil {
				return err
			}
			continue
		}
		if level < d.level {
			skipped = true
			continue
		}
		if !d.part(kind, part, s) {
			return errMalformed
		}
	}
	if skipped {
		return errUnprotected
	}
	return nil
}

// part reads one part. It ignores unknown kinds.
func (d *decoder) part(kind uint16, b []byte, s *state) bool {
	ok := true
	switch kind {
	case partHost:
		s.host, ok = text(b)
	case partPlugin:
		s.plugin, ok = text(b)
	case partPluginInstance:
		s.instance, ok = text(b)
	case partType:
		s.kind, ok = text(b)
	case partTypeInstance:
		s.kindInstance, ok = text(b)
	case partTime, partTimeHigh:
		if len(b) != 8 {
			return false
		}
		seconds, rest := binary.BigEndian.Uint64(b), uint64(0)
		if kind == partTimeHigh {
			seconds, rest = seconds>>30, seconds&(1<<30-1)
		}
		if ok = seconds < uint64(model.MaxTime)/uint64(time.Second); ok {
			s.time = int64(seconds)*int64(time.Second) + int64(rest*uint64(time.Second)>>30)
		}
	case partValues:
		ok = d.values(b, s)
	}
	return ok
}

// text reads a text, which ends in a zero byte.
func text(b []byte) (string, bool) {
	if len(b) == 0 || b[len(b)-1] != 0 {
		return "", false
	}
	return string(b[:len(b)-1]), true
}

// values reads a list of values.
//
//	count 2 | kind 1 * count | value 8 * count
func (d *decoder) values(b []byte, s *state) bool {
	if len(b) < 2 {
		return false
	}
	n := int(binary.BigEndian.Uint16(b))
	b = b[2:]
	if len(b) != 9*n {
		return false
	}
	tags := make(model.Tags, 0, 4)
	for _, t := range []model.Tag{{Key: "host", Value: s.host}, {Key: "instance", Value: s.instance}, {Key: "type", Value: s.kind}, {Key: "type_instance", Value: s.kindInstance}} {
		if t.Value != "" {
			tags = append(tags, t)
		}
	}
	names := d.types[s.kind]
	var fields []input.Field
	for i := range n {
		v, ok := value(b[i], b[n+8*i:])
		if !ok {
			return false
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			d.notNumber++
			continue
		}
		name := "value"
		switch {
		case len(names) == n:
			name = names[i]
		case n > 1:
			name = strconv.Itoa(i)
		}
		if d.split {
			d.points = append(d.points, input.Point{
				Measurement: strings.Join([]string{s.plugin, name}, "_"), Tags: tags, Time: s.time,
				Fields: []input.Field{{Key: "value", Value: v}},
			})
			continue
		}
		fields = append(fields, input.Field{Key: name, Value: v})
	}
	if len(fields) > 0 {
		d.points = append(d.points, input.Point{Measurement: s.plugin, Tags: tags, Fields: fields, Time: s.time})
	}
	return true
}

// value reads a value. Only gauges are in little-endian order.
func value(kind byte, b []byte) (float64, bool) {
	switch kind {
	case kindGauge:
		return math.Float64frombits(binary.LittleEndian.Uint64(b)), true
	case kindDerive:
		return float64(int64(binary.BigEndian.Uint64(b))), true
	case kindCounter, kindAbsolute:
		return float64(binary.BigEndian.Uint64(b)), true
	}
	return 0, false
}
