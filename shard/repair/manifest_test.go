package repair

import (
	"slices"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/shard/manifest"
)

// TestCurrentFiles has the files that a directory may hold when both manifests are
// lost, a word each: number, sequences, and the keys of the first and last series. Letters
// behind these are the series, else it has all from the first to the last.
func TestCurrentFiles(t *testing.T) {
	for _, c := range []struct{ what, found, want string }{
		{"flushes", "1:1-5:a-z 2:6-9:a-z", "1 2"},
		{"a merge whose files were not removed", "1:1-5:a-z 2:6-9:a-z 3:1-9:a-z", "3"},
		{"a merge into files that split the series", "1:1-5:a-z 2:6-9:a-z 3:1-9:a-k 4:1-9:l-z", "4 3"},
		{"a merge that was cut off before its last file", "1:1-5:a-z 2:6-9:a-z 3:1-9:a-k", "1 3 2"},
		{"a merge of a merge", "3:1-9:a-z 4:10-12:a-z 5:1-12:a-z", "5"},
		{"a file rewritten for its tombstones", "1:1-5:a-z 2:1-5:a-z", "2"},
		{"flushes after a merge", "3:1-9:a-z 4:10-12:b-c", "3 4"},
		{"moves made of some series after others", "1:1-5:a-z 2:6-6:a-x:ax 3:6-6:b-z:bz 4:7-9:a-z", "1 3 2 4"},
		{"one of those rewritten for its tombstones", "2:6-6:a-x:ax 3:6-6:b-z:bz 4:6-6:a-a:a", "4 3"},
		{"those merged", "1:1-5:a-z 2:6-6:a-x:ax 3:6-6:b-z:bz 4:1-6:a-z", "4"},
		{"keys that cannot be read", "1:1-5:?-? 2:1-9:a-z", "2"},
	} {
		var found []keyRange
		for word := range strings.FieldsSeq(c.found) {
			p := strings.FieldsFunc(word, func(r rune) bool { return r == ':' || r == '-' })
			number := func(s string) (n uint64) {
				for _, d := range s {
					n = 10*n + uint64(d-'0')
				}
				return n
			}
			f := keyRange{number: number(p[0]), first: p[3], last: p[4], known: p[3] != "?", series: roaring.New()}
			if len(p) > 5 {
				for _, c := range p[5] {
					f.series.Add(uint32(c))
				}
			} else {
				f.series.AddRange(uint64(p[3][0]), uint64(p[4][0])+1)
			}
			f.File = manifest.File{Name: p[0], MinSequence: number(p[1]), MaxSequence: number(p[2])}
			found = append(found, f)
		}
		for range 2 { // the order of the directory does not matter
			slices.Reverse(found)
			var got []string
			for _, f := range currentFiles(slices.Clone(found)) {
				got = append(got, f.Name)
			}
			if text := strings.Join(got, " "); text != c.want {
				t.Errorf("%s: %s, want %s", c.what, text, c.want)
			}
		}
	}
}
