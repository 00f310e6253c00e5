package codec

// The table is filled here, in a file that no other refers to, because the decoders of
// some forms read it.
func init() {
	forms = [...]form{
		encRaw:     {name: "raw", words: decodeRaw, floats: decodeRaw, strings: decodeTexts},
		encConst:   {name: "const", words: decodeLinear, floats: decodeFloatConst, booleans: decodeBoolConst, strings: decodeStringConst},
		encLinear:  {name: "linear", words: decodeLinear, floats: decodeLinear},
		encRuns:    {name: "runs", words: decodeWordRuns, floats: decodeFloatRuns, booleans: decodeBoolRuns},
		encPacked:  {name: "packed", words: decodePacked, floats: decodePacked, frame: true},
		encSimple8: {name: "simple8b", words: decodeSimple8, floats: decodeSimple8, frame: true},
		encXOR:     {name: "gorilla", floats: decodeGorilla},
		encDecimal: {name: "alp", floats: decodeALP},
		encSplit:   {name: "alp-rd", floats: decodeSplit},
		encBits:    {name: "bits", booleans: decodeBits},
		encDict:    {name: "dict", floats: decodeFloatDict, strings: decodeStringDict},
		encSnappy:  {name: "snappy", strings: decodeTexts},
		encRice:    {name: "rice", words: decodeRice, floats: decodeRice, frame: true},

		encQuotient: {name: "quotient", floats: decodeQuotients},
	}
}
