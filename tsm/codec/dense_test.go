package codec

import "testing"

// TestSetsRoundTrip takes every data set through its block and its dense form.
func TestSetsRoundTrip(t *testing.T) {
	for _, n := range []int{64, 65, 1000, 1024, MaxValues} {
		for _, set := range timeSets {
			roundTrip(t, set.name, set.make(seeded(2), n), AppendTimes, DecodeTimes, same)
		}
		for _, set := range intSets {
			v := set.make(seeded(2), n)
			roundTrip(t, set.name, v, AppendIntegers, DecodeIntegers, same)
			roundTrip(t, set.name, words(v), AppendUnsigneds, DecodeUnsigneds, same)
		}
		for _, set := range floatSets {
			roundTrip(t, set.name, set.make(seeded(2), n), AppendFloats, DecodeFloats, sameBits)
		}
	}
}
