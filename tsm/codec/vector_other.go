//go:build !amd64

package codec

// On other machines the loops in Go do all of the work.

func divideVector([]uint64, *decimalScale) int { return 0 }

func frameVector(_ []uint64, _ []byte, f *frame, _ *decimalScale) (int, uint64) { return 0, f.first }

func splitVector([]uint64, []byte, uint, uint, *[1 << maxCodeBits]uint64) int { return 0 }

func joinVector([]uint64, []byte, []uint64, uint, uint) int { return 0 }
