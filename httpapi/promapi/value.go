package promapi

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/stats"

	"tsdbd/httpapi/encode"
)

// value writes the value of a query. It is an engine.Sink.
type value struct {
	call  *Call
	list  bool // the value is a list
	count int  // elements of the list
	clock clock
}

// pointsPerPiece is how many points are encoded between looks at the buffer.
const pointsPerPiece = 512

// Begin begins the document.
func (v *value) Begin(t parser.ValueType) error {
	if err := v.call.head(); err != nil {
		return err
	}
	return v.call.append(func(b []byte) []byte {
		b = append(b, `{"resultType":"`...)
		b = append(append(b, t...), `","result":`...)
		if v.list = t == parser.ValueTypeVector || t == parser.ValueTypeMatrix; v.list {
			b = append(b, '[')
		}
		return b
	})
}

// open begins an element of the list with its labels.
func (v *value) open(b []byte, metric labels.Labels) []byte {
	if v.count > 0 {
		b = append(b, ',')
	}
	v.count++
	return appendLabels(append(b, `{"metric":`...), metric)
}

// Sample adds an element of a vector.
func (v *value) Sample(s *promql.Sample) error {
	return v.call.append(func(b []byte) []byte {
		b = v.open(b, s.Metric)
		if s.H != nil {
			b = v.clock.appendHistogramPoint(append(b, `,"histogram":`...), s.T, s.H)
		} else {
			b = v.clock.appendPoint(append(b, `,"value":`...), s.T, s.F)
		}
		return append(b, '}')
	})
}

// Series adds a series of a matrix.
func (v *value) Series(s *promql.Series) error {
	err := v.call.append(func(b []byte) []byte { return v.open(b, s.Metric) })
	if err == nil {
		err = appendPieces(v.call, `,"values":[`, s.Floats, func(b []byte, p promql.FPoint) []byte { return v.clock.appendPoint(b, p.T, p.F) })
	}
	if err == nil {
		err = appendPieces(v.call, `,"histograms":[`, s.Histograms, func(b []byte, p promql.HPoint) []byte { return v.clock.appendHistogramPoint(b, p.T, p.H) })
	}
	if err != nil {
		return err
	}
	return v.call.append(func(b []byte) []byte { return append(b, '}') })
}

// appendPieces adds a list of points in pieces.
func appendPieces[P any](c *Call, open string, points []P, one func([]byte, P) []byte) error {
	for i := 0; i < len(points); i += pointsPerPiece {
		piece := points[i:min(i+pointsPerPiece, len(points))]
		err := c.append(func(b []byte) []byte {
			for j, p := range piece {
				if i+j == 0 {
					b = append(b, open...)
				} else {
					b = append(b, ',')
				}
				b = one(b, p)
			}
			if i+len(piece) == len(points) {
				b = append(b, ']')
			}
			return b
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Scalar writes a scalar. Prometheus prints it in another way than points.
func (v *value) Scalar(s promql.Scalar) error {
	return v.call.append(func(b []byte) []byte {
		b = append(appendSeconds(append(b, '['), s.T), `,"`...)
		return append(strconv.AppendFloat(b, s.V, 'f', -1, 64), `"]`...)
	})
}

// String writes a string.
func (v *value) String(s promql.String) error {
	return v.call.append(func(b []byte) []byte {
		b = append(appendSeconds(append(b, '['), s.T), ',')
		return append(encode.AppendString(b, s.V), ']')
	})
}

// end ends the data.
func (v *value) end(s stats.QueryStats) error {
	var statistics []byte
	if s != nil {
		var err error
		if statistics, err = json.Marshal(s); err != nil {
			return err
		}
	}
	return v.call.append(func(b []byte) []byte {
		if v.list {
			b = append(b, ']')
		}
		if statistics != nil {
			b = append(append(b, `,"stats":`...), statistics...)
		}
		return append(b, '}')
	})
}

func appendLabels(b []byte, l labels.Labels) []byte {
	b = append(b, '{')
	first := true
	l.Range(func(l labels.Label) {
		if !first {
			b = append(b, ',')
		}
		first = false
		b = encode.AppendString(b, l.Name)
		b = encode.AppendString(append(b, ':'), l.Value)
	})
	return append(b, '}')
}

// clock prints times. It keeps what the next time is likely to begin with.
type clock struct {
	head int64  // ten thousands of seconds
	text []byte // of head
}

// appendTime appends milliseconds as seconds with three digits behind the point, or
// none if they are zero.
func (c *clock) appendTime(b []byte, ms int64) []byte {
	const block = 10_000_000 // ms
	if ms < 0 {
		b, ms = append(b, '-'), -ms
	}
	if ms < block {
		b = strconv.AppendInt(b, ms/1000, 10)
	} else {
		if head := ms / block; head != c.head {
			c.head, c.text = head, strconv.AppendInt(c.text[:0], head, 10)
		}
		tail := uint32(ms % block / 1000)
		b = append(append(b, c.text...), byte('0'+tail/1000), byte('0'+tail/100%10), byte('0'+tail/10%10), byte('0'+tail%10))
	}
	if f := uint32(ms % 1000); f != 0 {
		b = append(b, '.', byte('0'+f/100), byte('0'+f/10%10), byte('0'+f%10))
	}
	return b
}

// appendSeconds appends milliseconds as encoding/json prints seconds.
func appendSeconds(b []byte, ms int64) []byte {
	return strconv.AppendFloat(b, float64(ms)/1000, 'f', -1, 64)
}

func (c *clock) appendPoint(b []byte, ms int64, v float64) []byte {
	b = append(c.appendTime(append(b, '['), ms), ',')
	return append(appendNumber(b, v), ']')
}

// appendNumber appends a number as a string.
func appendNumber(b []byte, v float64) []byte {
	b = append(b, '"')
	if abs := math.Abs(v); abs != 0 && !(abs >= 1e-6 && abs < 1e21) { // NaN as well
		format := byte('f')
		if abs < 1e-6 || abs >= 1e21 {
			format = 'e'
		}
		return append(strconv.AppendFloat(b, v, format, -1, 64), '"')
	}
	return append(encode.AppendFloat(b, v), '"')
}

func (c *clock) appendHistogramPoint(b []byte, ms int64, h *histogram.FloatHistogram) []byte {
	b = append(c.appendTime(append(b, '['), ms), ',')
	return append(appendHistogram(b, h), ']')
}

// appendHistogram appends a histogram with those of its buckets that are not empty.
// The first element of a bucket says which of its boundaries belong to it: 0 the
// upper, 1 the lower, 2 none, 3 both.
func appendHistogram(b []byte, h *histogram.FloatHistogram) []byte {
	b = appendNumber(append(b, `{"count":`...), h.Count)
	b = appendNumber(append(b, `,"sum":`...), h.Sum)
	first := true
	for it := h.AllBucketIterator(); it.Next(); {
		bucket := it.At()
		if bucket.Count == 0 {
			continue
		}
		if first {
			b = append(b, `,"buckets":[[`...)
		} else {
			b = append(b, ',', '[')
		}
		first = false
		inclusive := byte('2')
		switch {
		case bucket.LowerInclusive && bucket.UpperInclusive:
			inclusive = '3'
		case bucket.LowerInclusive:
			inclusive = '1'
		case bucket.UpperInclusive:
			inclusive = '0'
		}
		b = append(b, inclusive)
		for _, v := range [...]float64{bucket.Lower, bucket.Upper, bucket.Count} {
			b = appendNumber(append(b, ','), v)
		}
		b = append(b, ']')
	}
	if !first {
		b = append(b, ']')
	}
	return append(b, '}')
}
