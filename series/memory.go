package series

import (
	"maps"
	"slices"
)

const keyPageBits = 8

// keyPages holds the keys of ids that are not on disk yet: pages of 256 ids,
// 16 bytes an id besides the text, which belongs to whoever created the key.
type keyPages struct {
	pages map[uint32]*keyPage
	n     int // keys
	text  int // bytes of keys
}

type keyPage struct {
	keys [1 << keyPageBits]string
	n    int // keys that are not ""
}

func (p *keyPages) get(id uint32) (string, bool) {
	page := p.pages[id>>keyPageBits]
	if page == nil {
		return "", false
	}
	k := page.keys[id&(1<<keyPageBits-1)]
	return k, k != ""
}

// bytes returns about what the keys take in memory.
func (p *keyPages) bytes() int64 { return int64(p.text) + 16*int64(p.n) }

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
		page.n++
		p.n++
		p.text += len(key)
	}
	*slot = key
}

// take removes and returns the key of id.
func (p *keyPages) take(id uint32) (string, bool) {
	page := p.pages[id>>keyPageBits]
	if page == nil {
		return "", false
	}
	slot := &page.keys[id&(1<<keyPageBits-1)]
	key := *slot
	if key == "" {
		return "", false
	}
	*slot = ""
	p.n--
	p.text -= len(key)
	if page.n--; page.n == 0 {
		delete(p.pages, id>>keyPageBits)
	}
	return key, true
}

// each calls fn in ascending order of id.
func (p *keyPages) each(fn func(id uint32, key string)) {
	for _, n := range slices.Sorted(maps.Keys(p.pages)) {
		for i, k := range p.pages[n].keys {
			if k != "" {
				fn(n<<keyPageBits|uint32(i), k)
			}
		}
	}
}
