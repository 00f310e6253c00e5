//go:build !amd64

package vector

// Best returns the greatest Form that the processor has.
func Best() Form { return InGo }

func floatLanes([]float64, *[lanes]float64, *[lanes]float64) int { return 0 }

func sumFloats([]float64) (n int, sum, lost float64) { return 0, 0, 0 }

func sumInts([]int64) (n int, sum int64) { return 0, 0 }

func minInt([]int64) (n int, m int64) { return 0, 0 }

func maxInt([]int64) (n int, m int64) { return 0, 0 }

func minFloat([]float64) (n int, m float64) { return 0, 0 }

func maxFloat([]float64) (n int, m float64) { return 0, 0 }

func hasNaN([]float64) (n int, nan bool) { return 0, false }

func sumRuns(dst, x []int64, k int) int { return 0 }

func sumFloatRuns(sum, lost, x []float64, k int) int { return 0 }

func minRuns(dst, x []int64, k int) int { return 0 }

func maxRuns(dst, x []int64, k int) int { return 0 }

func minFloatRuns(dst, x []float64, k int) int { return 0 }

func maxFloatRuns(dst, x []float64, k int) int { return 0 }
