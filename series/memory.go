package series

import (
	"maps"
	"slices"
)

const keyPageBits = 8

// keyPages holds the keys of ids that are not on disk yet: pages of 256 ids,
// 16 bytes an id besides the text, which belongs to whoever created the key. Some
// may be claims, see File.Claim.
type keyPages struct {
	pages  map[uint32]*keyPage
	n      int // keys, claims among them
	text   int // bytes of keys, claims among them
	claims int
	loose  int // bytes of the claims
}

type keyPage struct {
	keys    [1 << keyPageBits]string
	claimed [1 << keyPageBits / 64]uint64
}

func (p *keyPage) claim(i uint32) (word *uint64, bit uint64) {
	return &p.claimed[i/64], 1 << (i % 64)
}

func (p *keyPages) get(id uint32) (string, bool) {
	page := p.pages[id>>keyPageBits]
	if page == nil {
		return "", false
	}
	k := page.keys[id&(1<<keyPageBits-1)]
	return k, k != ""
}

// bytes returns about what the keys take in memory, claimedBytes what the claims
// take of it.
func (p *keyPages) bytes() int64        { return int64(p.text) + 16*int64(p.n) }
func (p *keyPages) claimedBytes() int64 { return int64(p.loose) + 16*int64(p.claims) }

func (p *keyPages) set(id uint32, key string) {
	page := p.pages[id>>keyPageBits]
	if page == nil {
		if p.pages == nil {
			p.pages = make(map[uint32]*keyPage)
		}
		page = new(keyPage)
		p.pages[id>>keyPageBits] = page
	}
	slot := &page.keys[id&(1<<keyPageBits-1)]
	if *slot == "" {
		p.n++
		p.text += len(key)
	}
	*slot = key
}

// claim is set of a key that is to be confirmed.
func (p *keyPages) claim(id uint32, key string) {
	p.set(id, key)
	word, bit := p.pages[id>>keyPageBits].claim(id & (1<<keyPageBits - 1))
	*word |= bit
	p.claims++
	p.loose += len(key)
}

// confirm reports whether id was a claim, which it is no more.
func (p *keyPages) confirm(id uint32) bool {
	page := p.pages[id>>keyPageBits]
	if page == nil {
		return false
	}
	i := id & (1<<keyPageBits - 1)
	word, bit := page.claim(i)
	if *word&bit == 0 {
		return false
	}
	*word &^= bit
	p.claims--
	p.loose -= len(page.keys[i])
	return true
}

// split returns the keys without the claims, and the claims.
func (p *keyPages) split() (keys, claims keyPages) {
	if p.claims == 0 {
		return *p, keyPages{}
	}
	p.all(func(id uint32, key string, claimed bool) {
		if claimed {
			claims.claim(id, key)
		} else {
			keys.set(id, key)
		}
	})
	return keys, claims
}

// all calls fn in ascending order of id.
func (p *keyPages) all(fn func(id uint32, key string, claimed bool)) {
	for _, n := range slices.Sorted(maps.Keys(p.pages)) {
		page := p.pages[n]
		for i, k := range page.keys {
			if k != "" {
				word, bit := page.claim(uint32(i))
				fn(n<<keyPageBits|uint32(i), k, *word&bit != 0)
			}
		}
	}
}

// each is all without the claims.
func (p *keyPages) each(fn func(id uint32, key string)) {
	p.all(func(id uint32, key string, claimed bool) {
		if !claimed {
			fn(id, key)
		}
	})
}
