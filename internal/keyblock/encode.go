package keyblock

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"strings"
)

// maxKeys is the largest number of keys in a block.
const maxKeys = 1 << 12

// How the values of a column are written, behind what all begin with.
const (
	formConst   = 0 // there is nothing behind it
	formDict    = 1 // one of few texts
	formNumber  = 2 // a number and a text that all end with
	formAscends = 3 // the same, each number not less than the one before
	formText    = 4 // any text
)

// maxDigits keeps numbers below 2^63.
const maxDigits = 18

// Encoder encodes blocks and keeps its memory, and with it the keys it has
// seen last. It belongs to one goroutine.
type Encoder struct {
	rest, column, words []string
	ids                 []uint64
	numbers             numberColumn
}

// Append appends the block of keys to dst. It returns false, and dst as it was,
// if they do not all have the same number of parts.
func (e *Encoder) Append(dst []byte, keys []string) ([]byte, bool) {
	if len(keys) == 0 || len(keys) > maxKeys {
		return dst, false
	}
	parts := strings.Count(keys[0], ",") + 1
	for _, k := range keys[1:] {
		if strings.Count(k, ",")+1 != parts {
			return dst, false
		}
	}
	dst = binary.AppendUvarint(dst, uint64(parts))
	e.rest = append(e.rest[:0], keys...)
	e.column = append(e.column[:0], keys...)
	for range parts {
		for i, k := range e.rest {
			e.column[i], e.rest[i], _ = strings.Cut(k, ",")
		}
		dst = e.appendColumn(dst, e.column)
	}
	return dst, true
}

// appendColumn appends a column in the shortest form. It changes values.
func (e *Encoder) appendColumn(dst []byte, values []string) []byte {
	shared := len(values[0])
	for _, v := range values[1:] {
		shared = SharedPrefix(values[0][:shared], v)
	}
	same := true
	for _, v := range values {
		same = same && len(v) == shared
	}
	first := values[0]
	header := func(shared, form int) {
		dst = binary.AppendUvarint(dst, uint64(shared)<<3|uint64(form))
		dst = append(dst, first[:shared]...)
	}
	if same {
		header(shared, formConst)
		return dst
	}
	digits := shared // numbers are not cut in their middle
	for digits > 0 && isDigit(first[digits-1]) {
		digits--
	}
	cut := func(n int) {
		for i := range values {
			values[i] = values[i][n:]
		}
	}
	cut(digits)
	numbers, numberSize := e.numbersOf(values)
	cut(shared - digits)
	words, ids, dictSize := e.dictOf(values, numbers != nil)
	textSize := 0
	for _, v := range values {
		textSize += 1 + len(v)
	}
	switch {
	case numbers != nil && numberSize <= dictSize && numberSize < textSize:
		header(digits, numbers.form)
		return numbers.append(dst)
	case dictSize < textSize:
		header(shared, formDict)
		dst = binary.AppendUvarint(dst, uint64(len(words)))
		for _, w := range words {
			dst = appendText(dst, w)
		}
		return appendPacked(dst, ids, widthOf(uint64(len(words)-1)))
	}
	header(shared, formText)
	for _, v := range values {
		dst = appendText(dst, v)
	}
	return dst
}

// numberColumn are values that are numbers, followed by a common suffix.
type numberColumn struct {
	form   int
	suffix string
	digits int // of every number, with zeros in front; 0: none has any
	base   uint64
	values []uint64 // less base, or less the one before
	width  int
}

// numbersOf returns the values as numbers and about the bytes it takes, nil if
// they are none.
func (e *Encoder) numbersOf(values []string) (*numberColumn, int) {
	end := 0
	for end < len(values[0]) && isDigit(values[0][end]) {
		end++
	}
	c := &e.numbers
	*c = numberColumn{form: formAscends, suffix: values[0][end:], values: slices.Grow(c.values[:0], len(values))[:len(values)]}
	fixed, plain := true, true
	least, most, steps := ^uint64(0), uint64(0), uint64(0)
	for i, v := range values {
		text, ok := strings.CutSuffix(v, c.suffix)
		if !ok || len(text) == 0 || len(text) > maxDigits {
			return nil, 0
		}
		n := uint64(0)
		for j := range len(text) {
			if !isDigit(text[j]) {
				return nil, 0
			}
			n = n*10 + uint64(text[j]-'0')
		}
		plain = plain && (text[0] != '0' || len(text) == 1)
		fixed = fixed && len(v) == len(values[0])
		if i > 0 && n < c.values[i-1] {
			c.form = formNumber
		} else if i > 0 {
			steps = max(steps, n-c.values[i-1])
		}
		least, most = min(least, n), max(most, n)
		c.values[i] = n
	}
	if !plain && !fixed {
		return nil, 0
	}
	if !plain {
		c.digits = end
	}
	c.base, c.width = least, widthOf(most-least)
	if c.form == formAscends {
		c.width = widthOf(steps)
	}
	for i := len(c.values) - 1; i >= 0; i-- {
		if c.form == formAscends && i > 0 {
			c.values[i] -= c.values[i-1]
		} else {
			c.values[i] -= least
		}
	}
	return c, 6 + len(c.suffix) + (len(values)*c.width+7)/8
}

func (c *numberColumn) append(dst []byte) []byte {
	dst = appendText(dst, c.suffix)
	dst = append(dst, byte(c.digits), byte(c.width))
	dst = binary.AppendUvarint(dst, c.base)
	return appendPacked(dst, c.values, c.width)
}

// fewWords is the number of words up to which a word is looked for by
// comparing it with each.
const fewWords = 16

// dictOf returns the distinct values in order of appearance, the number of each
// value, and about the bytes they take. With few set it gives up on more than
// fewWords: size is then larger than any column.
func (e *Encoder) dictOf(values []string, few bool) (words []string, ids []uint64, size int) {
	var numbers map[string]uint64
	words = e.words[:0]
	ids = slices.Grow(e.ids[:0], len(values))[:len(values)]
	for i, v := range values {
		if i > 0 && v == values[i-1] {
			ids[i] = ids[i-1]
			continue
		}
		n := slices.Index(words[:min(len(words), fewWords)], v)
		if n < 0 && len(words) >= fewWords {
			if few {
				return nil, nil, math.MaxInt
			}
			if numbers == nil {
				numbers = make(map[string]uint64)
			}
			if k, ok := numbers[v]; ok {
				n = int(k)
			} else {
				numbers[v] = uint64(len(words))
			}
		}
		if n < 0 {
			n = len(words)
			words = append(words, v)
			size += 1 + len(v)
		}
		ids[i] = uint64(n)
	}
	e.words, e.ids = words, ids
	return words, ids, size + 2 + (len(values)*widthOf(uint64(len(words)-1))+7)/8
}

func appendText(dst []byte, text string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(text)))
	return append(dst, text...)
}

// appendPacked appends values of width bits each, least significant first.
func appendPacked(dst []byte, values []uint64, width int) []byte {
	var word uint64
	n := 0
	for _, v := range values {
		for left := width; left > 0; {
			k := min(left, 64-n)
			word |= v << n
			v, left, n = v>>k, left-k, n+k
			if n == 64 {
				dst = binary.LittleEndian.AppendUint64(dst, word)
				word, n = 0, 0
			}
		}
	}
	for ; n > 0; n -= 8 {
		dst = append(dst, byte(word))
		word >>= 8
	}
	return dst
}

func widthOf(most uint64) int { return bits.Len64(most) }

func isDigit(c byte) bool { return c-'0' < 10 }

// SharedPrefix returns the length of the longest common prefix.
func SharedPrefix[A, B string | []byte](a A, b B) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
