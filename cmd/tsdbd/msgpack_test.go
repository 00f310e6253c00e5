package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"
)

var errShortMsgpack = errors.New("msgpack: short body")

// decodeMsgpack decodes one value of the kinds that the server writes: numbers
// become json.Number, times "time 2006-01-02T15:04:05Z".
func decodeMsgpack(b []byte) (v any, rest []byte, err error) {
	if len(b) == 0 {
		return nil, nil, errShortMsgpack
	}
	c, b := b[0], b[1:]
	length := func(n int) int { // reads an n-byte length
		if len(b) < n {
			err = errShortMsgpack
			return 0
		}
		l := 0
		for _, x := range b[:n] {
			l = l<<8 | int(x)
		}
		b = b[n:]
		return l
	}
	number := func(v any) any { return json.Number(fmt.Sprint(v)) }
	n, kind := 0, c
	switch {
	case c < 0x80:
		return number(c), b, nil
	case c >= 0xe0:
		return number(int8(c)), b, nil
	case c < 0x90:
		n, kind = int(c&15), 0xdf
	case c < 0xa0:
		n, kind = int(c&15), 0xdd
	case c < 0xc0:
		n, kind = int(c&31), 0xdb
	case c == 0xd9:
		n, kind = length(1), 0xdb
	case c == 0xda:
		n, kind = length(2), 0xdb
	case c == 0xdb, c == 0xdd, c == 0xdf:
		n = length(4)
	}
	if err != nil {
		return nil, nil, err
	}
	switch kind {
	case 0xc0:
		return nil, b, nil
	case 0xc2, 0xc3:
		return c == 0xc3, b, nil
	case 0xdb:
		if len(b) < n {
			return nil, nil, errShortMsgpack
		}
		return string(b[:n]), b[n:], nil
	case 0xcb, 0xcf, 0xd3:
		if len(b) < 8 {
			return nil, nil, errShortMsgpack
		}
		u, b := binary.BigEndian.Uint64(b), b[8:]
		switch c {
		case 0xcb:
			text, err := json.Marshal(math.Float64frombits(u))
			return json.Number(text), b, err
		case 0xd3:
			return number(int64(u)), b, nil
		}
		return number(u), b, nil
	case 0xc7:
		if len(b) < 14 || b[0] != 12 || b[1] != 5 {
			return nil, nil, fmt.Errorf("msgpack: extension %x", b[:min(2, len(b))])
		}
		at := time.Unix(int64(binary.BigEndian.Uint64(b[2:])), int64(binary.BigEndian.Uint32(b[10:])))
		return "time " + at.UTC().Format(time.RFC3339Nano), b[14:], nil
	case 0xdd:
		list := []any{}
		for range n {
			var e any
			if e, b, err = decodeMsgpack(b); err != nil {
				return nil, nil, err
			}
			list = append(list, e)
		}
		return list, b, nil
	case 0xdf:
		dict := map[string]any{}
		for range n {
			var k, e any
			if k, b, err = decodeMsgpack(b); err != nil {
				return nil, nil, err
			}
			if e, b, err = decodeMsgpack(b); err != nil {
				return nil, nil, err
			}
			dict[fmt.Sprint(k)] = e
		}
		return dict, b, nil
	}
	return nil, nil, fmt.Errorf("msgpack: byte %#x", c)
}
