package window

import "math"

// add adds v to a sum and keeps in lost what the sum rounds away: the summation of
// Neumaier. The conversions forbid the compiler to fuse the additions with
// multiplications of the caller.
func add(v, sum, lost float64) (float64, float64) {
	v, sum, lost = float64(v), float64(sum), float64(lost)
	total := float64(sum + v)
	if total > math.MaxFloat64 || total < -math.MaxFloat64 {
		return total, 0
	}
	if math.Abs(sum) >= math.Abs(v) {
		return total, float64(lost + ((sum - total) + v))
	}
	return total, float64(lost + ((v - total) + sum))
}
