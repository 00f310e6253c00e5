package tsi

import (
	"strings"
	"sync/atomic"

	"github.com/RoaringBitmap/roaring/v2"
)

func compareStrings(a, b string) int { return strings.Compare(a, b) }

// idBits is a set of ids: a bit each, in pages of 65,536 ids. One goroutine at
// a time changes it, any number may call get meanwhile.
type idBits struct {
	pages atomic.Pointer[[]*idPage]
}

type idPage [1024]atomic.Uint64

func (b *idBits) get(id uint32) bool {
	pages := b.pages.Load()
	if pages == nil || int(id>>16) >= len(*pages) {
		return false
	}
	p := (*pages)[id>>16]
	return p != nil && p[id>>6&1023].Load()>>(id&63)&1 != 0
}

func (b *idBits) set(id uint32) {
	var pages []*idPage
	if p := b.pages.Load(); p != nil {
		pages = *p
	}
	hi := int(id >> 16)
	if hi >= len(pages) || pages[hi] == nil {
		grown := make([]*idPage, max(hi+1, len(pages)))
		copy(grown, pages)
		grown[hi] = new(idPage)
		pages = grown
		b.pages.Store(&grown)
	}
	pages[hi][id>>6&1023].Or(1 << (id & 63))
}

// setAll sets every id of set.
func (b *idBits) setAll(set *roaring.Bitmap) {
	it := set.ManyIterator()
	buf := make([]uint32, 4096)
	for n := it.NextMany(buf); n > 0; n = it.NextMany(buf) {
		for i := 0; i < n; {
			word := uint64(0)
			first := buf[i]
			for ; i < n && buf[i]>>6 == first>>6; i++ {
				word |= 1 << (buf[i] & 63)
			}
			b.set(first)
			(*b.pages.Load())[first>>16][first>>6&1023].Or(word)
		}
	}
}

func (b *idBits) clear(id uint32) {
	pages := b.pages.Load()
	if pages == nil || int(id>>16) >= len(*pages) || (*pages)[id>>16] == nil {
		return
	}
	(*pages)[id>>16][id>>6&1023].And(^uint64(1 << (id & 63)))
}
