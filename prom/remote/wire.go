package remote

import (
	"errors"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"tsdbd/model"
	"tsdbd/prom"
)

// The messages of Prometheus remote write 1.0 and remote read, as far as they
// are used: the numbers below are those of prometheus/prompb. Members that are
// not known are passed over.

var errProtobuf = errors.New("proto: cannot parse invalid wire-format data")

// Query is one query of a ReadRequest.
type Query struct {
	Start, End int64 // ms since the epoch, both inclusive
	Matchers   []Matcher
}

// eachMember calls f for each member of a message. Of num and data, the one
// that the member's type has is set.
func eachMember(b []byte, f func(field protowire.Number, num uint64, data []byte) error) error {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errProtobuf
		}
		b = b[n:]
		var num uint64
		var data []byte
		switch kind {
		case protowire.VarintType:
			num, n = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			num, n = protowire.ConsumeFixed64(b)
		case protowire.Fixed32Type:
			var short uint32
			short, n = protowire.ConsumeFixed32(b)
			num = uint64(short)
		case protowire.BytesType:
			data, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(field, kind, b)
			if n >= 0 {
				b = b[n:]
				continue
			}
		}
		if n < 0 {
			return errProtobuf
		}
		b = b[n:]
		if err := f(field, num, data); err != nil {
			return err
		}
	}
	return nil
}

// EachSeries calls f for each time series of a WriteRequest. The labels are a
// series' tags. The slices are used again for the next.
func EachSeries(b []byte, f func(labels model.Tags, samples []prom.Sample, histograms []prom.Histogram) error) error {
	var labels model.Tags
	var samples []prom.Sample
	var histograms []prom.Histogram
	return eachMember(b, func(field protowire.Number, _ uint64, data []byte) error {
		if field != 1 || data == nil {
			return nil // metadata
		}
		labels, samples, histograms = labels[:0], samples[:0], histograms[:0]
		err := eachMember(data, func(field protowire.Number, _ uint64, data []byte) (err error) {
			switch {
			case data == nil:
			case field == 1:
				var l model.Tag
				l.Key, l.Value, err = pair(data, 1)
				labels = append(labels, l)
			case field == 2:
				var s prom.Sample
				err = eachMember(data, func(field protowire.Number, num uint64, _ []byte) error {
					switch field {
					case 1:
						s.Value = math.Float64frombits(num)
					case 2:
						s.Time = int64(num)
					}
					return nil
				})
				samples = append(samples, s)
			case field == 4:
				var h prom.Histogram
				h, err = parseHistogram(data)
				histograms = append(histograms, h)
			}
			return err
		})
		if err != nil {
			return err
		}
		return f(labels, samples, histograms)
	})
}

// pair reads the two texts of a message, members first and first+1.
func pair(b []byte, first protowire.Number) (name, value string, err error) {
	err = eachMember(b, func(field protowire.Number, _ uint64, data []byte) error {
		switch field {
		case first:
			name = string(data)
		case first + 1:
			value = string(data)
		}
		return nil
	})
	return name, value, err
}

// ParseReadRequest reads the queries of a ReadRequest.
func ParseReadRequest(b []byte) (queries []Query, err error) {
	err = eachMember(b, func(field protowire.Number, _ uint64, data []byte) error {
		if field != 1 || data == nil {
			return nil
		}
		var q Query
		err := eachMember(data, func(field protowire.Number, num uint64, data []byte) (err error) {
			switch field {
			case 1:
				q.Start = int64(num)
			case 2:
				q.End = int64(num)
			case 3:
				var m Matcher
				if m.Name, m.Value, err = pair(data, 2); err != nil {
					return err
				}
				err = eachMember(data, func(field protowire.Number, num uint64, _ []byte) error {
					if field == 1 {
						m.Kind = MatchKind(num)
					}
					return nil
				})
				q.Matchers = append(q.Matchers, m)
			}
			return err
		})
		queries = append(queries, q)
		return err
	})
	return queries, err
}

// MaxLabel is the largest size of a label in a message, without its texts, and
// MaxSample the largest size of a sample.
const (
	MaxLabel  = 3 * (1 + 5)
	MaxSample = 1 + 1 + 1 + 8 + 1 + 10
)

// AppendLabel appends a label as a member of a time series.
func AppendLabel(dst []byte, name, value string) []byte {
	size := protowire.SizeTag(1) + protowire.SizeBytes(len(name)) + protowire.SizeTag(2) + protowire.SizeBytes(len(value))
	dst = protowire.AppendVarint(protowire.AppendTag(dst, 1, protowire.BytesType), uint64(size))
	dst = protowire.AppendString(protowire.AppendTag(dst, 1, protowire.BytesType), name)
	return protowire.AppendString(protowire.AppendTag(dst, 2, protowire.BytesType), value)
}

// AppendSample appends a sample as a member of a time series.
func AppendSample(dst []byte, s prom.Sample) []byte {
	size := protowire.SizeTag(1) + protowire.SizeFixed64() + protowire.SizeTag(2) + protowire.SizeVarint(uint64(s.Time))
	dst = protowire.AppendVarint(protowire.AppendTag(dst, 2, protowire.BytesType), uint64(size))
	dst = protowire.AppendFixed64(protowire.AppendTag(dst, 1, protowire.Fixed64Type), math.Float64bits(s.Value))
	return protowire.AppendVarint(protowire.AppendTag(dst, 2, protowire.VarintType), uint64(s.Time))
}
