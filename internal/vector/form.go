package vector

// Form is a form that the loops of this package and of tsm/codec have. All forms
// give the same bits. A lesser Form runs wherever a greater one does.
type Form int

const (
	// InGo are the loops in Go. Every loop has this form; it defines the result.
	InGo Form = iota
	// AVX2 needs AVX2 and FMA: Haswell, Zen, and later.
	AVX2
	// AVX512 needs AVX-512 with byte permutations: Ice Lake, Zen 4, and later.
	AVX512
)

// loops is the form that runs; tests set others.
var loops = Best()
