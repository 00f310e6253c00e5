package series

import "slices"

const keyPageBits = 8

// keyPages holds the keys of ids that are not on disk yet: pages of 256 ids,
// 16 bytes an id besides the text, which belongs to whoever created the key.
type keyPages struct {
	pages map[uint32]*[1 << keyPageBits]string
	n     int
	text  int
}

func (p *keyPages) get(id uint32) (string, bool) {
	page := p.pages[id>>keyPageBits]
	if page == nil {
		return "", false
	}
	k := page[id&(1<<keyPageBits-1)]
	return k, k != ""
}

// bytes returns about what the keys take in memory.
func (p *keyPages) bytes() int64 { return int64(p.text) + 16*int64(p.n) }

func (p *keyPages) set(id uint32, key string) {
	page := p.pages[id>>keyPageBits]
	if page == nil {
		if p.pages == nil {
			p.pages = make(map[uint32]*[1 << keyPageBits]string)
		}
		page = new([1 << keyPageBits]string)
		p.pages[id>>keyPageBits] = page
	}
	slot := &page[id&(1<<keyPageBits-1)]
	if *slot == "" {
		p.n++
		p.text += len(key)
	}
	*slot = key
}

// each calls fn in ascending order of id.
func (p *keyPages) each(fn func(id uint32, key string)) {
	numbers := make([]uint32, 0, len(p.pages))
	for n := range p.pages {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		for i, k := range p.pages[n] {
			if k != "" {
				fn(n<<keyPageBits|uint32(i), k)
			}
		}
	}
}
