package tsi

import (
	"strings"
	"sync/atomic"

	"github.com/RoaringBitmap/roaring/v2"
)

func compareStrings(a, b string) int { return strings.Compare(a, b) }

// idBits is a set of ids: a bit each, in pages of 4,096 ids. One goroutine at
// a time changes it, any number may call get meanwhile. Pages are small because
// there is a set for each shard, and shards of a few series may be many.
type idBits struct {
	pages atomic.Pointer[[]*idPage]
}

const (
	idPageBits = 12
	idPageMask = 1<<(idPageBits-6) - 1 // of the words of a page
)

type idPage [idPageMask + 1]atomic.Uint64

func (b *idBits) get(id uint32) bool {
	pages := b.pages.Load()
	if pages == nil || int(id>>idPageBits) >= len(*pages) {
		return false
	}
	p := (*pages)[id>>idPageBits]
	return p != nil && p[id>>6&idPageMask].Load()>>(id&63)&1 != 0
}

func (b *idBits) set(id uint32) {
	var pages []*idPage
	if p := b.pages.Load(); p != nil {
		pages = *p
	}
	hi := int(id >> idPageBits)
	if hi >= len(pages) || pages[hi] == nil {
		grown := make([]*idPage, max(hi+1, len(pages)))
		copy(grown, pages)
		grown[hi] = new(idPage)
		pages = grown
		b.pages.Store(&grown)
	}
	pages[hi][id>>6&idPageMask].Or(1 << (id & 63))
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
			(*b.pages.Load())[first>>idPageBits][first>>6&idPageMask].Or(word)
		}
	}
}

func (b *idBits) clear(id uint32) {
	pages := b.pages.Load()
	if pages == nil || int(id>>idPageBits) >= len(*pages) || (*pages)[id>>idPageBits] == nil {
		return
	}
	(*pages)[id>>idPageBits][id>>6&idPageMask].And(^uint64(1 << (id & 63)))
}
