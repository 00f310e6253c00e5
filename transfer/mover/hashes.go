package mover

import "github.com/cespare/xxhash/v2"

// hashes is a set of series by hashes of 64 bits: about 16 bytes a series. That two of them
// have the same is as good as impossible: of 10 million series with a chance of 1 in 370,000.
type hashes map[uint64]struct{}

// add adds a series and reports whether it was not there.
func (h hashes) add(database, policy, key string) bool {
	var d xxhash.Digest
	d.Reset()
	for _, s := range []string{database, policy, key} {
		_, _ = d.WriteString(s)
		_, _ = d.Write([]byte{0})
	}
	n := len(h)
	h[d.Sum64()] = struct{}{}
	return len(h) > n
}
