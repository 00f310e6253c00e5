package window

import "math"

// add adds v to a sum and keeps in lost what the sum rounds away: the summation of
// Neumaier. The conversions forbid the compiler to fuse the additions with
// multiplications of the caller. A caller converts a product that it passes as sum or lost:
// two conversions more, and add would not be inlined.
func add(v, sum, lost float64) (float64, float64) {
	v = float64(v)
	total := sum + v
	switch {
	case total > math.MaxFloat64 || total < -math.MaxFloat64:
		lost = 0
	case math.Abs(sum) >= math.Abs(v):
		lost += (sum - total) + v
	default:
		lost += (v - total) + sum
	}
	return float64(total), float64(lost)
}
