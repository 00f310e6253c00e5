package otlp

import (
	"errors"
	"fmt"
	"math"

	prometheus "github.com/prometheus/prometheus/model/histogram"
)

// zeroThreshold is the width of the zero bucket of a histogram that does not say it.
const zeroThreshold = 1e-128

// maxGap is how many empty buckets in a row are stored, because they are smaller than
// a new span.
const maxGap = 2

var errOffset = errors.New("the offset of the buckets is too large")

// native returns the native histogram of an exponential histogram. bad is why there is
// none.
func (p *point) native() (h *prometheus.Histogram, bad error) {
	scale := p.scale
	if scale < prometheus.ExponentialSchemaMin {
		return nil, fmt.Errorf("scale %d, at least %d is needed", scale, prometheus.ExponentialSchemaMin)
	}
	down := max(scale-prometheus.ExponentialSchemaMax, 0)
	h = &prometheus.Histogram{Schema: scale - down, ZeroThreshold: zeroThreshold}
	if p.zeroThreshold > 0 {
		h.ZeroThreshold = p.zeroThreshold
	}
	if p.stale {
		h.Sum = staleMarker
		return h, nil
	}
	h.Count, h.ZeroCount = p.count, p.zeroCount
	if p.hasSum {
		h.Sum = p.sum
	}
	if h.PositiveSpans, h.PositiveBuckets, bad = p.positive.sparse(down); bad != nil {
		return nil, bad
	}
	if h.NegativeSpans, h.NegativeBuckets, bad = p.minus.sparse(down); bad != nil {
		return nil, bad
	}
	return h, h.Validate()
}

// sparse returns buckets as a native histogram has them: spans without most of the
// empty buckets, and the differences from each count to the next. 1<<down buckets
// become one. Bucket 0 of OTLP begins where bucket 1 of a native histogram begins.
func (b *buckets) sparse(down int32) (spans []prometheus.Span, deltas []int64, bad error) {
	if down >= 32 {
		down = 31 // one bucket for each side of 1
	}
	var next int64    // index after the last bucket
	var before int64  // count of the last bucket
	var current int64 // index of the bucket that is collected
	var count uint64
	flush := func() {
		gap := current - next
		if len(spans) == 0 || gap > maxGap {
			spans = append(spans, prometheus.Span{Offset: int32(gap)})
			gap = 0
		}
		for range gap {
			deltas, before = append(deltas, -before), 0
		}
		deltas, before = append(deltas, int64(count)-before), int64(count)
		spans[len(spans)-1].Length += uint32(gap) + 1
		next = current + 1
	}
	for i, n := range b.counts {
		if n == 0 {
			continue
		}
		index := (int64(b.offset)+int64(i))>>down + 1
		if index > math.MaxInt32 {
			return nil, nil, errOffset
		}
		if count > 0 && index != current {
			flush()
			count = 0
		}
		current, count = index, count+n
	}
	if count > 0 {
		flush()
	}
	return spans, deltas, nil
}
