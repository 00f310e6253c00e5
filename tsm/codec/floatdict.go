package codec

import "encoding/binary"

// A float dictionary has doubles that come back again:
//
//	10 | distinct | size | ids (integer block) | distinct x 8 bytes
//
// The values are in order of first appearance. It is read, but no longer written: it saved
// 0.2 % of a real load (docs/decisions/0034).
const maxFloatDict = 255

func decodeFloatDict(dst []uint64, block []byte) error {
	distinct, ids, values, err := readPair(block)
	if err != nil {
		return err
	}
	if distinct < 1 || distinct > maxFloatDict || uint64(len(values)) != 8*distinct {
		return corrupt("dictionary size")
	}
	if err := decodePlainWords(dst, ids); err != nil {
		return err
	}
	for i, id := range dst {
		if id >= distinct {
			return corrupt("dictionary id")
		}
		dst[i] = binary.LittleEndian.Uint64(values[8*id:])
	}
	return nil
}
