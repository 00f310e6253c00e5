package codec

import "tsdbd/internal/binio"

var formNames = [...]string{"raw", "const", "linear", "runs", "packed", "simple8b", "gorilla", "alp", "alp-rd", "bits", "dict", "snappy", "rice"}

var modeNames = [...]string{modePlain: "", modeDelta: " delta", modeTrend: " trend", modeRates: " delta-of-delta"}

// formName returns the name of a block's first byte.
func formName(block []byte) string {
	if len(block) == 0 || int(block[0]) >= len(formNames) {
		return "unknown"
	}
	return formNames[block[0]]
}

// EncodingName returns the name of the encoding of a block of n values for
// tools: the form, the mode of an integer block ("simple8b delta-of-delta"), and
// for decimals and dictionaries of strings the form inside ("alp packed delta",
// "dict snappy"). It looks at headers only.
func EncodingName(block []byte, n int, kind Kind) string {
	name := formName(block)
	if checkBlock(block, n) != nil {
		return name
	}
	switch {
	case len(block) > 1 && (block[0] == encPacked || block[0] == encSimple8 || block[0] == encRice):
		return name + modeNames[block[1]&modeMask]
	case kind == Floats && block[0] == encDecimal:
		if a, err := readALP(block, n); err == nil {
			return name + " " + EncodingName(a.ints, n, Integers)
		}
	case kind == Strings && block[0] == encDict:
		d := binio.NewDecoder(block[1:])
		d.Uvarint()
		d.Bytes(d.Count(1))
		if text := d.Bytes(d.Len()); d.Err() == nil {
			return name + " " + formName(text)
		}
	}
	return name
}
