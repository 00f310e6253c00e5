package codec

// This file is the rule by which one of several forms of a block is taken.
//
// A flush, and a merge of a shard that is written to, looks for a form that
// says more than the values: const, linear, runs, decimals (ALP), doubles that
// are integers times a power of two, a dictionary of strings. What is left
// becomes one of four families:
//
//	integers, times    delta-of-delta, delta, trend or plain (chooseMode), as
//	                   Simple-8b words, or as a packed frame if that saves a tenth
//	doubles            Gorilla
//	strings            Snappy
//	anything           raw, where that is smaller
//
// The integers inside other blocks (of decimals, ids, lengths) take the smaller
// of a packed frame and Simple-8b words.
//
// The merge of a shard at rest (AppendDense) replaces a block by a smaller one:
//
//	integers, times    a packed frame for Simple-8b words if it is smaller;
//	                   Rice codes for either if they save a tenth
//	decimals           the same for their integers
//	doubles            quotients if they save a quarter, else ALP-RD if it is smaller
//
// Rice codes and quotients take longer to decode than what they replace, so they have to save
// something; the other forms are faster.
//
// docs/decisions/0012 has the reasons and the numbers, TestChoice what it comes to.

// choice is how the form of an integer block is chosen.
type choice byte

const (
	families choice = iota // of a column, by a flush
	smallest               // inside another block
)

// familyShare is the saving that a packed frame must bring over Simple-8b words:
// one in so many bits.
const familyShare = 10

// simple8Limit returns the most bits of Simple-8b words that are taken instead
// of a packed frame of so many bits.
func (c choice) simple8Limit(packed int) int {
	if c == families {
		return packed + packed/(familyShare-1)
	}
	// What decodes slower has to save a sixteenth.
	return packed / 16 * 15
}

const (
	// denseShare is the saving that Rice codes must bring: one in so many bytes.
	denseShare = 10
	// minDense is the fewest values that a denser form is looked for.
	minDense = 64
	// quotientShare is the saving that quotients must bring: they take six times as long to
	// decode as ALP-RD, and as long as Gorilla.
	quotientShare = 4
	// splitShare is the least bytes a value that ALP-RD takes.
	splitShare = 6
	// decimalShare is the bytes a value up to which decimals are taken at once:
	// nothing else comes near.
	decimalShare = 5
)

// Kind is what the values of a block are, for functions that do not take or
// return values.
type Kind byte

// The kinds. Integers are times and unsigned values, too.
const (
	Integers Kind = iota
	Floats
	Booleans
	Strings
)

// AppendDense appends a smaller form of a block of n values, for data that is
// hardly ever written again. It returns false, and dst as it was, if there is
// none. The block is one of the Append function of the kind, and the result is
// read by the same Decode function. An error says that the block is damaged.
func AppendDense(dst, block []byte, n int, kind Kind) ([]byte, bool, error) {
	if n < minDense || len(block) == 0 {
		return dst, false, nil
	}
	if err := checkBlock(block, n); err != nil {
		return dst, false, err
	}
	inner := 0 // where the integer block begins
	if kind == Floats && block[0] == encDecimal {
		a, err := readALP(block, n)
		if err != nil {
			return dst, false, err
		}
		if inner = len(block) - len(a.ints); inner == len(block) {
			return dst, false, corrupt("empty")
		}
	}
	if kind != Integers && kind != Floats {
		return dst, false, nil
	}
	switch block[inner] {
	case encPacked, encSimple8:
		dst, ok, err := appendDenseWords(dst, block, inner, n)
		if ok || err != nil || kind != Floats || len(block) <= splitShare*n {
			return dst, ok, err
		}
		return appendDenseFloats(dst, block, n)
	case encXOR, encRaw:
		if kind == Floats {
			return appendDenseFloats(dst, block, n)
		}
	}
	return dst, false, nil
}
