package load

import (
	"math/rand/v2"
	"strconv"
)

// The shape of the hicard workload.
const (
	HicardStart    = 1577836800 // s since the epoch: 2020-01-01T00:00:00Z
	HicardInterval = 10         // s
	HicardSeries   = 1_000_000
	HicardRounds   = 3

	// HicardMeasurement is the one measurement of the workload, with six tags
	// and the field value.
	HicardMeasurement = "m"
)

// Hicard makes very many series of few points: rounds of one row of each
// series, its host tag unique, its value of two decimals.
type Hicard struct {
	series, rounds int
	cents          []uint16 // by round, series: 100 times the value
	row            int
}

// NewHicard returns the generator at its first row. It makes the same rows
// every time.
func NewHicard(series, rounds int) *Hicard {
	g := &Hicard{series: series, rounds: rounds, cents: make([]uint16, series*rounds)}
	r := rand.New(rand.NewPCG(7, 1_000_000))
	for i := range g.cents {
		g.cents[i] = uint16(r.IntN(10_001))
	}
	return g
}

// Series returns the number of series.
func (g *Hicard) Series() int { return g.series }

// Rounds returns the number of points of each series.
func (g *Hicard) Rounds() int { return g.rounds }

// Value returns a point's value.
func (g *Hicard) Value(round, series int) float64 {
	return float64(g.cents[round*g.series+series]) / 100
}

// HicardTime returns the time of a round's points (ns since the epoch).
func HicardTime(round int) int64 { return (HicardStart + int64(round)*HicardInterval) * 1e9 }

// HicardHost returns the host tag of a series.
func HicardHost(series int) string {
	digits := strconv.Itoa(series)
	return "host_" + "0000000"[:max(0, 7-len(digits))] + digits
}

// MeanByRegion returns the mean of the values of a dc's series by their
// region.
func (g *Hicard) MeanByRegion(dc int) map[string]float64 {
	sums, counts := map[int]int64{}, map[int]int64{}
	for i := range g.series {
		if i%10 != dc {
			continue
		}
		for round := range g.rounds {
			sums[i%40] += int64(g.cents[round*g.series+i])
			counts[i%40]++
		}
	}
	means := map[string]float64{}
	for region, sum := range sums {
		means["region-"+strconv.Itoa(region)] = float64(sum) / 100 / float64(counts[region])
	}
	return means
}

// Next appends up to n lines of one round to dst and returns it with the
// number of lines; 0 at the end.
func (g *Hicard) Next(dst []byte, n int) ([]byte, int) {
	if g.row == g.series*g.rounds {
		return dst, 0
	}
	round, first := g.row/g.series, g.row%g.series
	n = min(n, g.series-first)
	for i := first; i < first+n; i++ {
		h := uint32(i) * 2654435761
		dst = append(dst, HicardMeasurement+",app=app-"...)
		dst = strconv.AppendUint(dst, uint64(h%200), 10)
		dst = append(dst, ",dc=dc"...)
		dst = strconv.AppendInt(dst, int64(i%10), 10)
		dst = append(dst, ",host=host_"...)
		for limit := 1_000_000; limit > i && limit > 1; limit /= 10 {
			dst = append(dst, '0')
		}
		dst = strconv.AppendInt(dst, int64(i), 10)
		dst = append(dst, ",rack=rack-"...)
		dst = strconv.AppendInt(dst, int64(i/10%1000), 10)
		dst = append(dst, ",region=region-"...)
		dst = strconv.AppendInt(dst, int64(i%40), 10)
		dst = append(dst, ",service=svc-"...)
		dst = strconv.AppendUint(dst, uint64(h>>8%50), 10)
		dst = append(dst, " value="...)
		c := g.cents[round*g.series+i]
		dst = strconv.AppendUint(dst, uint64(c/100), 10)
		dst = append(dst, '.', '0'+byte(c%100/10), '0'+byte(c%10), ' ')
		dst = strconv.AppendInt(dst, HicardTime(round), 10)
		dst = append(dst, '\n')
	}
	g.row += n
	return dst, n
}
