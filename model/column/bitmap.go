package column

import "math/bits"

// Bitmap is a bit per row, bit i%64 of word i/64. A nil Bitmap where a
// validity is meant says that every row is valid.
type Bitmap []uint64

// NewBitmap returns a cleared bitmap for n rows.
func NewBitmap(n int) Bitmap { return make(Bitmap, (n+63)/64) }

// Get reports bit i.
func (b Bitmap) Get(i int) bool { return b[i>>6]>>(uint(i)&63)&1 != 0 }

// Set sets bit i.
func (b Bitmap) Set(i int) { b[i>>6] |= 1 << (uint(i) & 63) }

// Clear clears bit i.
func (b Bitmap) Clear(i int) { b[i>>6] &^= 1 << (uint(i) & 63) }

// Count returns the number of set bits among the first n.
func (b Bitmap) Count(n int) int {
	c := 0
	for i := 0; i < n>>6; i++ {
		c += bits.OnesCount64(b[i])
	}
	if r := uint(n) & 63; r != 0 {
		c += bits.OnesCount64(b[n>>6] & (1<<r - 1))
	}
	return c
}
