// Package wire writes points as InfluxDB's line protocol, for exports and for
// subscriptions.
//
// The encoder of influxdata/line-protocol/v2 escapes names and formats numbers.
// It follows InfluxDB 2.x, and this package makes up for the differences to
// 1.x, so that a reader of 1.x, package lineproto among them, reads back every
// point that can be stored (model.Unstorable):
//
//   - 2.x reads the escapes \n, \r, and \t in strings, where 1.x reads two
//     characters, and has no strings that are not UTF-8. Strings are written
//     here, with their bytes as they are.
//   - 1.x drops a backslash before a quote in measurements and field keys, and
//     before an equals sign in measurements. One more backslash is written there.
//
// All functions are pure and may be called concurrently.
package wire

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/influxdata/line-protocol/v2/lineprotocol"

	"tsdbd/model"
)

// AppendSeries appends the beginning of a line: a series by its canonical key,
// which is the encoder's text unless the measurement contains a backslash.
func AppendSeries(dst []byte, key string) []byte {
	if i := strings.IndexAny(key, `,\`); i < 0 || key[i] == ',' {
		return append(dst, key...)
	}
	measurement, tags := model.ParseSeriesKey(key, nil)
	var e lineprotocol.Encoder
	e.SetLax(true)
	e.SetBuffer(dst)
	e.StartLine(keepBackslashes(measurement, inMeasurement))
	for _, t := range tags {
		e.AddTag(t.Key, t.Value)
	}
	return e.Bytes()
}

// FieldPrefix returns what stands before the value of a field: its key and "=".
func FieldPrefix(key string) string {
	var e lineprotocol.Encoder
	e.SetLax(true)
	e.StartLine("m")
	e.AddField(keepBackslashes(key, inFieldKey), lineprotocol.BoolValue(true))
	line := e.Bytes()
	return string(line[len("m ") : len(line)-len("true")])
}

// What a backslash must be doubled before: the encoder does not.
var (
	inMeasurement = strings.NewReplacer(`\"`, `\\"`, `\=`, `\\=`)
	inFieldKey    = strings.NewReplacer(`\"`, `\\"`)
)

func keepBackslashes(name string, double *strings.Replacer) string {
	if strings.IndexByte(name, '\\') < 0 {
		return name
	}
	return double.Replace(name)
}

// AppendFloat appends the value of a field. NaN and infinities, which line protocol
// cannot express, become 0x and the 16 hexadecimal digits of their bits, which package
// lineproto reads.
func AppendFloat(dst []byte, v float64) []byte {
	value, ok := lineprotocol.FloatValue(v)
	if !ok {
		return fmt.Appendf(dst, "0x%016x", math.Float64bits(v))
	}
	return value.AppendBytes(dst)
}

// AppendInteger appends the value of a field.
func AppendInteger(dst []byte, v int64) []byte { return lineprotocol.IntValue(v).AppendBytes(dst) }

// AppendUnsigned appends the value of a field.
func AppendUnsigned(dst []byte, v uint64) []byte { return lineprotocol.UintValue(v).AppendBytes(dst) }

// AppendBoolean appends the value of a field.
func AppendBoolean(dst []byte, v bool) []byte { return lineprotocol.BoolValue(v).AppendBytes(dst) }

// AppendString appends the value of a field. The encoder has no text for what
// may be in a string of 1.x.
func AppendString(dst, s []byte) []byte {
	dst = append(dst, '"')
	for _, c := range s {
		if c == '"' || c == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, c)
	}
	return append(dst, '"')
}

// AppendTime appends the time, in nanoseconds, and ends the line.
func AppendTime(dst []byte, t int64) []byte {
	return append(strconv.AppendInt(append(dst, ' '), t, 10), '\n')
}
