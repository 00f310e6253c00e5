package codec

// modeNames are what EncodingName appends for the mode of a frame.
var modeNames = [...]string{modePlain: "", modeDelta: " delta", modeTrend: " trend", modeRates: " delta-of-delta"}

// EncodingName returns the name of the encoding of a block of n values for
// tools: the form, the mode of a frame ("simple8b delta-of-delta"), and for
// decimals and dictionaries of strings the form inside ("alp packed delta",
// "dict snappy"). It looks at headers only.
func EncodingName(block []byte, n int, kind Kind) string {
	f := formOf(block)
	if checkBlock(block, n) != nil {
		return f.name
	}
	switch {
	case f.frame && len(block) > 1:
		return f.name + modeNames[block[1]&modeMask]
	case kind == Floats && block[0] == encDecimal:
		if a, err := readALP(block, n); err == nil {
			return f.name + " " + EncodingName(a.ints, n, Integers)
		}
	case kind == Strings && block[0] == encDict:
		if _, _, values, err := readPair(block); err == nil {
			return f.name + " " + formOf(values).name
		}
	}
	return f.name
}
