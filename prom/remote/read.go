package remote

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"tsdbd/prom"
)

// Query is one query of a ReadRequest.
type Query struct {
	Start, End int64 // ms since the epoch, both inclusive
	Matchers   []Matcher
}

// ParseReadRequest reads the queries of a ReadRequest.
func ParseReadRequest(b []byte) (queries []Query, err error) {
	rest := message(b)
	var m member
	for {
		more, err := rest.next(&m)
		switch {
		case !more:
			return queries, err
		case m.field != 1 || m.data == nil:
			continue
		}
		q, err := parseQuery(m.data)
		if err != nil {
			return nil, err
		}
		queries = append(queries, q)
	}
}

func parseQuery(b message) (q Query, err error) {
	var m member
	for {
		more, err := b.next(&m)
		switch {
		case !more:
			return q, err
		case m.field == 1:
			q.Start = int64(m.num)
		case m.field == 2:
			q.End = int64(m.num)
		case m.field == 3:
			matcher, err := parseMatcher(m.data)
			if err != nil {
				return q, err
			}
			q.Matchers = append(q.Matchers, matcher)
		}
	}
}

func parseMatcher(b message) (matcher Matcher, err error) {
	var m member
	for {
		more, err := b.next(&m)
		switch {
		case !more:
			return matcher, err
		case m.field == 1:
			matcher.Kind = MatchKind(m.num)
		case m.field == 2:
			matcher.Name = string(m.data)
		case m.field == 3:
			matcher.Value = string(m.data)
		}
	}
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
