package load

import "github.com/cespare/xxhash/v2"

// hashes is a set of series by hashes of 64 bits: 16 bytes a series. That two of them have
// the same is as good as impossible: of 10 million series with a chance of 1 in 370,000.
type hashes struct {
	words []uint64 // 0 where free; a power of two
	n     int
}

// add adds a series and reports whether it was not there.
func (h *hashes) add(database, policy, key string) bool {
	var d xxhash.Digest
	d.Reset()
	for _, s := range []string{database, policy, key} {
		_, _ = d.WriteString(s)
		_, _ = d.Write([]byte{0})
	}
	if (h.n+1)*4 > len(h.words)*3 {
		old := h.words
		h.words, h.n = make([]uint64, max(2*len(old), 1024)), 0
		for _, w := range old {
			if w != 0 {
				h.insert(w)
			}
		}
	}
	return h.insert(max(d.Sum64(), 1))
}

func (h *hashes) insert(w uint64) bool {
	for i := int(w & uint64(len(h.words)-1)); ; i = (i + 1) & (len(h.words) - 1) {
		switch h.words[i] {
		case w:
			return false
		case 0:
			h.words[i] = w
			h.n++
			return true
		}
	}
}
