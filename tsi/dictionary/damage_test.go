package dictionary

import (
	"errors"
	"testing"

	"tsdbd/internal/binio"
)

// TestUnsoundPages reads pages of one value whose checksums are right and whose
// bytes are not: each ends the walk with its reason and the page's place.
func TestUnsoundPages(t *testing.T) {
	entry := func(bytes ...byte) []byte { // behind base 5, with its restart
		return append(append([]byte{5}, bytes...), 1, 0, 1, 0)
	}
	for name, c := range map[string]struct {
		page []byte
		want string // "" is a sound page
	}{
		"one value":             {entry(0x01, 'a', postingSingle), ""},
		"no restarts":           {[]byte{0}, "page too short"},
		"too many restarts":     {[]byte{5, 1, 0, 9, 0}, "bad restart count"},
		"restarts of others":    {[]byte{5, 0x01, 'a', 0, 1, 0, 1, 0, 2, 0}, "bad restart count"},
		"base of six bytes":     {[]byte{0xff, 0xff, 0xff, 0xff, 0xff, 1, 1, 0, 1, 0}, "bad base"},
		"no entry":              {entry(), "entry out of bounds"},
		"shares with none":      {entry(0x10, 0), "bad value length"},
		"longer than the page":  {entry(0x05, 'a', 0), "bad value length"},
		"length is cut":         {entry(0x0f, 0xff), "bad value length"},
		"no posting":            {entry(0x01, 'a'), "bad posting"},
		"id 0":                  {entry(0x01, 'a', postingSingle+9<<2), "bad id"},
		"list of none":          {entry(0x01, 'a', 0<<2|postingList, 1, 0), "bad id list"},
		"list longer than page": {entry(0x01, 'a', 2<<2|postingList, 9, 0, 1), "bad id list"},
		"more ids than bytes":   {entry(0x01, 'a', 3<<2|postingList, 2, 0, 1), "bad id list"},
		"bitmap longer":         {entry(0x01, 'a', 9<<2|postingRoaring, 1), "bad bitmap length"},
		"no offset":             {entry(0x01, 'a', 0<<2|postingElsewhere), "bad varint"},
	} {
		m := &memory{data: make([]byte, 7)}
		offset, size := m.write(c.page)
		cursor := (&Tag{pages: []pageRef{{offset: offset, size: int32(size), n: 1}}}).Cursor(m)
		found := cursor.Next()
		var damage *binio.CorruptError
		switch err := cursor.Err(); {
		case c.want == "":
			if ids, _ := cursor.Posting.IDs(nil); !found || err != nil || len(ids) != 1 || ids[0] != 5 {
				t.Errorf("%s: %v, %v", name, ids, err)
			}
		case found || !errors.As(err, &damage) || damage.Reason != "value page: "+c.want || damage.Offset != offset || damage.Path != m.Path():
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}
